import os
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import dagster as dg
import pytest

from platform_assets.sensors.landing_sensor import CONTENT_TAG, landing_sensor
from platform_assets.settings import SettingsResource
from tests.project import QUIET, Project, failed_checks

DAY = date(2026, 9, 1)
INGESTION = ("raw_feedback", "quarantined_feedback", "landed_files")
REVIEWS = "Order Nr.,Review Text (full),Date/Time,Stars (1-5),Customer #,Lang\n1,I love it,2026-09-01 10:00,5,C,en\n"


def look(project: Project) -> tuple[list[dg.RunRequest], str]:
    """One look of the sensor: its requests, and its skip reason."""
    context = dg.build_sensor_context(
        instance=project.instance, resources={"settings": SettingsResource(project=str(project.root))}
    )
    answers = landing_sensor(context)
    assert isinstance(answers, Iterator)
    requests, reasons = [], []
    for answer in answers:
        (requests if isinstance(answer, dg.RunRequest) else reasons).append(answer)
    return requests, "".join(reason.skip_message or "" for reason in reasons)


def started(
    project: Project, request: dg.RunRequest, status: dg.DagsterRunStatus = dg.DagsterRunStatus.FAILURE, **run: str
) -> dg.DagsterRun:
    """Record a run as the daemon would have started it."""
    tags = {**request.tags, "dagster/partition": str(request.partition_key)}
    return project.instance.add_run(
        dg.DagsterRun(job_name="feedback_day", run_id=str(uuid.uuid4()), tags=tags, status=status, **run)
    )


def read_to_the_end(project: Project, day: date) -> None:
    """Read a day's files, and record the end of its run; what lies between needs a server."""
    assert project.run(day, *INGESTION).success
    project.instance.report_runless_asset_event(dg.AssetMaterialization("daily_summary", partition=day.isoformat()))


def wait_for_files_to_settle(project: Project) -> None:
    for day in project.landing.days():
        for file in project.landing.files(day):
            long_ago = (file.modified_at - timedelta(hours=1)).timestamp()
            os.utime(project.path_of(file), (long_ago, long_ago))


def test_an_empty_landing_zone_is_skipped(project: Project) -> None:
    assert look(project) == ([], "no day waits: every landed file was read to the end")


def test_each_pending_day_gets_one_run_oldest_first(project: Project) -> None:
    for day in (DAY + timedelta(1), DAY):
        project.land(day, "shop_reviews_1.csv", REVIEWS)
        project.land(day, "shop_reviews_2.csv", REVIEWS.replace("love", "like"))
    requests, reason = look(project)
    assert [request.partition_key for request in requests] == ["2026-09-01", "2026-09-02"]
    assert len({request.run_key for request in requests}) == 2
    assert all(request.tags[CONTENT_TAG] in str(request.run_key) for request in requests)
    assert reason == ""
    assert look(project) == (requests, reason), "an unanswered look asks for the same"


def test_a_file_that_was_just_written_is_left_to_settle(project: Project) -> None:
    project.edit("platform", lambda text: text.replace("settle_s: 0 ", "settle_s: 600 "))
    project.land(DAY, "shop_reviews_1.csv", REVIEWS)
    assert look(project) == ([], "2026-09-01: a file may still be growing")
    wait_for_files_to_settle(project)
    assert len(look(project)[0]) == 1
    landed = project.land(DAY, "shop_reviews_2.csv", REVIEWS)
    assert look(project)[0] == [], "the whole day waits for its newest file"
    ahead = (landed.modified_at + timedelta(days=365)).timestamp()
    os.utime(project.path_of(landed), (ahead, ahead))
    assert len(look(project)[0]) == 1, "a clock that is wrong holds nothing up"


def test_a_day_that_settles_does_not_wait_for_another(project: Project) -> None:
    project.edit("platform", lambda text: text.replace("settle_s: 0 ", "settle_s: 600 "))
    project.land(DAY, "shop_reviews_1.csv", REVIEWS)
    wait_for_files_to_settle(project)
    project.land(DAY + timedelta(1), "shop_reviews_1.csv", REVIEWS)
    assert [request.partition_key for request in look(project)[0]] == ["2026-09-01"]


@pytest.mark.parametrize(
    "name", [".shop_reviews.csv", "shop_reviews.csv.part", "_note.yaml", "shop_reviews.csv.filepart"]
)
def test_unfinished_files_start_nothing(project: Project, name: str) -> None:
    folder = project.root / "landing" / DAY.isoformat()
    folder.mkdir(parents=True)
    (folder / name).write_text(REVIEWS)
    assert look(project)[0] == []


def test_what_the_ledger_knows_starts_nothing_touched_or_landed_again(project: Project) -> None:
    landed = project.land(DAY, "shop_reviews_1.csv", REVIEWS)
    assert len(look(project)[0]) == 1
    read_to_the_end(project, DAY)
    assert look(project)[0] == []
    project.path_of(landed).touch()
    assert look(project)[0] == []
    project.land(DAY, "shop_reviews_1.csv", REVIEWS)
    assert look(project) == ([], "no day waits: every landed file was read to the end")


def test_a_day_that_was_read_but_not_to_its_end_is_tried_again(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", REVIEWS)
    (first,) = look(project)[0]
    assert project.run(DAY, *INGESTION).success
    started(project, first)
    (second,) = look(project)[0]
    assert second.tags == first.tags
    assert (first.run_key or "").endswith(":1")
    assert (second.run_key or "").endswith(":2")


def test_a_day_that_a_check_stopped_is_not_tried_again(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", REVIEWS)
    stranger = project.land(DAY, "nobody_knows.csv", REVIEWS)
    (request,) = look(project)[0]
    run = project.day_job.execute_in_process(
        run_config=QUIET,
        instance=project.instance,
        partition_key=request.partition_key,
        tags=dict(request.tags),
        raise_on_error=False,
    )
    assert failed_checks(run) == ["raw_feedback:files_match_contract"]
    assert look(project) == (
        [],
        "2026-09-01: stopped by the check raw_feedback:files_match_contract: correct the files or the source, "
        "then `feedback run --partition 2026-09-01`",
    )
    project.path_of(stranger).unlink()
    assert len(look(project)[0]) == 1, "corrected files are a new matter"


def test_content_that_goes_away_starts_nothing(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", REVIEWS)
    second = project.land(DAY, "shop_reviews_2.csv", REVIEWS.replace("love", "like"))
    read_to_the_end(project, DAY)
    project.path_of(second).unlink()
    assert look(project)[0] == []


@pytest.mark.parametrize("same_size", [True, False])
def test_changed_content_starts_a_run_under_a_new_key(project: Project, same_size: bool) -> None:
    project.land(DAY, "shop_reviews_1.csv", REVIEWS)
    (first,) = look(project)[0]
    started(project, first, dg.DagsterRunStatus.SUCCESS)
    read_to_the_end(project, DAY)
    project.land(DAY, "shop_reviews_1.csv", REVIEWS.replace("love", "like" if same_size else "adore"))
    (second,) = look(project)[0]
    assert second.partition_key == first.partition_key
    assert second.tags != first.tags
    assert second.run_key != first.run_key


def test_a_look_starts_a_bounded_number_of_runs(project: Project) -> None:
    project.edit("platform", lambda text: text.replace("days_per_tick: 20", "days_per_tick: 2"))
    for offset in range(5):
        project.land(DAY + timedelta(offset), "shop_reviews_1.csv", REVIEWS)
    first, _ = look(project)
    assert [request.partition_key for request in first] == ["2026-09-01", "2026-09-02"]
    for request in first:
        started(project, request, dg.DagsterRunStatus.STARTED)
    second, _ = look(project)
    assert [request.partition_key for request in second] == ["2026-09-03", "2026-09-04"]


def test_a_day_under_way_waits(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", REVIEWS)
    (request,) = look(project)[0]
    run = started(project, request, dg.DagsterRunStatus.STARTED)
    assert look(project) == ([], "2026-09-01: a run of this day is under way")
    project.instance.report_run_canceled(run)
    assert len(look(project)[0]) == 1


def test_the_same_content_is_tried_so_often_then_a_person_is_asked(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", REVIEWS)
    keys = []
    for _ in range(3):
        (request,) = look(project)[0]
        keys.append(request.run_key)
        started(project, request)
    assert len(set(keys)) == 3, "a run key is good for one run only"
    requests, reason = look(project)
    assert requests == []
    assert "2026-09-01: tried 3 times without success" in reason
    assert "`feedback run --partition 2026-09-01`" in reason
    project.land(DAY, "shop_reviews_1.csv", REVIEWS.replace("love", "like"))
    assert len(look(project)[0]) == 1, "other content is a new matter"


def test_retries_that_dagster_makes_of_a_run_count_once(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", REVIEWS)
    (request,) = look(project)[0]
    first = started(project, request)
    for _ in range(3):
        started(project, request, root_run_id=first.run_id, parent_run_id=first.run_id)
    (request,) = look(project)[0]
    assert str(request.run_key).endswith(":2")


@pytest.mark.parametrize("day", [date(2024, 12, 31), datetime.now(UTC).date() + timedelta(days=3)])
def test_a_day_that_is_no_partition_is_named_and_holds_nothing_up(project: Project, day: date) -> None:
    project.land(day, "shop_reviews_1.csv", REVIEWS)
    requests, reason = look(project)
    assert requests == []
    assert f"{day}: unknown partition {day}: days run from 2025-01-01 to " in reason
    project.land(DAY, "shop_reviews_1.csv", REVIEWS)
    assert [request.partition_key for request in look(project)[0]] == ["2026-09-01"]
