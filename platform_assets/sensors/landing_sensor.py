"""`landing_sensor`: starts one run for each day that waits: new content, or a run that did not end well."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Final

import dagster as dg
from dagster import AssetCheckEvaluation, DagsterEventType

from platform_assets.domain.errors import FeedbackError
from platform_assets.jobs import feedback_day
from platform_assets.landed_sources import LandedSources
from platform_assets.partitions import check_day
from platform_assets.settings import SettingsResource
from platform_assets.waiting_days import waiting_days
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
    description="Starts the run of each day that holds unread files, or whose last run did not end well.",
)
def landing_sensor(
    context: dg.SensorEvaluationContext, settings: SettingsResource
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Request a run for each waiting day, oldest first, as many as `landing_sensor.days_per_tick`.

    A day waits until each of its files has been left alone for its source's `settle_s`. The same files are tried
    `attempts` times in all, and not again once a check has stopped them; then a person has to look, and the skip
    reason says so.
    """
    config = settings.get()
    limits = config.platform.landing_sensor
    now = datetime.now(UTC)

    def settled(file: LandedFile, sources: LandedSources) -> bool:
        source = sources.source_of(file).source
        if file.etag is not None or (source is not None and source.pull is not None):
            # An object store, and what we pull ourselves, show a file only when it is whole.
            return True
        wait_s = limits.settle_s if source is None or source.settle_s is None else source.settle_s
        # A time stamp from the future, of a clock that is wrong, must not hold a day up for ever.
        return abs((now - file.modified_at).total_seconds()) >= wait_s

    found = waiting_days(config, context.instance, complete=settled)
    requested = 0
    reasons = [f"{day}: a file may still be growing" for day in found.unsettled]
    reasons += [f"{day}: {problem}" for day, problem in found.refused.items()]
    for day, content in found.content.items():
        if requested == limits.days_per_tick:
            reasons.append("more days wait for the next look")
            break
        tried = _tried(context.instance, day, content)
        if hindrance := _hindrance(context.instance, day, tried, limits.attempts):
            reasons.append(f"{day}: {hindrance}")
            continue
        requested += 1
        yield dg.RunRequest(
            run_key=f"{day}:{content[:16]}:{len(tried) + 1}",
            partition_key=day.isoformat(),
            tags={CONTENT_TAG: content[:16]},
        )
    if not requested:
        yield dg.SkipReason("; ".join(reasons) or "no day waits: every landed file was read to the end")


def _hindrance(instance: dg.DagsterInstance, day: date, tried: list[dg.DagsterRun], attempts: int) -> str | None:
    """Why no run may start for the day now, if so."""
    try:
        key = check_day(day)
    except FeedbackError as error:
        return str(error)
    if instance.get_runs_count(dg.RunsFilter(tags={"dagster/partition": key}, statuses=UNFINISHED)):
        return "a run of this day is under way"
    if tried and (check := _stopped_by(instance, tried[0])):
        return f"stopped by the check {check}: correct the files or the source, then `feedback run --partition {key}`"
    if len(tried) >= attempts:
        return f"tried {attempts} times without success: see its failed run, then `feedback run --partition {key}`"
    return None


def _tried(instance: dg.DagsterInstance, day: date, content: str) -> list[dg.DagsterRun]:
    """Runs started for exactly this content, newest first; retries that Dagster makes of one run count as that run."""
    same = dg.RunsFilter(tags={"dagster/partition": day.isoformat(), CONTENT_TAG: content[:16]})
    return [run for run in instance.get_runs(same) if run.root_run_id in {None, run.run_id}]


def _stopped_by(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    """The blocking check that a run failed, if it did."""
    for record in instance.get_records_for_run(run.run_id, of_type=DagsterEventType.ASSET_CHECK_EVALUATION).records:
        event = record.event_log_entry.dagster_event
        found = event.event_specific_data if event else None
        if not isinstance(found, AssetCheckEvaluation):
            continue
        if not found.passed and found.severity is dg.AssetCheckSeverity.ERROR:
            return f"{found.asset_key.to_user_string()}:{found.check_name}"
    return None
