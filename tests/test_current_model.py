from datetime import UTC, datetime
from pathlib import Path

import pytest

from platform_assets.current_model import DETECTOR, model_hash
from resources.errors import ConfigurationError
from resources.model_repository import ModelCard, ModelRepository, sha256


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / DETECTOR).mkdir()
    (tmp_path / DETECTOR / "config.pbtxt").write_text(f'name: "{DETECTOR}"')
    card = ModelCard(source="a test", created_at=datetime(2026, 9, 1, tzinfo=UTC))
    assert ModelRepository(tmp_path).add_version(DETECTOR, {"model.onnx": b"graph"}, card) == 1
    return tmp_path


def test_a_version_is_known_by_the_hash_of_its_graph(repository: Path) -> None:
    assert model_hash(repository, DETECTOR, "1") == sha256(b"graph")[:16]


@pytest.mark.parametrize(("place", "version"), [("", "2"), ("elsewhere", "1")])
def test_a_version_that_is_not_at_hand_has_none(repository: Path, place: str, version: str) -> None:
    assert model_hash(repository / place, DETECTOR, version) == ""


def test_a_damaged_card_is_an_error_and_not_a_version_without_a_hash(repository: Path) -> None:
    (repository / DETECTOR / "1" / "model.json").write_text("{}")
    with pytest.raises(ConfigurationError, match=r"model\.json: "):
        model_hash(repository, DETECTOR, "1")
