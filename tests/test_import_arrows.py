"""The arrows between the packages, and what every module owes its reader."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("platform_assets", "resources")


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [command, "--config", "pyproject.toml", "--no-cache"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )


def modules(root: Path) -> list[Path]:
    return [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]


def test_the_arrows_point_one_way(project_root: Path) -> None:
    found = lint(project_root)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize(
    ("module", "planted", "says"),
    [
        ("resources/yaml_file.py", "platform_assets.settings", "resources import nothing of ours BROKEN"),
        ("platform_assets/domain/drift.py", "dagster", "the domain is pure BROKEN"),
        ("platform_assets/domain/vectors.py", "resources.errors", "the domain is pure BROKEN"),
        ("platform_assets/domain/drift.py", "platform_assets.settings", "arrows point one way BROKEN"),
        ("platform_assets/checks/factory.py", "platform_assets.assets.common", "arrows point one way BROKEN"),
        ("platform_assets/assets/common.py", "platform_assets.checks.factory", "arrows point one way BROKEN"),
        ("platform_assets/assets/common.py", "platform_assets.sensors.landing_sensor", "arrows point one way BROKEN"),
        ("platform_assets/definitions.py", "platform_assets.cli", "arrows point one way BROKEN"),
    ],
)
def test_an_arrow_the_wrong_way_is_found(
    project_root: Path, tmp_path: Path, module: str, planted: str, says: str
) -> None:
    for package in PACKAGES:
        shutil.copytree(
            project_root / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "*.j2")
        )
    shutil.copy(project_root / "pyproject.toml", tmp_path)
    source = tmp_path / module
    source.write_text(source.read_text(encoding="utf-8") + f"\nimport {planted}\n", encoding="utf-8")
    found = lint(tmp_path)
    assert found.returncode == 1
    assert says in found.stdout


def test_every_module_says_what_belongs_in_it(project_root: Path) -> None:
    silent = [
        path.relative_to(project_root).as_posix()
        for path in modules(project_root)
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_there_is_no_drawer_for_everything(project_root: Path) -> None:
    drawers = {"utils", "util", "helpers", "misc"}
    assert [path.name for path in modules(project_root) if path.stem in drawers or path.parent.name in drawers] == []


def test_only_these_modules_of_the_platform_look_at_the_environment(project_root: Path) -> None:
    looking = {
        path.relative_to(project_root).as_posix()
        for path in sorted((project_root / "platform_assets").rglob("*.py"))
        if "os.environ" in path.read_text(encoding="utf-8") or "getenv" in path.read_text(encoding="utf-8")
    }
    # The command line also sets DAGSTER_HOME, and `feedback doctor` says what is set.
    assert looking == {
        "platform_assets/settings.py",
        "platform_assets/pulls.py",
        "platform_assets/cli/project.py",
        "platform_assets/cli/doctor.py",
    }
