from datetime import date
from pathlib import Path
from typing import Any

import pytest

from platform_assets.domain.errors import FeedbackError
from platform_assets.landed_sources import LandedSources
from platform_assets.partitions import check_day
from platform_assets.settings import Settings, SettingsResource, find_project
from resources.encoder_pace import Pace, machine
from resources.errors import ConfigurationError
from resources.triton import TritonResource
from tests.project import Project, make_project

DAY = date(2026, 9, 1)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FEEDBACK_PROJECT", "TRITON_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path, TritonResource(repository="models"))
    (tmp_path / "config/tuned.yaml").unlink(missing_ok=True)
    return project


def test_the_shipped_configuration_is_what_the_code_takes_as_default(project_root: Path, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/platform.yaml").write_text("")
    assert Settings(tmp_path).platform == Settings(project_root).platform


def test_every_shipped_file_is_valid_and_fits_the_others(project_root: Path) -> None:
    settings = Settings(project_root)
    assert set(settings.sources.sources) == {"shop_reviews", "helpdesk", "app_store"}
    assert settings.taxonomy.categories[-1].key == "other"
    assert settings.thresholds.checks.novelty_drift.limit > 0


@pytest.mark.parametrize("below", ["", "landing/2026-09-01"])
def test_the_project_is_found_from_anywhere_in_it(project: Project, below: str) -> None:
    folder = project.root / below
    folder.mkdir(parents=True, exist_ok=True)
    assert find_project(folder) == project.root


def test_a_named_project_goes_first(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEEDBACK_PROJECT", "/somewhere/else")
    assert find_project(project.root) == Path("/somewhere/else")


def test_without_a_project_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"no project at {tmp_path}: go to .* or set FEEDBACK_PROJECT to it"):
        find_project(tmp_path)


@pytest.mark.parametrize(
    ("variable", "configured", "url"),
    [("", "", ""), ("", "a:8001", "a:8001"), ("b:8001", "a:8001", "b:8001"), ("b:8001", "", "b:8001")],
)
def test_the_server_is_that_of_the_variable_then_of_the_file_then_the_embedded_one(
    project: Project, monkeypatch: pytest.MonkeyPatch, variable: str, configured: str, url: str
) -> None:
    monkeypatch.setenv("TRITON_URL", variable)
    if configured:
        project.edit("platform", lambda text: text.replace('url: ""', f"url: {configured}"))
    assert project.settings.triton().url == url


def test_every_setting_of_the_server_reaches_it(project: Project) -> None:
    changes: dict[str, tuple[str, Any]] = {
        "idle_stop_s: 900": ("idle_stop_s: 11", 11.0),
        "timeout_s: 60": ("timeout_s: 12", 12.0),
        "# in_flight: 4": ("in_flight: 3", 3),
        "state: .triton ": ("state: elsewhere ", str(project.root / "elsewhere")),
        "environment: .triton-venv": ("environment: /opt/triton", "/opt/triton"),
    }
    for shipped, (changed, _) in changes.items():
        project.edit("platform", lambda text, shipped=shipped, changed=changed: text.replace(shipped, changed, 1))
    triton = project.settings.triton()
    for changed, expected in changes.values():
        assert getattr(triton, changed.split(":")[0]) == expected
    assert triton.repository == str(project.root / "models")


def tuned(project: Project, name: str, **more: str) -> None:
    stated = "".join(f", {key}: {value}" for key, value in more.items())
    entry = f'  "{name}": {{instances: 3, in_flight: 9, token_budget: 256{stated}}}\n'
    (project.root / "config/tuned.yaml").write_text(f"machines:\n{entry}")


def test_the_pace_is_the_default_until_it_was_tuned_here(project: Project) -> None:
    assert project.settings.pace() == Pace(256, 4)
    assert project.settings.pace(Pace(1, 2)) == Pace(1, 2)
    assert project.settings.foreign_tuning() == ""
    tuned(project, machine())
    assert project.settings.pace(Pace(1, 2)) == Pace(256, 9)
    assert project.settings.triton().in_flight == 9
    assert project.settings.foreign_tuning() == ""


def test_what_platform_yaml_says_goes_before_what_was_tuned(project: Project) -> None:
    tuned(project, machine())
    project.edit("platform", lambda text: text.replace("# in_flight: 4", "in_flight: 4"))
    assert project.settings.pace() == Pace(256, 4)


def test_what_another_machine_tuned_does_not_count_here(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned(project, "Abacus, 1 core")
    assert project.settings.pace() == Pace(256, 4)
    assert f"is of Abacus, 1 core, not of {machine()}: run `feedback models tune`" in project.settings.foreign_tuning()
    tuned(project, "gpu:8001")
    monkeypatch.setenv("TRITON_URL", "gpu:8001")
    assert project.settings.pace() == Pace(256, 9)


def test_a_bad_tuning_is_named_with_its_line(project: Project) -> None:
    tuned(project, machine(), batch="7")
    with pytest.raises(ConfigurationError, match=r"tuned.yaml:2: .*batch: unknown key"):
        project.settings.pace()


@pytest.mark.parametrize(
    ("lake", "root"),
    [("data/lake", "{project}/data/lake"), ("/srv/lake", "/srv/lake"), ("s3://bucket/lake", "s3://bucket/lake")],
)
def test_paths_start_at_the_project(project: Project, lake: str, root: str) -> None:
    project.edit("platform", lambda text: text.replace("lake: data/lake  ", f"lake: {lake}  # "))
    assert project.lake.root == root.format(project=project.root)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("lake_root: x", "lake_root: unknown key"),
        ("password: x", "password: unknown key"),
        ("landing_sensor: {attempts: 0}", "landing_sensor.attempts: Input should be greater than or equal to 1"),
        ("triton: {timeout_s: 0}", "triton.timeout_s: Input should be greater than 0"),
    ],
)
def test_a_bad_setting_is_named_with_its_line(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "config").mkdir()
    path = tmp_path / "config/platform.yaml"
    path.write_text(f"# a comment\n{line}\n")
    with pytest.raises(ConfigurationError) as caught:
        _ = Settings(tmp_path).platform
    assert str(caught.value).startswith(f"{path}:2: {says}")


def test_a_new_resource_reads_the_files_anew(project: Project) -> None:
    first = SettingsResource(project=str(project.root))
    assert first.get() is first.get()
    assert first.get().pace().in_flight == 4
    project.edit("platform", lambda text: text.replace("# in_flight: 4", "in_flight: 2"))
    assert SettingsResource(project=str(project.root)).get().pace().in_flight == 2


@pytest.mark.parametrize(
    ("folder", "name", "source"),
    [
        (None, "shop_reviews_1.csv", "shop_reviews"),
        (None, "strange.csv", "unknown"),
        ("app_store", "strange.csv", "app_store"),
        ("survey", "shop_reviews_1.csv", "survey"),
    ],
)
def test_the_folder_names_the_source_before_the_file_does(
    project: Project, folder: str | None, name: str, source: str
) -> None:
    outside = project.root / name
    outside.write_text("x")
    found = LandedSources(project.landing, project.settings).source_of(project.landing.land(outside, DAY, folder))
    assert found.name == source
    assert (found.source is not None) is (source in {"shop_reviews", "app_store"})


@pytest.mark.parametrize("day", [date(2024, 12, 31), date(2999, 1, 1)])
def test_a_day_outside_the_partitions_is_refused(day: date) -> None:
    with pytest.raises(FeedbackError, match=f"unknown partition {day}: days run from 2025-01-01 to "):
        check_day(day)


def test_a_day_of_the_partitions_has_its_key() -> None:
    assert check_day(DAY) == "2026-09-01"
