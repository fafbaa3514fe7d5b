"""Which days wait for a run: those with content that no run has read, and those whose last run did not end well."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final

import dagster as dg
from dagster import DagsterEventType

from platform_assets.landed_sources import content_of, note_of
from resources.delta_lake import DeltaLakeResource
from resources.landing_zone import LandedFile, LandingZoneResource

_LEDGER: Final = "landed_files"
_LAST: Final = "daily_summary"


@dataclass(frozen=True)
class WaitingDays:
    """Days that wait, and days that must be waited for."""

    content: dict[date, str] = field(default_factory=dict)
    """The days to run, ascending, each with a hash over what it holds; the same until something changes."""
    unsettled: list[date] = field(default_factory=list)
    """Days with a file that may still be growing."""


def waiting_days(
    landing: LandingZoneResource,
    lake: DeltaLakeResource,
    instance: dg.DagsterInstance,
    *,
    complete: Callable[[LandedFile], bool] = lambda _: True,
) -> WaitingDays:
    """Compare the landing zone with the ledger, and the ledger with the summaries.

    A touched file changes nothing. A file whose size and time stamp are the ledger's is known without reading it.

    Args:
        landing: the landing zone.
        lake: the tables.
        instance: knows which days came to their end.
        complete: whether a file may be read yet; a day with one that may not is left for later.
    """
    ledger = _read_ledger(lake)
    unfinished = _unfinished(instance, {known.day for known in ledger.values()})
    waiting = WaitingDays()
    for day in sorted({*landing.days(), *unfinished}):
        files = landing.files(day)
        if not all(complete(file) for file in files):
            waiting.unsettled.append(day)
            continue
        now = {file.uri: _content(file, landing, ledger) for file in files}
        is_new = any(uri not in ledger or ledger[uri].content != content for uri, content in now.items())
        if is_new or day in unfinished:
            listing = "\n".join(f"{uri} {content}" for uri, content in sorted(now.items()))
            waiting.content[day] = hashlib.sha256(listing.encode()).hexdigest()
    return waiting


@dataclass(frozen=True)
class _Known:
    day: date
    content: str
    size_bytes: int
    modified_at: datetime


def _read_ledger(lake: DeltaLakeResource) -> dict[str, _Known]:
    if not lake.exists(_LEDGER):
        return {}
    columns = ("file_uri", "partition_date", "content_hash", "size_bytes", "modified_at")
    rows = lake.scan(_LEDGER).select(columns).collect().iter_rows()
    return {uri: _Known(day, content, size, modified_at) for uri, day, content, size, modified_at in rows}


def _content(file: LandedFile, landing: LandingZoneResource, ledger: dict[str, _Known]) -> str:
    known = ledger.get(file.uri)
    unchanged = known and known.size_bytes == file.size_bytes and known.modified_at == file.modified_at
    return known.content if known and unchanged and not note_of(file, landing) else content_of(file, landing)


def _unfinished(instance: dg.DagsterInstance, read: set[date]) -> set[date]:
    """Days that were read after their last summary, or have none."""
    events = instance.event_log_storage
    loaded, summed_up = (
        events.get_latest_storage_id_by_partition(dg.AssetKey(name), DagsterEventType.ASSET_MATERIALIZATION)
        for name in (_LEDGER, _LAST)
    )
    return {day for day in read if summed_up.get(day.isoformat(), 0) <= loaded.get(day.isoformat(), 0)}
