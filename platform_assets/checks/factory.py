"""Turns a measurement into a check result, for every check alike.

What is measured, and on which rows, belongs to the file of the asset.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

import dagster as dg
import polars as pl
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from platform_assets.checks.picture import picture
from platform_assets.domain.measurement import Measurement, Verdict, breaches
from platform_assets.domain.tables import TABLES, schema_breaches
from platform_assets.domain.thresholds import Limit
from platform_assets.failures import clear_failures
from platform_assets.partitions import ARRIVAL_DAYS
from resources.delta_lake import DeltaLakeResource

HISTORY_DAYS: Final = 30
"""Days that a check's picture shows."""


@dataclass(frozen=True)
class Day:
    """What a measure may look at: the tables, and which day is checked."""

    lake: DeltaLakeResource
    date: date

    def rows(self, table: str, *columns: str) -> pl.DataFrame:
        """The day's rows of a table; only some columns of a day that may be big."""
        return self.scan(table, *columns).collect()

    def scan(self, table: str, *columns: str) -> pl.LazyFrame:
        """The same, of which not more is read than is asked for."""
        rows = self.lake.scan_partition(table, self.date)
        return rows.select(columns) if columns else rows


@dataclass(frozen=True)
class Check:
    """A check to be: its name, what it says, how it measures, and whether a failure stops what follows."""

    name: str
    description: str
    measure: Callable[[Day], Measurement]
    blocking: bool


def structure(name: str, description: str, measure: Callable[[Day], Measurement]) -> Check:
    """A check of structure: it always blocks."""
    return Check(name, description, measure, blocking=True)


def limited(name: str, description: str, measure: Callable[[Day], Measurement], limit: Limit) -> Check:
    """A check against a limit of thresholds.yaml, which also says whether it blocks."""

    def measured(day: Day) -> Measurement:
        return replace(measure(day), limit=limit.limit, min_rows=limit.min_rows, reason=limit.reason)

    return Check(name, description, measured, blocking=limit.severity == "block")


def schema_check(table: str) -> Check:
    """The stored table has exactly the columns and types of its contract."""

    def measure(day: Day) -> Measurement:
        stored = day.lake.scan_partition(table, day.date)
        found = schema_breaches(dict(stored.collect_schema()), TABLES[table])
        return breaches(
            found, rows=stored.select(pl.len()).collect().item(), what="columns that do not fit the contract"
        )

    return structure("schema", "The table has the columns and types that its readers rely on.", measure)


def checks_of(asset: str, checks: Sequence[Check]) -> dg.AssetChecksDefinition:
    """The checks of one asset, evaluated for the day that a run materialized."""
    by_name = {check.name: check for check in checks}
    with warnings.catch_warnings():
        # Partitioned checks are in preview; the alternative is checks that cannot say which day they saw.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        specs = [
            dg.AssetCheckSpec(
                check.name,
                asset=asset,
                description=check.description,
                blocking=check.blocking,
                partitions_def=ARRIVAL_DAYS,
            )
            for check in checks
        ]

    @dg.multi_asset_check(name=f"{asset}_checks", specs=specs, can_subset=True, required_resource_keys={"lake"})
    def evaluate(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        with clear_failures():
            day = Day(context.resources.lake, date.fromisoformat(context.partition_key))
            for key in sorted(context.selected_asset_check_keys):
                check = by_name[key.name]
                yield result_of(check.measure(day), key, day.date, context.instance, blocking=check.blocking)

    return evaluate


def result_of(
    measurement: Measurement, key: dg.AssetCheckKey, day: date, instance: dg.DagsterInstance, *, blocking: bool
) -> dg.AssetCheckResult:
    """Value, limit and verdict as metadata, beside a picture of the value over the days before."""
    metadata: dict[str, Any] = {
        "verdict": measurement.verdict.value,
        "limit": float(measurement.limit),
        "rows": measurement.rows,
        "min_rows": measurement.min_rows,
        "reason": measurement.reason,
        "day": day.isoformat(),
    }
    if measurement.value is not None:
        metadata["value"] = float(measurement.value)
        history = {**_history(key, instance), day: float(measurement.value)}
        shown = {each: history[each] for each in sorted(history)[-HISTORY_DAYS:]}
        metadata["plot"] = dg.MetadataValue.md(picture(key.name, shown, measurement.limit))
    if measurement.examples:
        # Not Markdown: the examples quote customers, whose text must not become links and pictures in the UI.
        metadata["examples"] = dg.MetadataValue.json(measurement.examples)
    return dg.AssetCheckResult(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=measurement.verdict is not Verdict.FAILED,
        severity=dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN,
        description=measurement.sentence,
        metadata=metadata,
    )


def _history(key: dg.AssetCheckKey, instance: dg.DagsterInstance) -> dict[date, float]:
    """The newest value of each day that was evaluated before."""
    history: dict[date, float] = {}
    evaluated = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}
    for record in instance.event_log_storage.get_asset_check_execution_history(
        key, limit=4 * HISTORY_DAYS, status=evaluated
    ):
        evaluation = record.evaluation
        if evaluation is None or "value" not in evaluation.metadata:
            continue
        value, day = evaluation.metadata["value"].value, evaluation.metadata["day"].value
        history.setdefault(date.fromisoformat(str(day)), float(str(value)))
    return history
