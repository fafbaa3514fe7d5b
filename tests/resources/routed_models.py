"""The project's models behind `feedback_router`, on a server of their own, and what may be asked of it."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient.grpc import InferenceServerClient, InferInput, InferRequestedOutput

from resources.anomaly_graph import anomaly_detector_graph
from resources.embedded_triton import EmbeddedTriton
from resources.model_repository import ModelCard, ModelRepository
from resources.text_encoder import TextEncoder
from resources.triton import TritonResource
from tests.resources.conftest import write_model

ROUTER = "feedback_router"
ASKING = "asking_router"
"""The same router with a second step."""
DETECTOR = "anomaly_detector"
SECOND = "second_step"

KNOWN = ("The app crashes when I open it.", "Where is my parcel?", "I want my money back.", "Great service, thank you!")
OTHERS = ("The moon is made of cheese.", "Four violins and a cello.")
"""What the first and the second version of the detector know."""

_PATIENCE_S = 60
_CARD = ModelCard(source="a test", created_at=datetime(2026, 1, 2, tzinfo=UTC))


@dataclass(frozen=True)
class Routed:
    """The running models."""

    triton: TritonResource
    client: InferenceServerClient
    repository: ModelRepository

    def ask(
        self,
        texts: Sequence[str | bytes],
        outputs: Sequence[str] = (),
        *,
        model: str = ROUTER,
        **parameters: str | int | float,
    ) -> dict[str, np.ndarray]:
        """The outputs that are named, or all, of one request."""
        given = InferInput("text", [len(texts), 1], "BYTES")
        given.set_data_from_numpy(column(texts))
        answer = self.client.infer(
            model,
            [given],
            outputs=[InferRequestedOutput(name) for name in outputs] or None,
            parameters=parameters or None,
            client_timeout=_PATIENCE_S,
        )
        return {one.name: answer.as_numpy(one.name) for one in answer.get_response().outputs}

    def rows_seen_by(self, model: str) -> int:
        """Texts or vectors that a model, in whatever version, was sent so far."""
        return sum(one.inference_count for one in self.triton.models() if one.name == model)


def column(texts: Sequence[str | bytes]) -> NDArray[np.object_]:
    """Texts as a tensor [texts, 1]."""
    return np.array([[one.encode() if isinstance(one, str) else one] for one in texts], dtype=object)


@pytest.fixture(scope="session")
def routed(
    built_repository: Path, triton_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Routed]:
    """The models, two versions of a detector that came after the start, and a router that has a second step."""
    folder = tmp_path_factory.mktemp("routed")
    repository = ModelRepository(folder / "model_repository")

    def link_weights(source: str, target: str) -> None:
        (os.link if source.endswith(".onnx") else shutil.copy2)(source, target)

    def fitted(folder: str, names: list[str]) -> list[str]:
        # Tests before this one fit detectors of their own.
        return [name for name in names if Path(folder).name == DETECTOR and name.isdigit()]

    shutil.copytree(built_repository, repository.path, copy_function=link_weights, ignore=fitted)
    code = repository.path / ROUTER / "model.py"
    _write_asking_router(repository.path)
    for router in (ROUTER, ASKING):
        repository.add_version(router, {"model.py": code}, _CARD)
    _write_second_step(repository.path)

    server = EmbeddedTriton(repository=repository.path, environment=triton_environment, state=folder / "state")
    with server as running, InferenceServerClient(running.url) as client:
        triton = TritonResource(url=running.url)
        for texts in (KNOWN, OTHERS):
            graph = anomaly_detector_graph(TextEncoder(triton).encode(texts).embeddings)
            repository.add_version(DETECTOR, {"model.onnx": graph}, _CARD)
        triton.load_model(DETECTOR)
        yield Routed(triton, client, repository)


def _write_asking_router(repository: Path) -> None:
    shutil.copytree(repository / ROUTER, repository / ASKING, ignore=shutil.ignore_patterns("[1-9]*"))
    config = repository / ASKING / "config.pbtxt"
    text = config.read_text()
    for before, after in (
        (f'name: "{ROUTER}"', f'name: "{ASKING}"'),
        ("count: 2", "count: 1"),
        (
            'key: "second_step", value: { string_value: "" }',
            f'key: "second_step", value: {{ string_value: "{SECOND}" }}',
        ),
    ):
        assert before in text
        text = text.replace(before, after)
    config.write_text(text)


def _write_second_step(repository: Path) -> None:
    """Writes a model that repeats what it was sent; `fail` and `cut` it takes as orders."""
    write_model(
        repository,
        SECOND,
        """
        def execute(self, requests):
            return [self.answer(given(request, "text")) for request in requests]

        def answer(self, text):
            if b"fail" in text:
                return pb.InferenceResponse(error=pb.TritonError("out of\\nwords"))
            if b"cut" in text:
                text = text[:-1]
            return answer(answer=np.array([[b"about " + one] for one in text[:, 0]], dtype=object))
        """,
        inputs={"text": ("STRING", [1])},
        outputs={"answer": ("STRING", [1])},
        max_batch_size=128,
    )
