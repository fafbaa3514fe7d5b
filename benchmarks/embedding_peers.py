"""The peers' processes, seen from here: their environment, their graphs, and one question at a time."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from benchmarks.embedding_paths import Served, held
from benchmarks.embedding_texts import PROJECT
from resources.encoder_pace import cores

if TYPE_CHECKING:
    from benchmarks.embedding_paths import Vectors

PYTHON = PROJECT / ".bench-venv" / "bin" / "python"
PEERS = ("sentence_transformers", "fastembed", "ray", "daft")
BATCHES = (8, 16, 32, 64)
_LEAST_COSINE = 0.99
_END_S = 30


class Peer:
    """One peer, started and ready, at the batch size that is fastest for it."""

    def __init__(self, name: str, process: "subprocess.Popen[str]", requests: IO[str], answers: IO[str]) -> None:
        self.name = name
        self.process = process
        self._requests = requests
        self._answers = answers
        self._batch: dict[int, int] = {}

    def choose_batch(self, texts: Sequence[str], kind: int) -> int:
        """Finds the batch size for a kind of texts, warming the peer up; gives it."""
        self._ask(texts, BATCHES[0])
        taken = {batch: self._ask(texts, batch)["seconds"] for batch in BATCHES}
        self._batch[kind] = min(taken, key=lambda batch: taken[batch])
        return self._batch[kind]

    def seconds(self, texts: Sequence[str], kind: int) -> float:
        """How long the peer says that it took."""
        return float(self._ask(texts, self._batch[kind])["seconds"])

    def check(self, texts: Sequence[str], vectors: "Vectors") -> None:
        """Refuse a peer that does not compute the same vectors."""
        import numpy as np

        answer = self._ask(texts, BATCHES[-1])
        held(self.name, np.array(answer["vectors"], np.float32), vectors[:: answer["step"]], _LEAST_COSINE)

    def read(self) -> dict[str, Any]:
        """The next line of the peer."""
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"the peer {self.name} ended: {self.process.wait()}; see above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ask(self, texts: Sequence[str], batch: int) -> dict[str, Any]:
        self._requests.write(json.dumps({"texts": list(texts), "batch": batch}) + "\n")
        self._requests.flush()
        return self.read()


@contextmanager
def running(names: Sequence[str], given: Served) -> Iterator[list[Peer]]:
    """Start these peers on the fp32 graph of the served version; they end with the context."""
    if names and not PYTHON.is_file():
        raise RuntimeError(f"{PYTHON} is missing: run `make bench ONLY=…`, which makes the peers' environment")
    with ExitStack() as started:
        peers: list[Peer] = []
        for name in names:
            folder = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="feedback-bench-")))
            shutil.copy(given.fp32, folder / "graph.onnx")
            shutil.copy(given.tokenizer, folder / "tokenizer.json")
            _write_int64(folder / "graph.onnx", folder / "graph-int64.onnx")
            peers.append(_start(name, folder, started))
        yield peers


def _start(name: str, folder: Path, started: ExitStack) -> Peer:
    command = [str(PYTHON), str(PROJECT / "benchmarks/peers/encode.py"), name, str(folder), str(cores())]
    log = started.enter_context((folder / "log").open("w+"))
    process = started.enter_context(
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder, env=_variables()
        )
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the peer has no pipes")
    peer = Peer(name, process, process.stdin, process.stdout)
    try:
        peer.read()
    except RuntimeError:
        log.seek(0)
        raise RuntimeError(f"the peer {name} did not start: {log.read().strip().splitlines()[-1]}") from None
    return peer


def _variables() -> dict[str, str]:
    # Nothing is to be fetched or reported; progress bars would be timed too.
    quiet = ("HF_HUB_OFFLINE", "DAFT_PROGRESS_BAR", "RAY_USAGE_STATS_ENABLED")
    return {**os.environ, **dict(zip(quiet, ("1", "0", "0"), strict=True)), "TOKENIZERS_PARALLELISM": "true"}


def _write_int64(source: Path, target: Path) -> None:
    """The same graph with the inputs that FastEmbed feeds: INT64."""
    import onnx
    from onnx import TensorProto, helper

    model = onnx.load(source)
    for given in model.graph.input:
        inner = f"{given.name}:int32"
        for node in model.graph.node:
            for place, used in enumerate(node.input):
                if used == given.name:
                    node.input[place] = inner
        model.graph.node.insert(0, helper.make_node("Cast", [given.name], [inner], to=TensorProto.INT32))
        given.type.tensor_type.elem_type = TensorProto.INT64
    onnx.save(model, target)
