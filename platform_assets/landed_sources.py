"""Which source a landed file belongs to, and which days hold files that no run has read yet."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime

from platform_assets.domain.sources import Source
from platform_assets.settings import Settings
from resources.delta_lake import DeltaLakeResource
from resources.landing_zone import LandedFile, LandingZoneResource

SOURCE_NOTE = "_source.yaml"
"""A contract landed together with its files, in their folder; it goes before config/sources.yaml."""


@dataclass(frozen=True)
class SourcedFile:
    """The name of a file's source, and its contract where there is one."""

    name: str
    source: Source | None


def source_of(file: LandedFile, settings: Settings) -> SourcedFile:
    """The source of a file: that of its folder, else the first with a pattern that its name fits."""
    if file.folder is None:
        name = settings.sources.of_file(file.name)
        return SourcedFile(name or "unknown", settings.sources.sources[name] if name else None)
    note = file.path.parent / SOURCE_NOTE
    if note.is_file():
        return SourcedFile(file.folder, settings.source_note(note))
    return SourcedFile(file.folder, settings.sources.sources.get(file.folder))


def pending_days(
    landing: LandingZoneResource, lake: DeltaLakeResource, *, complete: Callable[[LandedFile], bool] = lambda _: True
) -> dict[date, str]:
    """Days that hold a content which the ledger does not know, ascending, each with a hash over all it holds.

    The hash is over names and contents, so a touched file changes nothing. A file whose size and time stamp are
    the ledger's is taken as known without reading it.

    Args:
        landing: the landing zone.
        lake: the tables.
        complete: whether a file may be read yet; a day with one that may not is left for later.
    """
    ledger = _ledger(lake)
    pending: dict[date, str] = {}
    for day in landing.days():
        files = landing.files(day)
        if not all(complete(file) for file in files):
            continue
        now = {file.uri: _content(file, ledger) for file in files}
        if any(uri not in ledger or ledger[uri].content != content for uri, content in now.items()):
            listing = "\n".join(f"{uri} {content}" for uri, content in sorted(now.items()))
            pending[day] = hashlib.sha256(listing.encode()).hexdigest()
    return pending


@dataclass(frozen=True)
class _Known:
    content: str
    size_bytes: int
    seen_at: datetime


def _ledger(lake: DeltaLakeResource) -> dict[str, _Known]:
    if not lake.exists("landed_files"):
        return {}
    columns = ("file_uri", "content_hash", "size_bytes", "landed_at")
    rows = lake.scan("landed_files").select(columns).collect().iter_rows()
    return {uri: _Known(content, size, landed_at) for uri, content, size, landed_at in rows}


def _content(file: LandedFile, ledger: dict[str, _Known]) -> str:
    known = ledger.get(file.uri)
    if known and known.size_bytes == file.size_bytes and known.seen_at == file.modified_at:
        return known.content
    return file.content_hash()
