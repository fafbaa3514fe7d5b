"""A server serves the CPU's graph, and refuses it where it gives other vectors than where it was built."""

import io
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from resources.embedded_triton import EmbeddedTriton
from resources.encoder_build import CPU_GRAPH_NAME, SELF_TEST_NAME, build_encoder
from resources.encoder_self_test import passes
from resources.errors import ServerUnavailableError
from resources.model_repository import ModelRepository
from resources.triton import TritonResource
from tests.resources.tiny_bert import HIDDEN, write_bert

IDS = np.array([[2, 5, 6, 3], [2, 7, 3, 0]], dtype=np.int32)
MASK = (IDS != 0).astype(np.int32)


@pytest.fixture(scope="module")
def version(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version of an embedder, in a repository that holds nothing else."""
    root = tmp_path_factory.mktemp("built")
    repository = root / "repository"
    shutil.copytree(project_root / "model_repository", repository, ignore=shutil.ignore_patterns("[0-9]*", ".*"))
    folder = write_bert(root / "bert")
    build_encoder(ModelRepository(repository), f"dir:{folder}", root, datetime(2026, 1, 2, tzinfo=UTC), lambda _: None)
    for other in ("tokenizer", "feedback_encoder", "anomaly_detector"):
        shutil.rmtree(repository / other)
    return repository / "text_embedder" / "1"


@pytest.fixture
def embedded(version: Path, triton_environment: Path, tmp_path: Path) -> Iterator[EmbeddedTriton]:
    server = EmbeddedTriton(repository=version.parents[1], environment=triton_environment, state=tmp_path / "state")
    yield server
    server.stop()


def with_swapped_vectors(test: Path) -> bytes:
    """A self-test that says of each text what another one should give."""
    with np.load(test) as held:
        content = {**held, "embeddings": held["embeddings"][::-1]}
    file = io.BytesIO()
    np.savez(file, **content)
    return file.getvalue()


def test_ten_texts_travel_with_the_graph(version: Path) -> None:
    with np.load(version / SELF_TEST_NAME) as held:
        assert len(held["input_ids"]) == 10
        assert held["embeddings"].shape == (10, HIDDEN)
    assert passes(version / CPU_GRAPH_NAME, version / SELF_TEST_NAME)


def test_a_graph_that_gives_other_vectors_does_not_pass(version: Path, tmp_path: Path) -> None:
    other = tmp_path / SELF_TEST_NAME
    other.write_bytes(with_swapped_vectors(version / SELF_TEST_NAME))

    assert not passes(version / CPU_GRAPH_NAME, other)


@pytest.mark.integration
def test_a_server_serves_the_graph_and_refuses_it_where_it_disagrees(version: Path, embedded: EmbeddedTriton) -> None:
    resource = TritonResource(url=embedded.ensure().url)
    feed = {"input_ids": IDS, "attention_mask": MASK}
    session = onnxruntime.InferenceSession(version / CPU_GRAPH_NAME, providers=["CPUExecutionProvider"])

    assert resource.metadata("text_embedder").file == CPU_GRAPH_NAME
    served = resource.infer("text_embedder", feed)["embeddings"]
    np.testing.assert_allclose(served, session.run(None, feed)[0], atol=1e-6)

    shutil.copytree(version, version.with_name("2"))
    (version.with_name("2") / SELF_TEST_NAME).write_bytes(with_swapped_vectors(version / SELF_TEST_NAME))
    with pytest.raises(ServerUnavailableError, match=r"self-test get other vectors .* `feedback models build`"):
        embedded.ensure()
    # The version before goes on serving.
    assert resource.infer("text_embedder", feed)["embeddings"].shape == (2, HIDDEN)
