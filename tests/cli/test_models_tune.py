"""`feedback models tune` with real servers over a tiny encoder."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from platform_assets.settings import Settings
from resources.embedded_triton import EmbeddedTriton
from resources.encoder_build import build_encoder
from resources.encoder_pace import CPU_BUDGETS, GPU_BUDGETS, Pace, counts_to_try, machine, paces
from resources.encoder_tuning import instances_in
from resources.model_repository import ModelRepository
from tests.resources.tiny_encoder import write_encoder


@pytest.fixture(scope="module")
def tiny_repository(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    ignored = shutil.ignore_patterns("[0-9]*", ".*")
    shutil.copytree(project_root / "model_repository", folder / "models", ignore=ignored)
    encoder = write_encoder(folder / "encoder")
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    build_encoder(ModelRepository(folder / "models"), f"dir:{encoder}", folder / "cache", moment, lambda _: None)
    return folder / "models"


@pytest.fixture
def repository(tiny_repository: Path, triton_environment: Path, project: Path) -> Path:
    """The tiny models as the project's own."""
    (project / "config/tuned.yaml").unlink(missing_ok=True)
    (project / ".triton-venv").symlink_to(triton_environment)
    shutil.copytree(tiny_repository, project / "model_repository")
    return project / "model_repository"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    file = tmp_path / "texts.txt"
    file.write_text("".join(f"the app {'refund ' * (number % 9)}\n" for number in range(120)))
    return file


@pytest.fixture(scope="module")
def server_elsewhere(
    tiny_repository: Path, triton_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    state = tmp_path_factory.mktemp("elsewhere")
    with EmbeddedTriton(repository=tiny_repository, environment=triton_environment, state=state) as server:
        yield server.url


def test_the_choice_is_kept_for_this_machine_only(feedback, project: Path, repository: Path, texts: Path) -> None:
    config = repository / "text_embedder/config.pbtxt"
    before = config.read_text()
    result = feedback("models", "tune", "--texts", texts, "--seconds", "1", "--format", "json")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["for"] == machine()
    assert len(printed["trials"]) == sum(len(paces(count, CPU_BUDGETS)) for count in counts_to_try())
    assert max(trial["ratio_to_best"] for trial in printed["trials"]) == 1
    (chosen,) = [trial for trial in printed["trials"] if trial["chosen"]]

    file = project / "config/tuned.yaml"
    assert yaml.safe_load(file.read_text()) == {
        "machines": {machine(): {name: chosen[name] for name in ("instances", "in_flight", "token_budget")}}
    }
    assert instances_in(config) == chosen["instances"]
    assert config.read_text().count("#") == before.count("#")
    settings = Settings(project)
    assert settings.pace() == Pace(chosen["token_budget"], chosen["in_flight"])
    assert settings.triton().in_flight == chosen["in_flight"]
    assert not (project / ".triton").exists()


def test_a_server_elsewhere_is_tuned_as_it_is(
    feedback, project: Path, repository: Path, texts: Path, server_elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_URL", server_elsewhere)
    config = (repository / "text_embedder/config.pbtxt").read_text()
    result = feedback("models", "tune", "--texts", texts, "--seconds", "1", "--dry-run")
    assert result.exit_code == 0, result.output
    assert f"fastest for {server_elsewhere}: token_budget" in result.stdout.replace("\n", " ")
    assert not (project / "config/tuned.yaml").exists()

    result = feedback("models", "tune", "--texts", texts, "--seconds", "1")
    assert result.exit_code == 0, result.output
    assert str(GPU_BUDGETS[-1]) in result.stdout.replace(",", "")
    assert (repository / "text_embedder/config.pbtxt").read_text() == config
    assert list(Settings(project).tuned.machines) == [server_elsewhere]


def test_texts_that_cannot_be_read(feedback, tmp_path: Path, one_line) -> None:
    empty, latin = tmp_path / "empty.txt", tmp_path / "latin.txt"
    empty.write_text("\n \n")
    latin.write_bytes("schön".encode("latin-1"))
    one_line(feedback("models", "tune", "--texts", empty), "empty.txt", "one a line")
    one_line(feedback("models", "tune", "--texts", latin), "latin.txt", "UTF-8")


def test_instances_in_a_form_that_cannot_be_rewritten_are_refused_first(
    feedback, repository: Path, texts: Path, one_line
) -> None:
    config = repository / "text_embedder/config.pbtxt"
    config.write_text(config.read_text().replace("KIND_CPU", "KIND_AUTO"))
    result = feedback("models", "tune", "--texts", texts)
    assert result.exit_code == 2
    assert "write its instances as" in result.stderr
