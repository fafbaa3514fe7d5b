"""A whole project in a folder of its own, run by its own commands."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Project:
    """A checkout's worth of state: configuration, models, landing zone, tables, Dagster instance, Triton."""

    path: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a shell in this project; nothing of the test's own project leaks in."""
        kept = {key: value for key, value in os.environ.items() if key not in {"TRITON_URL"}}
        return {**kept, "FEEDBACK_PROJECT": str(self.path), "DAGSTER_HOME": str(self.path)}

    def command(self, *arguments: str) -> list[str]:
        """The `feedback` command of the running interpreter."""
        return [str(Path(sys.executable).with_name("feedback")), *arguments]

    def feedback(self, *arguments: str, expected: int = 0) -> str:
        """Run a command to its end; its standard output."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == expected, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def project(tmp_path: Path, project_root: Path, triton_environment: Path, built_repository: Path) -> Iterator[Project]:
    """A fresh project; its Triton server is stopped afterwards."""
    for name in ("dagster.yaml", "workspace.yaml"):
        shutil.copy(project_root / name, tmp_path)
    shutil.copytree(project_root / "config", tmp_path / "config")
    # Fitted anomaly models of the developer's own data stay out of it.
    shutil.copytree(
        built_repository,
        tmp_path / "model_repository",
        ignore=lambda folder, names: [n for n in names if Path(folder).name == "anomaly_detector" and n.isdigit()],
    )
    (tmp_path / ".triton-venv").symlink_to(triton_environment)
    made = Project(tmp_path)
    try:
        yield made
    finally:
        subprocess.run(
            made.command("triton", "stop"),
            cwd=tmp_path,
            env=made.environment,
            capture_output=True,
            timeout=60,
            check=False,
        )
