"""What the checks found, by day and asset: read from Dagster's event log, and judged once for every reader.

How it is shown belongs to `report_page.py` and to the command line; measuring, to `checks/`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Final

import dagster as dg
from dagster import AssetCheckSeverity, DagsterEventType
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluation
from dagster._core.event_api import PartitionKeyFilter

from platform_assets.domain.measurement import Verdict


class Outcome(StrEnum):
    """What a check comes to. A check that did not run to its end is never passed."""

    FAILED = "failed"
    NOT_EVALUATED = "not evaluated"
    WARNED = "warned"
    NOT_ENOUGH_DATA = "not enough data"
    PASSED = "passed"


@dataclass(frozen=True)
class CheckEntry:
    """The newest result of one check for one day."""

    day: date
    asset: str
    check: str
    outcome: Outcome
    blocking: bool
    sentence: str
    value: float | None = None
    limit: float | None = None
    rows: int | None = None
    min_rows: int | None = None
    reason: str = ""
    """Why the limit is where it is."""
    examples: list[str] = field(default_factory=list)
    given_up: bool = False
    """Whether a run was to evaluate it and ended without."""
    picture: str = ""
    """The value over the days before: a data URI of an SVG."""

    def as_json(self) -> dict[str, str | float | int | bool | list[str] | None]:
        """Everything but the picture."""
        return {
            "day": self.day.isoformat(),
            "asset": self.asset,
            "check": self.check,
            "outcome": self.outcome.value,
            "blocking": self.blocking,
            "value": self.value,
            "limit": self.limit,
            "rows": self.rows,
            "min_rows": self.min_rows,
            "sentence": self.sentence,
            "reason": self.reason,
            "examples": list(self.examples),
        }


@dataclass(frozen=True)
class CheckReport:
    """The entries of all days, by day and, within a day, in the order in which the assets are made."""

    entries: list[CheckEntry]

    @property
    def days(self) -> list[date]:
        """The days, ascending."""
        return sorted({entry.day for entry in self.entries})

    @property
    def blocked(self) -> bool:
        """Whether a check that stops what follows failed, or its run ended without it."""
        return any(entry.blocking and (entry.outcome is Outcome.FAILED or entry.given_up) for entry in self.entries)

    @property
    def worth_reading(self) -> list[CheckEntry]:
        """The entries that did not simply pass."""
        return [entry for entry in self.entries if entry.outcome is not Outcome.PASSED]

    def counts(self) -> dict[Outcome, int]:
        """Number of entries by outcome; every outcome has one."""
        return tally(entry.outcome for entry in self.entries)

    def of_day(self, day: date) -> "CheckReport":
        """The part of one day."""
        return CheckReport([entry for entry in self.entries if entry.day == day])


def tally(outcomes: Iterable[Outcome]) -> dict[Outcome, int]:
    """Number of each outcome, zero included."""
    counted = Counter(outcomes)
    return {outcome: counted[outcome] for outcome in Outcome}


def read_report(
    instance: dg.DagsterInstance, definitions: dg.Definitions, days: Sequence[date] | None = None
) -> CheckReport:
    """Read the newest result of every defined check of a day for each day.

    Args:
        instance: whose event log is read.
        definitions: which checks there are.
        days: the days to report; None for every day that a run was ever started for.
    """
    graph = definitions.resolve_asset_graph()
    assets = [asset for asset in graph.toposorted_asset_keys if graph.get(asset).is_partitioned]
    keys = [key for asset in assets for key in sorted(graph.get_check_keys_for_assets({asset}))]
    if days is None:
        days = _days_tried(instance, {key.asset_key for key in keys})
    entries: list[CheckEntry] = []
    for day in days:
        records = instance.event_log_storage.get_latest_asset_check_execution_by_key(
            keys, partition_filter=PartitionKeyFilter(key=day.isoformat())
        )
        for key in keys:
            record = records.get(key)
            evaluation = record.evaluation if record else None
            if isinstance(evaluation, AssetCheckEvaluation):
                entries.append(entry_of(evaluation, day))
            else:
                fate = _fate(instance, record.run_id if record else None)
                entries.append(not_evaluated(key, day, blocking=graph.get(key).blocking, fate=fate))
    return CheckReport(entries)


def entry_of(evaluation: AssetCheckEvaluation, day: date) -> CheckEntry:
    """Judge one evaluation."""
    found = {name: value.value for name, value in evaluation.metadata.items()}
    blocking = evaluation.severity is AssetCheckSeverity.ERROR
    if found.get("verdict") == Verdict.NOT_ENOUGH_DATA.value:
        outcome = Outcome.NOT_ENOUGH_DATA
    elif evaluation.passed:
        outcome = Outcome.PASSED
    else:
        outcome = Outcome.FAILED if blocking else Outcome.WARNED
    return CheckEntry(
        day=day,
        asset=evaluation.asset_key.to_user_string(),
        check=evaluation.check_name,
        outcome=outcome,
        blocking=blocking,
        sentence=evaluation.description or "",
        value=_number(found.get("value")),
        limit=_number(found.get("limit")),
        rows=_count(found.get("rows")),
        min_rows=_count(found.get("min_rows")),
        reason=_text(found.get("reason")),
        examples=_texts(found.get("examples")),
        picture=_picture(_text(found.get("plot"))),
    )


class Fate(StrEnum):
    """Why a check has no result."""

    NO_RUN = "no run of this day has come to it yet"
    UNDER_WAY = "its run is under way"
    ENDED_BEFORE = "the run ended before the check did"


def _fate(instance: dg.DagsterInstance, run_id: str | None) -> Fate:
    if run_id is None:
        return Fate.NO_RUN
    run = instance.get_run_by_id(run_id)
    return Fate.UNDER_WAY if run and not run.is_finished else Fate.ENDED_BEFORE


def not_evaluated(key: dg.AssetCheckKey, day: date, *, blocking: bool, fate: Fate) -> CheckEntry:
    """The entry of a check without a result."""
    return CheckEntry(
        day=day,
        asset=key.asset_key.to_user_string(),
        check=key.name,
        outcome=Outcome.NOT_EVALUATED,
        blocking=blocking,
        given_up=fate is Fate.ENDED_BEFORE,
        sentence=fate.value,
    )


def _days_tried(instance: dg.DagsterInstance, assets: set[dg.AssetKey]) -> list[date]:
    """The days for which one of the assets was made, or was to be made."""
    tried = {
        partition
        for asset in assets
        for kind in (DagsterEventType.ASSET_MATERIALIZATION_PLANNED, DagsterEventType.ASSET_MATERIALIZATION)
        for partition in instance.event_log_storage.get_latest_storage_id_by_partition(asset, kind)
    }
    return sorted(date.fromisoformat(partition) for partition in tried)


_PICTURE_OPENS: Final = "](data:image/svg+xml;base64,"


def _picture(markdown: str) -> str:
    """The data URI in the Markdown that a check writes for the UI."""
    _, opens, rest = markdown.partition(_PICTURE_OPENS)
    return f"{opens[2:]}{rest.partition(')')[0]}" if opens else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
