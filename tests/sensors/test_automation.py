"""What the automation sensor requests: days whose inputs changed, old ones too, behind passed gates only."""

from datetime import date

import dagster as dg
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor

from platform_assets.jobs import DAY_ASSETS
from tests.project import Project, failed_checks

OLD = date(2025, 3, 4)
INGESTION = ("raw_feedback", "quarantined_feedback", "landed_files")
REVIEWS = "Order Nr.,Review Text (full),Date/Time,Stars (1-5),Customer #,Lang\n1,I love it,2025-03-04 10:00,5,C,en\n"


def requested(
    project: Project, cursor: AssetDaemonCursor | None = None
) -> tuple[dict[str, set[str]], AssetDaemonCursor]:
    """The partitions that one look requests, by asset, and where the next look goes on."""
    result = dg.evaluate_automation_conditions(project.definitions, project.instance, cursor=cursor)
    found = {name: days for name in DAY_ASSETS if (days := result.get_requested_partitions(dg.AssetKey(name)))}
    return found, result.cursor


def test_an_old_day_that_is_ingested_alone_goes_on(project: Project) -> None:
    nothing, cursor = requested(project)
    assert nothing == {}
    project.land(OLD, "shop_reviews_1.csv", REVIEWS)
    assert project.run(OLD, *INGESTION).success
    found, cursor = requested(project, cursor)
    assert found["feedback_embeddings"] == {str(OLD)}
    assert all(days == {str(OLD)} for days in found.values())
    again, _ = requested(project, cursor)
    assert again == {}, "a request is made once"


def test_a_failed_gate_holds_the_day_until_it_is_mended(project: Project) -> None:
    _, cursor = requested(project)
    project.land(OLD, "shop_reviews_1.csv", REVIEWS.replace("Stars (1-5)", "Stars"))
    run = project.run(OLD, *INGESTION)
    assert "raw_feedback:files_match_contract" in failed_checks(run)
    found, cursor = requested(project, cursor)
    assert found == {}
    project.land(OLD, "shop_reviews_1.csv", REVIEWS)
    assert project.run(OLD, *INGESTION).success
    found, _ = requested(project, cursor)
    assert found["feedback_embeddings"] == {str(OLD)}
