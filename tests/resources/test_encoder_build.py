"""Building adds every model of an encoder or none, and a repeated build changes nothing."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from resources.encoder_build import build_encoder
from resources.encoder_variants import FidelityLimits, choose_variant
from resources.errors import ConfigurationError, ResourceError
from resources.model_config import read_config
from resources.model_repository import CARD_NAME, ModelRepository, sha256
from resources.repository_validation import validate_repository
from tests.resources.tiny_bert import write_bert
from tests.resources.tiny_encoder import DIMS, tiny_encoder, write_encoder

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
FIRST = dict.fromkeys(["tokenizer", "text_embedder", "feedback_encoder", "feedback_router"], 1)


@pytest.fixture
def repository(project_root: Path, tmp_path: Path) -> ModelRepository:
    """The project's repository without a version, in a copy."""
    copy = tmp_path / "repository"
    shutil.copytree(project_root / "model_repository", copy, ignore=shutil.ignore_patterns("[0-9]*", ".*"))
    return ModelRepository(copy)


def build(
    repository: ModelRepository, folder: Path, moment: datetime = MOMENT, limits: FidelityLimits | None = None
) -> dict[str, int]:
    return build_encoder(repository, f"dir:{folder}", folder / "cache", moment, lambda _: None, limits)


def contents(repository: ModelRepository) -> dict[str, bytes]:
    """Every file but the writers' locks, which stay."""
    files = (path for path in repository.path.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path.relative_to(repository.path).as_posix(): path.read_bytes() for path in files}


def test_a_build_makes_a_repository_that_validates(repository: ModelRepository, tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")

    assert build(repository, folder) == FIRST

    assert validate_repository(repository) == []
    card = repository.card("text_embedder", 1)
    assert (card.dims, card.token_limit, card.source, card.created_at) == (DIMS, 16, f"dir:{folder}", MOMENT)
    assert set(repository.card("tokenizer", 1).files) == {"model.py", "tokenizer.json"}
    assert repository.card("feedback_encoder", 1).files == {}
    assert repository.version_path("feedback_encoder", 1).is_dir()
    assert repository.versions("anomaly_detector") == []


def test_a_checkpoint_gets_a_graph_for_gpus_and_the_best_one_for_cpus(
    repository: ModelRepository, tmp_path: Path
) -> None:
    folder = write_bert(tmp_path / "bert")

    assert build(repository, folder) == FIRST

    assert validate_repository(repository) == []
    card = repository.card("text_embedder", 1)
    assert set(card.files) == {"model.onnx", "model.cpu.onnx", "model.cpu.selftest.npz"}
    assert [variant.name for variant in card.variants] == ["fp32", "fp32-fused", "int8"]
    (served,) = (variant for variant in card.variants if variant.served)
    assert choose_variant(card.variants, FidelityLimits()) == served
    size = (repository.version_path("text_embedder", 1) / "model.cpu.onnx").stat().st_size
    assert size == served.bytes
    assert read_config(repository.path / "text_embedder" / "config.pbtxt").file == "model.cpu.onnx"


def test_an_export_is_one_graph_for_both(repository: ModelRepository, tmp_path: Path) -> None:
    build(repository, write_encoder(tmp_path / "encoder"))

    card = repository.card("text_embedder", 1)
    assert card.files["model.onnx"] == card.files["model.cpu.onnx"]
    assert [(variant.name, variant.served) for variant in card.variants] == [("as published", True)]


def test_a_token_limit_beyond_the_positions_is_refused(repository: ModelRepository, tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "bert")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 25}')

    with pytest.raises(ConfigurationError, match=r"model\.safetensors does not run on 25 tokens"):
        build(repository, folder)


def test_limits_decide_what_is_served(repository: ModelRepository, tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "bert")
    build(repository, folder)

    with pytest.raises(ResourceError, match="no graph is within the limits"):
        build(repository, folder, limits=FidelityLimits(mean_cosine=1.1))
    assert repository.versions("text_embedder") == [1]


def test_a_version_of_a_cpu_that_computes_otherwise_is_built_anew(repository: ModelRepository, tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "bert")
    build(repository, folder)
    # The same files, as another CPU would have recorded them.
    path = repository.version_path("text_embedder", 1) / "model.cpu.selftest.npz"
    with np.load(path) as held:
        content = {**held, "embeddings": held["embeddings"][::-1]}
    np.savez(path, **content)
    card = repository.card("text_embedder", 1)
    card = card.model_copy(update={"files": {**card.files, path.name: sha256(path)}})
    (path.parent / CARD_NAME).write_text(card.model_dump_json())

    assert build(repository, folder)["text_embedder"] == 2


def test_every_configuration_gets_the_size_of_the_vectors(repository: ModelRepository, tmp_path: Path) -> None:
    comments = (repository.path / "text_embedder" / "config.pbtxt").read_text().count("#")

    build(repository, write_encoder(tmp_path / "encoder"))

    for model in ("text_embedder", "feedback_encoder", "anomaly_detector"):
        for path in repository.configs(model):
            config = read_config(path)
            assert {**config.inputs, **config.outputs}["embeddings"].dims == (DIMS,)
    assert (repository.path / "text_embedder" / "config.pbtxt").read_text().count("#") == comments


@pytest.mark.parametrize("write", [write_encoder, write_bert])
def test_a_repeated_build_changes_nothing(
    repository: ModelRepository, tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    folder = write(tmp_path / "encoder")
    versions = build(repository, folder)
    before = contents(repository)

    assert build(repository, folder, MOMENT + timedelta(days=1)) == versions
    assert contents(repository) == before


def test_another_encoder_is_a_new_version_of_each_model(repository: ModelRepository, tmp_path: Path) -> None:
    build(repository, write_encoder(tmp_path / "one"))

    versions = build(repository, write_encoder(tmp_path / "two", tiny_encoder(dims=5)))

    assert versions == {"tokenizer": 1, "text_embedder": 2, "feedback_encoder": 2, "feedback_router": 2}
    assert validate_repository(repository) == []


def test_a_graph_that_was_damaged_is_built_anew(repository: ModelRepository, tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    build(repository, folder)
    damaged = repository.version_path("text_embedder", 1) / "model.onnx"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert any("its card says" in problem for problem in validate_repository(repository))

    repository.remove_version("text_embedder", 1)
    assert build(repository, folder)["text_embedder"] == 1
    assert validate_repository(repository) == []


def test_an_encoder_that_fails_the_check_leaves_nothing(repository: ModelRepository, tmp_path: Path) -> None:
    before = contents(repository)
    folder = write_encoder(tmp_path / "encoder", tiny_encoder(sees_neighbours=True))

    with pytest.raises(ResourceError, match="alone and in a batch differs"):
        build(repository, folder)
    assert contents(repository) == before


def test_a_failure_after_the_first_version_leaves_nothing(repository: ModelRepository, tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    # The last configuration to be rewritten states the size in a way that cannot be set.
    path = repository.path / "text_embedder" / "configs" / "gpu.pbtxt"
    path.write_text(path.read_text().replace("dims: [ 384 ]", "dims: 384"))
    before = contents(repository)

    with pytest.raises(ConfigurationError, match=r"gpu\.pbtxt: write the tensor \"embeddings\" with"):
        build(repository, folder)
    assert contents(repository) == before


@pytest.mark.parametrize("missing", ["tokenizer/model.py", "text_embedder/config.pbtxt"])
def test_a_repository_without_its_sources_is_refused(repository: ModelRepository, tmp_path: Path, missing: str) -> None:
    (repository.path / missing).unlink()

    with pytest.raises(ConfigurationError, match="restore it from the sources"):
        build(repository, write_encoder(tmp_path / "encoder"))
