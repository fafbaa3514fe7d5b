from datetime import date

import pytest

from platform_assets.landed_sources import SOURCE_NOTE
from platform_assets.waiting_days import WaitingDays, waiting_days
from tests.project import Project

EARLIER, DAY = date(2026, 8, 1), date(2026, 9, 1)
CSV = "Order Nr.,Review Text (full),Date/Time,Stars (1-5),Customer #,Lang\n1,Fine,,,,\n"


def waiting(project: Project, **options: object) -> WaitingDays:
    return waiting_days(project.landing, project.lake, project.instance, **options)  # type: ignore[arg-type]


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
    unsettled = waiting(project, complete=lambda file: file.name != "b.csv")
    assert unsettled == WaitingDays({EARLIER: before[EARLIER]}, [DAY])


def test_a_day_that_was_read_but_never_summed_up_waits_on(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", CSV)
    before = waiting(project).content
    assert project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files").success
    assert waiting(project).content == before


@pytest.mark.parametrize("changed", [False, True])
def test_a_corrected_contract_makes_its_files_new(project: Project, changed: bool) -> None:
    outside = project.root / "export.csv"
    outside.write_text("Title,Body\nshort,long\n")
    project.landing.land(outside, DAY, "survey")
    project.landing.write_note(DAY, "survey", SOURCE_NOTE, "columns: {text: Title}\n")
    before = waiting(project).content
    if changed:
        project.landing.write_note(DAY, "survey", SOURCE_NOTE, "columns: {text: Body}\n")
    assert (waiting(project).content != before) is changed
