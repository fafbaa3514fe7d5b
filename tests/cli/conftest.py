"""A project of its own for each test, and the command line run in it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from platform_assets.cli import main

Feedback = Callable[..., Result]
Refusal = Callable[..., None]

REVIEWS = """\
Order Nr.,Review Text (full),Date/Time,Stars (1-5),Customer #,Lang
A-1,The chair arrived broken and nobody answers,2026-09-01 10:00,1,C-1,en
A-2,"Fast delivery, thank you",2026-09-01 11:30,5,C-2,en
A-3,It is a lamp,2026-09-01 12:00,9,C-3,en
"""
"""Three records of the source shop_reviews, the last with a rating that the source does not allow."""


@pytest.fixture
def project(tmp_path: Path, project_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the repository's configuration and nothing landed; the working folder."""
    folder = tmp_path / "project"
    shutil.copytree(project_root / "config", folder / "config")
    shutil.copy(project_root / "dagster.yaml", folder)
    monkeypatch.chdir(folder)
    for variable in ("DAGSTER_HOME", "FEEDBACK_PROJECT", "TRITON_URL"):
        # Set first, so that what a command sets itself is undone too.
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    return folder


@pytest.fixture
def feedback(project: Path) -> Feedback:
    """Runs `feedback` with arguments."""

    def run(*arguments: str | Path) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """A file whose name the source shop_reviews claims."""
    file = tmp_path / "shop_reviews_1.csv"
    file.write_text(REVIEWS)
    return file


@pytest.fixture
def loaded(feedback: Feedback, reviews: Path) -> Feedback:
    """A project whose day 2026-09-01 holds two rows and a dead letter."""
    assert feedback("ingest", reviews, "--partition", "2026-09-01").exit_code == 0
    result = feedback("run", "--select", "raw_feedback")
    assert result.exit_code == 0, result.stderr
    return feedback


@pytest.fixture
def one_line() -> Refusal:
    """Holds a result against how every command refuses: an exit code and one line on stderr with some words."""

    def check(result: Result, *words: str, code: int = 2) -> None:
        assert result.exit_code == code, (result.stdout, result.stderr)
        assert result.stdout == ""
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("Error: ")
        for word in words:
            assert word in lines[0]

    return check
