from collections.abc import Callable
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from platform_assets.landed_sources import SOURCE_NOTE
from platform_assets.waiting_days import WaitingDays, waiting_days
from resources.landing_zone import LandedFile
from resources.triton import TritonResource
from tests.project import Project, make_project

EARLIER, DAY = date(2026, 8, 1), date(2026, 9, 1)
CSV = "Order Nr.,Review Text (full),Date/Time,Stars (1-5),Customer #,Lang\n1,Fine,,,,\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """No server is needed to look at files and tables."""
    return make_project(tmp_path, TritonResource(url="127.0.0.1:1", repository="none"))


def waiting(project: Project, complete: Callable[[LandedFile], bool] = lambda _: True) -> WaitingDays:
    return waiting_days(project.landing, project.lake, project.instance, complete=complete)


def sum_up(project: Project, day: date) -> None:
    """Record the end of a day that was read."""
    project.instance.report_runless_asset_event(dg.AssetMaterialization("daily_summary", partition=day.isoformat()))


def test_they_depend_on_names_and_contents_alone(project: Project) -> None:
    for day in (DAY, EARLIER):
        project.land(day, "a.csv", "one")
    before = waiting(project).content
    assert list(before) == [EARLIER, DAY]
    assert len(set(before.values())) == 2, "a file of another day is another file"
    (project.landing.folder(DAY) / "a.csv").touch()
    assert waiting(project).content == before
    project.land(DAY, "b.csv", "two")
    assert waiting(project).content[DAY] != before[DAY]
    unsettled = waiting(project, lambda file: file.name != "b.csv")
    assert unsettled == WaitingDays({EARLIER: before[EARLIER]}, [DAY])


def test_a_day_that_was_read_but_never_summed_up_waits_on(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", CSV)
    before = waiting(project).content
    assert project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files").success
    assert waiting(project).content == before
    sum_up(project, DAY)
    assert waiting(project) == WaitingDays()
    assert project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files").success
    assert waiting(project).content == before, "read again, and not summed up since"


def test_a_day_whose_last_run_did_not_end_waits_for_its_growing_file(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", CSV)
    assert project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files").success
    assert waiting(project, lambda _: False) == WaitingDays(unsettled=[DAY])


@pytest.mark.parametrize("changed", [False, True])
def test_a_corrected_contract_makes_its_files_new(project: Project, changed: bool) -> None:
    outside = project.root / "export.csv"
    outside.write_text("Title,Body\nshort,long\n")
    project.landing.land(outside, DAY, "survey")
    project.landing.write_note(DAY, "survey", SOURCE_NOTE, "columns: {text: Title}\n")
    before = waiting(project).content[DAY]
    assert project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files").success
    sum_up(project, DAY)
    assert waiting(project) == WaitingDays()
    if changed:
        project.landing.write_note(DAY, "survey", SOURCE_NOTE, "columns: {text: Body}\n")
    now = waiting(project).content
    assert list(now) == ([DAY] if changed else [])
    assert now.get(DAY) != before
