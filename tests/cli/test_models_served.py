"""`feedback models list` says which version serves, without asking a server."""

import json
import shutil
from pathlib import Path

import pytest

from resources.model_repository import ModelRepository
from resources.version_pins import pin_steps
from resources.whole_file import write_whole
from tests.resources.test_encoder_build import build
from tests.resources.tiny_encoder import tiny_encoder, write_encoder


@pytest.fixture
def repository(project: Path, project_root: Path, tmp_path: Path) -> ModelRepository:
    """Two versions of a tiny encoder, the newer unpinned."""
    copy = project / "model_repository"
    shutil.copytree(project_root / "model_repository", copy, ignore=shutil.ignore_patterns("[0-9]*", ".*"))
    made = ModelRepository(copy)
    for name, positions in (("one", 512), ("two", 256)):
        build(made, write_encoder(tmp_path / name, tiny_encoder(positions=positions)))
    return made


def serving(feedback) -> dict[str, int]:
    rows = json.loads(feedback("models", "list", "--format", "json").stdout)
    return {row["model"]: row["version"] for row in rows if row["served"]}


def test_the_list_says_which_version_serves(feedback, repository: ModelRepository, project: Path) -> None:
    assert serving(feedback) == {"tokenizer": 1, "text_embedder": 2, "feedback_encoder": 2}
    for path, text in pin_steps(repository, "feedback_encoder", {"text_embedder": 1, "tokenizer": 1}).items():
        write_whole(path, text)
    assert serving(feedback) == {"tokenizer": 1, "text_embedder": 1, "feedback_encoder": 1}
    assert feedback("models", "list").stdout.count("serves") == 3
    assert not (project / ".triton").exists()
