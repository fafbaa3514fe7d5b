"""`landing_sensor`: starts one run for each day that holds files which no run has read."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final

import dagster as dg

from platform_assets.domain.errors import FeedbackError
from platform_assets.jobs import feedback_day
from platform_assets.landed_sources import pending_days
from platform_assets.partitions import check_day
from platform_assets.settings import SettingsResource
from resources.landing_zone import LandedFile

CONTENT_TAG: Final = "feedback/landed_content"
"""Run tag: hash over the files that the run is for, so that the next look knows what was tried already."""

UNFINISHED: Final = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dg.sensor(
    job=feedback_day,
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks for landed files that the ledger does not know and starts their day's run.",
)
def landing_sensor(
    context: dg.SensorEvaluationContext, settings: SettingsResource
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Request a run for each pending day, oldest first, as many as `landing_sensor.days_per_tick`.

    A day waits until each of its files has been left alone for `settle_s`. The same content is tried `attempts`
    times in all; then a person has to look, and the skip reason says so.
    """
    config = settings.get()
    limits = config.platform.landing_sensor
    settled_before = datetime.now(UTC) - timedelta(seconds=limits.settle_s)

    def settled(file: LandedFile) -> bool:
        return file.modified_at <= settled_before

    pending = pending_days(config.landing(), config.lake(), complete=settled)
    requested, waiting = 0, []
    for day, content in pending.items():
        if requested == limits.days_per_tick:
            waiting.append(f"{len(pending) - requested} more days wait for the next look")
            break
        if hindrance := _hindrance(context.instance, day, content, limits.attempts):
            waiting.append(f"{day}: {hindrance}")
            continue
        attempt = len(_tried(context.instance, day, content)) + 1
        requested += 1
        yield dg.RunRequest(
            run_key=f"{day}:{content[:16]}:{attempt}",
            partition_key=day.isoformat(),
            tags={CONTENT_TAG: content[:16]},
        )
    if not requested:
        yield dg.SkipReason("; ".join(waiting) or "no day holds files that the ledger does not know")


def _hindrance(instance: dg.DagsterInstance, day: date, content: str, attempts: int) -> str | None:
    """Why no run may start for the day now, if so."""
    try:
        key = check_day(day)
    except FeedbackError as error:
        return str(error)
    busy = dg.RunsFilter(tags={"dagster/partition": key}, statuses=UNFINISHED)
    if instance.get_runs_count(busy):
        return "a run of this day is under way"
    if len(_tried(instance, day, content)) >= attempts:
        return f"tried {attempts} times without success: see its failed run, then `feedback run --partition {day}`"
    return None


def _tried(instance: dg.DagsterInstance, day: date, content: str) -> list[dg.DagsterRun]:
    """Runs started for exactly this content; retries that Dagster makes of one run count as that run."""
    same = dg.RunsFilter(tags={"dagster/partition": day.isoformat(), CONTENT_TAG: content[:16]})
    return [run for run in instance.get_runs(same) if run.root_run_id in {None, run.run_id}]
