"""The ways to vectors that need only the project: its own path through Triton, and onnxruntime in process."""

import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.embedding_texts import PROJECT
from platform_assets.settings import Settings
from resources.embedded_triton import EmbeddedServer, EmbeddedTriton
from resources.encoder_pace import cores
from resources.model_repository import ModelRepository
from resources.text_encoder import TextEncoder
from resources.triton import TritonResource

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

    Vectors = NDArray[np.float32]

BUDGETS = (256, 512)
_NAIVE_ROWS = 32


@dataclass(frozen=True)
class Served:
    """The project's models on a server of the benchmark's own, with the settings of the project.

    Attributes:
        triton: The server as a resource.
        server: Its process and ports.
        encoder: What the embeddings asset encodes with.
        graph: The graph that is served.
        fp32: The graph of the same version in standard operators.
        tokenizer: The tokenizer.json that is served.
        token_limit: Tokens at which it cuts a text.
    """

    triton: TritonResource
    server: EmbeddedServer
    encoder: TextEncoder
    graph: Path
    fp32: Path
    tokenizer: Path
    token_limit: int


@contextmanager
def served() -> Iterator[Served]:
    """Start a server and stop it at the end; the project's own server is left alone."""
    settings = Settings(PROJECT)
    configured = settings.triton()
    repository = ModelRepository(Path(configured.repository))
    with (
        tempfile.TemporaryDirectory(prefix="feedback-bench-") as state,
        EmbeddedTriton(
            repository=repository.path, environment=Path(configured.environment), state=Path(state), idle_stop_s=0
        ) as server,
    ):
        triton = TritonResource(**{**configured.model_dump(), "url": server.url, "state": state})
        steps = triton.metadata("feedback_encoder").steps
        embedder, tokenizer = (triton.metadata(name, steps[name]) for name in ("text_embedder", "tokenizer"))
        graphs = repository.version_path("text_embedder", int(embedder.version))
        yield Served(
            triton=triton,
            server=server,
            encoder=TextEncoder(
                triton, token_budget=settings.pace().token_budget, one_trip=settings.platform.triton.one_trip
            ),
            graph=graphs / (embedder.file or "model.onnx"),
            fp32=graphs / "model.onnx",
            tokenizer=repository.version_path("tokenizer", int(tokenizer.version)) / "tokenizer.json",
            token_limit=repository.card("tokenizer", int(tokenizer.version)).token_limit or 512,
        )


class InProcess:
    """onnxruntime over the graph that is served, tokenizing included."""

    def __init__(self, given: Served) -> None:
        self._given = given
        self._sessions: dict[tuple[int, int], list[InferenceSession]] = {}
        self._tokenizer = _tokenizer(given)

    def at_the_limit(self, texts: Sequence[str], budget: int) -> "Vectors":
        """Sorted by length, cut by padded tokens, a session of one thread for each core."""
        sessions = self._of(cores(), threads=1)
        ids = [one.ids for one in self._tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]), reverse=True)
        batches: list[list[int]] = []
        limit = 0
        for place in order:
            if not batches or len(batches[-1]) >= limit:
                batches.append([])
                limit = max(budget // len(ids[place]), 1)
            batches[-1].append(place)
        return _run(sessions, batches, ids)

    def naive(self, texts: Sequence[str]) -> "Vectors":
        """Batches of 32 as they come, one after the other, one session of as many threads as there are cores."""
        sessions = self._of(1, threads=cores())
        ids = [one.ids for one in self._tokenizer.encode_batch(list(texts))]
        places = range(len(ids))
        return _run(sessions, [list(places[at : at + _NAIVE_ROWS]) for at in places[::_NAIVE_ROWS]], ids)

    def _of(self, count: int, *, threads: int) -> "list[InferenceSession]":
        import onnxruntime

        if (count, threads) not in self._sessions:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            options.inter_op_num_threads = 1
            self._sessions[count, threads] = [
                onnxruntime.InferenceSession(str(self._given.graph), options, ["CPUExecutionProvider"])
                for _ in range(count)
            ]
        return self._sessions[count, threads]


def _tokenizer(given: Served) -> "Tokenizer":
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(given.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(given.token_limit)
    return tokenizer


def _run(sessions: "Sequence[InferenceSession]", batches: Sequence[list[int]], ids: Sequence[list[int]]) -> "Vectors":
    """Each session takes the next batch when it is free; the vectors are in the order of the texts."""
    import numpy as np

    vectors: list[Vectors] = [np.empty(0, np.float32)] * len(batches)
    waiting = iter(enumerate(batches))
    lock = threading.Lock()

    def work(session: "InferenceSession") -> None:
        while True:
            with lock:
                number, batch = next(waiting, (-1, []))
            if number < 0:
                return
            longest = max(len(ids[place]) for place in batch)
            padded = np.zeros((len(batch), longest), np.int32)
            mask = np.zeros((len(batch), longest), np.int32)
            for row, place in enumerate(batch):
                padded[row, : len(ids[place])] = ids[place]
                mask[row, : len(ids[place])] = 1
            (vectors[number],) = session.run(None, {"input_ids": padded, "attention_mask": mask})

    with ThreadPoolExecutor(len(sessions)) as pool:
        list(pool.map(work, sessions))
    found = np.concatenate(vectors)
    placed = np.empty_like(found)
    placed[[place for batch in batches for place in batch]] = found
    return placed


def cosine(one: "Vectors", other: "Vectors") -> float:
    """The least cosine of any two rows."""
    import numpy as np

    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(((one * other).sum(axis=1) / lengths).min())


def held(what: str, one: "Vectors", other: "Vectors", least: float) -> None:
    """Refuse to compare the speed of things that compute something else."""
    if (found := cosine(one, other)) < least:
        raise RuntimeError(f"{what} computes other vectors: least cosine {found:.4f}, expected at least {least}")
