"""Which days wait for a run: those with content that no run has read, and those whose last run did not end well."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Final

import dagster as dg
from dagster import DagsterEventType

from platform_assets.file_ledger import LEDGER, FileLedger
from platform_assets.landed_sources import LandedSources
from platform_assets.settings import Settings
from resources.errors import ConfigurationError
from resources.landing_zone import LandedFile, LandingZoneResource

_LAST: Final = "daily_summary"


@dataclass(frozen=True)
class WaitingDays:
    """Days that wait, and days that must be waited for."""

    content: dict[date, str] = field(default_factory=dict)
    """The days to run, ascending, each with a hash over its files; the same until one of them is written to."""
    unsettled: list[date] = field(default_factory=list)
    """Days with a file that may still be growing."""
    refused: dict[date, str] = field(default_factory=dict)
    """Days that a person has to see to first, with what to do."""


def waiting_days(
    settings: Settings,
    instance: dg.DagsterInstance,
    *,
    complete: Callable[[LandedFile, LandedSources], bool] = lambda file, sources: True,
) -> WaitingDays:
    """Compare the landing zone with the ledger, and the ledger with the summaries.

    A touched file changes nothing. Only a file that the ledger knows with other bytes is looked into.

    Args:
        settings: of the project.
        instance: knows which days came to their end.
        complete: whether a file may be read yet; a day with one that may not is left for later.
    """
    landing = settings.landing()
    ledger = FileLedger.of(settings.lake())
    sources = LandedSources(landing, settings)
    unfinished = _unfinished(instance, {entry.partition_date for entry in ledger.entries.values()})
    waiting = WaitingDays()
    for day in sorted({*landing.days(), *unfinished}):
        try:
            files = landing.files(day)
            if not all(complete(file, sources) for file in files):
                waiting.unsettled.append(day)
            elif day in unfinished or any(_is_new(file, landing, ledger, sources) for file in files):
                waiting.content[day] = _listing_hash(files, sources)
        except ConfigurationError as error:
            # Such as a mistake in a contract that landed with its files; the other days can be read.
            waiting.refused[day] = str(error)
    return waiting


def _is_new(file: LandedFile, landing: LandingZoneResource, ledger: FileLedger, sources: LandedSources) -> bool:
    """Whether reading the file's day would change what the tables hold of it."""
    entry = ledger.entries.get(file.uri)
    if entry is None or entry.contract_hash != sources.contract_hash(file):
        return True
    if ledger.is_superfluous(entry) or ledger.has_lost_its_original(entry):
        return True
    if entry.is_untouched(file):
        return False
    return entry.size_bytes != file.size_bytes or entry.content_hash != _hash(landing, file)


@lru_cache(maxsize=100_000)
def _hash(landing: LandingZoneResource, file: LandedFile) -> str:
    """SHA-256 of a file in a state that its time stamp tells: looked at in every tick, read once."""
    return landing.content_hash(file)


def _listing_hash(files: list[LandedFile], sources: LandedSources) -> str:
    listing = "\n".join(
        f"{file.uri} {file.size_bytes} {file.modified_at.isoformat()} {file.etag} {sources.contract_hash(file)}"
        for file in files
    )
    return hashlib.sha256(listing.encode()).hexdigest()


def _unfinished(instance: dg.DagsterInstance, read: set[date]) -> set[date]:
    """Days that were read after their last summary, or have none."""
    events = instance.event_log_storage
    loaded, summed_up = (
        events.get_latest_storage_id_by_partition(dg.AssetKey(name), DagsterEventType.ASSET_MATERIALIZATION)
        for name in (LEDGER, _LAST)
    )
    return {day for day in read if summed_up.get(day.isoformat(), 0) <= loaded.get(day.isoformat(), 0)}
