import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from platform_assets.landed_sources import note_uri
from platform_assets.waiting_days import WaitingDays, waiting_days
from resources.landing_zone import LandedFile
from resources.triton import TritonResource
from tests.project import Project, make_project

EARLIER, DAY = date(2026, 8, 1), date(2026, 9, 1)
INGESTION = ("raw_feedback", "quarantined_feedback", "landed_files")
CSV = "Order Nr.,Review Text (full),Date/Time,Stars (1-5),Customer #,Lang\n1,Fine,,,,\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """No server is needed to look at files and tables."""
    return make_project(tmp_path, TritonResource(url="127.0.0.1:1", repository="none"))


def waiting(project: Project, complete: Callable[[LandedFile], bool] = lambda _: True) -> WaitingDays:
    return waiting_days(project.settings, project.instance, complete=lambda file, _: complete(file))


def read(project: Project, *days: date) -> None:
    """Read days to their end, as far as the waiting goes."""
    for day in days:
        assert project.run(day, *INGESTION).success
        sum_up(project, day)


def sum_up(project: Project, day: date) -> None:
    """Record the end of a day that was read."""
    project.instance.report_runless_asset_event(dg.AssetMaterialization("daily_summary", partition=day.isoformat()))


def test_they_depend_on_the_files_alone(project: Project) -> None:
    for day in (DAY, EARLIER):
        project.land(day, "a.csv", "one")
    before = waiting(project).content
    assert list(before) == [EARLIER, DAY]
    assert len(set(before.values())) == 2, "a file of another day is another file"
    assert waiting(project).content == before
    project.land(DAY, "b.csv", "two")
    assert waiting(project).content[DAY] != before[DAY]
    unsettled = waiting(project, lambda file: file.name != "b.csv")
    assert unsettled == WaitingDays({EARLIER: before[EARLIER]}, [DAY])


def test_a_day_that_was_read_but_never_summed_up_waits_on(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", CSV)
    before = waiting(project).content
    assert project.run(DAY, *INGESTION).success
    assert waiting(project).content == before
    sum_up(project, DAY)
    assert waiting(project) == WaitingDays()
    assert project.run(DAY, *INGESTION).success
    assert waiting(project).content == before, "read again, and not summed up since"


def test_a_touched_file_makes_no_day_wait_and_a_changed_one_does(project: Project) -> None:
    path = project.path_of(project.land(DAY, "shop_reviews_1.csv", CSV))
    read(project, DAY)
    os.utime(path, (2_000_000_000, 2_000_000_000))
    assert waiting(project) == WaitingDays()
    path.write_text(CSV.replace("Fine", "Good"))
    assert list(waiting(project).content) == [DAY]
    path.write_text(CSV + "2,More,,,,\n")
    assert list(waiting(project).content) == [DAY]


def test_a_renamed_file_is_looked_at_once(project: Project) -> None:
    path = project.path_of(project.land(DAY, "shop_reviews_1.csv", CSV))
    read(project, DAY)
    path.rename(path.with_name("shop_reviews_2.csv"))
    assert list(waiting(project).content) == [DAY]
    read(project, DAY)
    assert waiting(project) == WaitingDays()
    path.with_name("shop_reviews_2.csv").unlink()
    assert waiting(project) == WaitingDays(), "a tidied folder is nothing to read"


def test_a_repeat_becomes_the_original_when_that_brings_something_else(project: Project) -> None:
    project.land(EARLIER, "shop_reviews_1.csv", CSV)
    project.land(DAY, "shop_reviews_1.csv", CSV)
    read(project, EARLIER, DAY)
    assert waiting(project) == WaitingDays()
    assert project.rows("raw_feedback", DAY).is_empty()
    project.land(EARLIER, "shop_reviews_1.csv", CSV.replace("Fine", "Good"))
    assert list(waiting(project).content) == [EARLIER]
    read(project, EARLIER)
    assert list(waiting(project).content) == [DAY]
    read(project, DAY)
    assert project.rows("raw_feedback", DAY)["text"].to_list() == ["Fine"]
    assert waiting(project) == WaitingDays()


def test_of_two_days_that_both_read_a_content_the_later_one_waits(project: Project) -> None:
    """Two runs at once do not see each other's ledger."""
    project.land(EARLIER, "shop_reviews_1.csv", CSV)
    read(project, EARLIER)
    ledger = project.lake.scan("landed_files").collect()
    project.land(DAY, "shop_reviews_1.csv", CSV.replace("1,Fine", "9,Other"))
    read(project, DAY)
    both = project.rows("landed_files", DAY).with_columns(content_hash=pl.lit(ledger["content_hash"].item()))
    project.lake.replace("landed_files", both, {"partition_date": DAY})
    project.path_of(project.land(DAY, "shop_reviews_1.csv", CSV))
    assert list(waiting(project).content) == [DAY]
    read(project, DAY)
    assert project.rows("landed_files", DAY)["same_as"].to_list() == [f"{EARLIER}/shop_reviews_1.csv"]
    assert waiting(project) == WaitingDays()


def test_a_day_whose_last_run_did_not_end_waits_for_its_growing_file(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", CSV)
    assert project.run(DAY, *INGESTION).success
    assert waiting(project, lambda _: False) == WaitingDays(unsettled=[DAY])


@pytest.mark.parametrize("changed", [False, True])
def test_a_corrected_contract_makes_its_files_new(project: Project, changed: bool) -> None:
    outside = project.root / "export.csv"
    outside.write_text("Title,Body\nshort,long\n")
    project.landing.land(outside, DAY, "survey")
    project.landing.write_text(note_uri(DAY, "survey"), "columns: {text: Title}\n")
    before = waiting(project).content[DAY]
    assert project.run(DAY, *INGESTION).success
    sum_up(project, DAY)
    assert waiting(project) == WaitingDays()
    if changed:
        project.landing.write_text(note_uri(DAY, "survey"), "columns: {text: Body}\n")
    now = waiting(project).content
    assert list(now) == ([DAY] if changed else [])
    assert now.get(DAY) != before


def test_a_day_with_a_mistake_in_it_holds_up_no_other(project: Project) -> None:
    outside = project.root / "export.csv"
    outside.write_text("Title\nshort\n")
    project.landing.land(outside, EARLIER, "survey")
    project.landing.write_text(note_uri(EARLIER, "survey"), "columns: {txt: Title}\n")
    project.land(DAY, "shop_reviews_1.csv", CSV)
    found = waiting(project)
    assert list(found.content) == [DAY]
    assert list(found.refused) == [EARLIER]
    assert "_source.yaml" in found.refused[EARLIER]
