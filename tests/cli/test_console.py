"""What all commands have in common."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from platform_assets.cli import main
from platform_assets.cli.console import printable

COMMANDS = ["ingest", "pull", "run", "report", "query", "quarantine", "models", "triton", "doctor"]


def test_help_names_every_command_without_importing_dagster(project_root: Path) -> None:
    code = (
        "import sys\n"
        "from platform_assets.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'dagster', 'polars', 'duckdb', 'deltalake'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=project_root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(command in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0
    assert "--debug" in result.stdout


def test_unknown_command(feedback, one_line) -> None:
    one_line(feedback("nope"), "nope", "--help")


def test_outside_a_project(tmp_path: Path, feedback, one_line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one_line(feedback("query", "select 1"), "no project", "FEEDBACK_PROJECT")


def test_project_of_the_variable_is_used_from_anywhere(
    tmp_path: Path, project: Path, feedback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEEDBACK_PROJECT", str(project))
    assert feedback("query", "select 1").exit_code == 0


def test_broken_configuration_names_file_and_line(project: Path, feedback, one_line) -> None:
    (project / "config/platform.yaml").write_text("lake: data/lake\nlandign: landing\n")
    one_line(feedback("query", "select 1"), "platform.yaml:2:", "landign")


def test_debug_shows_the_traceback_before_or_after_the_command(project: Path, feedback) -> None:
    (project / "config/platform.yaml").write_text("lake: [\n")
    for arguments in (["--debug", "query", "select 1"], ["query", "select 1", "--debug"]):
        result = feedback(*arguments)
        assert result.exit_code == 2
        assert "Traceback" in result.stderr


def test_unusable_dagster_home(feedback, one_line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "relative")
    one_line(feedback("report"), "DAGSTER_HOME", "absolute")


def test_missing_dagster_yaml(project: Path, feedback, one_line) -> None:
    (project / "dagster.yaml").unlink()
    one_line(feedback("report"), "dagster.yaml", "restore")


def test_a_reader_that_goes_away_is_no_error_of_ours(project: Path) -> None:
    command = [Path(sys.executable).parent / "feedback", "query", "from range(100000)", "--format", "csv"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, cwd=project, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr


def test_terminal_controls_in_user_text_are_shown_not_obeyed() -> None:
    assert printable("a\x1b[31mb\u202ec\td") == "a·[31mb·c\td"
