"""Each way a repository can fail to be served is a line; a sound one gives none."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnx
import pytest

from resources.anomaly_graph import anomaly_detector_graph
from resources.encoder_build import build_encoder
from resources.model_repository import ModelCard, ModelRepository
from resources.repository_validation import validate_repository
from tests.resources.tiny_encoder import DIMS, write_encoder

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def built(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("built")
    ignore = shutil.ignore_patterns("[0-9]*", ".*")
    shutil.copytree(project_root / "model_repository", root / "repository", ignore=ignore)
    source = f"dir:{write_encoder(root / 'encoder')}"
    build_encoder(ModelRepository(root / "repository"), source, root, MOMENT, lambda _: None)
    return root / "repository"


@pytest.fixture
def repository(built: Path, tmp_path: Path) -> ModelRepository:
    return ModelRepository(Path(shutil.copytree(built, tmp_path / "repository")))


def add_detector(repository: ModelRepository, dims: int) -> None:
    graph = anomaly_detector_graph(np.eye(2, dims, dtype=np.float32))
    repository.add_version("anomaly_detector", {"model.onnx": graph}, ModelCard(source="a test", created_at=MOMENT))


def test_a_sound_repository_has_no_problem(repository: ModelRepository) -> None:
    assert validate_repository(repository) == []
    add_detector(repository, DIMS)
    assert validate_repository(repository) == []


def edit(name: str, old: str, new: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        path = root / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return change


def drop_output_names(root: Path) -> None:
    path = root / "text_embedder" / "1" / "model.onnx"
    model = onnx.load(path)
    model.graph.output[0].name = "elsewhere"
    onnx.save(model, path)


@pytest.mark.parametrize(
    ("break_it", "problem"),
    [
        (edit("tokenizer/config.pbtxt", "output [", "output ("), "is not a model configuration"),
        (edit("tokenizer/config.pbtxt", '"tokenizer"', '"other"'), "names the model 'other'"),
        (
            edit("text_embedder/configs/gpu.pbtxt", "TYPE_FP32", "TYPE_FP16"),
            "gpu.pbtxt has other outputs than config.pbtxt",
        ),
        (
            edit("text_embedder/configs/gpu.pbtxt", "max_batch_size: 128", "max_batch_size: 64"),
            "gpu.pbtxt has other max_batch_size",
        ),
        (
            edit("feedback_encoder/config.pbtxt", "dims: [ 8 ]", "dims: [ 9 ]"),
            "promises 'embeddings' as FP32 [9], its steps give FP32 [8]",
        ),
        (
            edit("feedback_encoder/config.pbtxt", 'model_name: "tokenizer"', 'model_name: "absent"'),
            "chains absent, which has no readable config.pbtxt",
        ),
        (
            edit("feedback_encoder/config.pbtxt", 'input_map { key: "input_ids"', 'input_map { key: "ids"'),
            "gives text_embedder 'input_ids' as 'ids'",
        ),
        (
            edit("feedback_encoder/config.pbtxt", 'output_map { key: "truncated"', 'output_map { key: "cut"'),
            "takes 'cut' from tokenizer, which has no such output",
        ),
        (lambda root: shutil.rmtree(root / "tokenizer" / "1"), "tokenizer has no version: build the models"),
        (lambda root: shutil.rmtree(root / "feedback_encoder" / "1"), "feedback_encoder has no version"),
        (lambda root: (root / "tokenizer" / "2").mkdir(), "tokenizer version 2 is incomplete: remove "),
        (
            lambda root: (root / "tokenizer" / "1" / "tokenizer.json").write_text("{}"),
            "tokenizer version 1: tokenizer.json has SHA-256 ",
        ),
        (edit("tokenizer/model.py", "def ", "def  "), "was built with another model.py than"),
        (edit("tokenizer/1/model.json", '"version": 1', '"version": 3'), "the card of tokenizer version 3"),
        (
            lambda root: (root / "text_embedder" / "1" / "model.onnx").write_bytes(b"<html>"),
            "text_embedder version 1: model.onnx is not a valid ONNX model",
        ),
        (drop_output_names, "model.onnx is not a valid ONNX model"),
        (
            lambda root: add_detector(ModelRepository(root), 9),
            "1: input embeddings is FP32 [-1, 9], its configuration says FP32 [-1, 8]",
        ),
    ],
)
def test_each_problem_is_one_line_that_names_it(
    repository: ModelRepository, break_it: Callable[[Path], object], problem: str
) -> None:
    break_it(repository.path)

    problems = validate_repository(repository)

    assert any(problem in line for line in problems), problems
    assert not any("\n" in line for line in problems)


def test_a_graph_with_other_tensors_is_a_problem(repository: ModelRepository) -> None:
    graph = anomaly_detector_graph(np.eye(2, DIMS, dtype=np.float32))
    repository.add_version("text_embedder", {"model.onnx": graph}, ModelCard(source="a test", created_at=MOMENT))

    problems = validate_repository(repository)

    inputs = "has the inputs ['embeddings'], its configuration ['attention_mask', 'input_ids']"
    assert any(inputs in line for line in problems), problems
