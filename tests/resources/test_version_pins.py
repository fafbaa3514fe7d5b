"""Pins are written into the shipped configurations without touching anything else, and builds do not switch."""

import shutil
from pathlib import Path

import pytest

from resources.errors import ConfigurationError
from resources.model_config import read_config
from resources.model_promotion import hold_served, parts_of, version_with
from resources.model_repository import ModelRepository
from resources.version_pins import (
    is_pinned,
    loaded_versions,
    pin_loaded,
    pin_steps,
    step_versions,
    unpinned,
    without_pins,
)
from resources.whole_file import write_whole
from tests.resources.test_encoder_build import build
from tests.resources.tiny_encoder import tiny_encoder, write_encoder

ENSEMBLE = "feedback_encoder"


@pytest.fixture
def repository(project_root: Path, tmp_path: Path) -> ModelRepository:
    """The project's repository with two versions of an encoder, the second held back or not as a test does it."""
    copy = tmp_path / "repository"
    shutil.copytree(project_root / "model_repository", copy, ignore=shutil.ignore_patterns("[0-9]*", ".*"))
    made = ModelRepository(copy)
    made_into = [(build(made, write_encoder(tmp_path / name, tiny_encoder(positions=size)))) for name, size in PAIR]
    assert [one["text_embedder"] for one in made_into] == [1, 2]
    return made


PAIR = (("one", 512), ("two", 256))


def write(texts: dict[Path, str]) -> None:
    for path, text in texts.items():
        write_whole(path, text)


def configurations(repository: ModelRepository) -> dict[Path, str]:
    return {path: path.read_text() for model in repository.models() for path in repository.configs(model)}


def test_as_shipped_the_newest_is_served(repository: ModelRepository) -> None:
    assert not is_pinned(repository, ENSEMBLE)
    assert step_versions(repository, ENSEMBLE) == {"tokenizer": 1, "text_embedder": 2}
    assert loaded_versions(repository, "text_embedder") == [2]


def test_pins_are_read_back_and_can_be_taken_out_again(repository: ModelRepository) -> None:
    before = configurations(repository)
    write(pin_steps(repository, ENSEMBLE, {"tokenizer": 1, "text_embedder": 1}, own=1))
    write(pin_loaded(repository, "text_embedder", [2, 1]))
    assert step_versions(repository, ENSEMBLE) == {"tokenizer": 1, "text_embedder": 1}
    assert [step.version for step in read_config(repository.configs(ENSEMBLE)[0]).steps] == [1, 1]
    assert loaded_versions(repository, ENSEMBLE) == [1]
    for path in repository.configs("text_embedder"):
        assert read_config(path).versions.specific == (1, 2), "also for a GPU"
    pinned = configurations(repository)
    assert {path: without_pins(text) for path, text in pinned.items()} == {
        path: without_pins(text) for path, text in before.items()
    }
    write(unpinned(repository, ENSEMBLE))
    assert configurations(repository) == before


def test_another_change_is_not_taken_for_a_pin(repository: ModelRepository) -> None:
    text = repository.configs("text_embedder")[0].read_text()
    assert without_pins(text) != without_pins(text.replace("count: 2", "count: 3"))


def test_a_configuration_without_a_policy_gets_one(repository: ModelRepository) -> None:
    path = repository.configs("tokenizer")[0]
    path.write_text("\n".join(line for line in path.read_text().splitlines() if "version_policy" not in line))
    before = path.read_text()
    write(pin_loaded(repository, "tokenizer", [1]))
    assert read_config(path).versions.specific == (1,)
    assert without_pins(path.read_text()) == without_pins(before)


def test_a_step_that_cannot_be_pinned_is_named(repository: ModelRepository) -> None:
    path = repository.configs(ENSEMBLE)[0]
    path.write_text(path.read_text().replace("      model_version: -1\n", ""))
    with pytest.raises(ConfigurationError, match=r"config\.pbtxt: write the step of tokenizer as"):
        pin_steps(repository, ENSEMBLE, {"tokenizer": 1})


def test_what_a_version_of_the_ensemble_stands_for(repository: ModelRepository) -> None:
    assert parts_of(repository, ENSEMBLE, 1) == {"tokenizer": 1, "text_embedder": 1}
    assert version_with(repository, ENSEMBLE, {"text_embedder": 1}) == 1
    assert version_with(repository, ENSEMBLE, {"tokenizer": 1}) == 2
    with pytest.raises(ConfigurationError, match=r"has no version 7 \(it has 1, 2\)"):
        parts_of(repository, ENSEMBLE, 7)
    with pytest.raises(ConfigurationError, match="is made of text_embedder 7"):
        version_with(repository, ENSEMBLE, {"text_embedder": 7})


def test_a_first_build_and_a_repeated_one_stay_as_they_are(repository: ModelRepository) -> None:
    before = configurations(repository)
    assert hold_served(repository, ENSEMBLE, before=[], built=1) == ""
    assert hold_served(repository, ENSEMBLE, before=[1, 2], built=2) == ""
    assert configurations(repository) == before


def test_a_newer_build_is_held_back_until_it_is_promoted(repository: ModelRepository) -> None:
    line = hold_served(repository, ENSEMBLE, before=[1], built=2)
    assert "version 2 is built and not served" in line
    assert "`feedback models promote feedback_encoder 2`" in line
    assert step_versions(repository, ENSEMBLE) == {"tokenizer": 1, "text_embedder": 1}
    assert loaded_versions(repository, "text_embedder") == [1]
    assert hold_served(repository, ENSEMBLE, before=[1, 2], built=2) == line, "and it is said again"


def test_a_former_version_that_is_gone_or_does_not_fit_gives_way(repository: ModelRepository) -> None:
    shipped = configurations(repository)
    hold_served(repository, ENSEMBLE, before=[1], built=2)
    config = repository.configs("text_embedder")[0]
    held = config.read_text()
    config.write_text(f'default_model_filename: "model.next.onnx"\n{_without_file(held)}')
    assert "has no model.next.onnx" in hold_served(repository, ENSEMBLE, before=[1, 2], built=2)
    assert not is_pinned(repository, ENSEMBLE)

    config.write_text(held)
    write(pin_steps(repository, ENSEMBLE, {"text_embedder": 1}))
    repository.remove_version("text_embedder", 1)
    line = hold_served(repository, ENSEMBLE, before=[1, 2], built=2)
    assert "version 2 is served from now on" in line
    assert "text_embedder version 1 is not in" in line
    assert configurations(repository) == shipped


def _without_file(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "default_model_filename" not in line)


def test_a_former_version_of_another_size_gives_way(repository: ModelRepository, tmp_path: Path) -> None:
    built = build(repository, write_encoder(tmp_path / "small", tiny_encoder(dims=5)))
    line = hold_served(repository, ENSEMBLE, before=[1, 2], built=built[ENSEMBLE])
    assert "gives vectors of 8 numbers, version 3 of 5" in line
    assert not is_pinned(repository, ENSEMBLE)
