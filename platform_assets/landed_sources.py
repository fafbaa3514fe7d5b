"""Which source a landed file belongs to, and what in it would make its day worth reading again.

Which days wait to be read is `waiting_days.py`.
"""

import hashlib
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from platform_assets.domain.sources import Source
from platform_assets.settings import Settings
from resources.landing_zone import LandedFile, LandingZoneResource, content_hash

SOURCE_NOTE = "_source.yaml"
"""A contract landed together with its files, in their folder; it goes before config/sources.yaml."""


@dataclass(frozen=True)
class SourcedFile:
    """The name of a file's source, and its contract where there is one."""

    name: str
    source: Source | None


def source_of(file: LandedFile, landing: LandingZoneResource, settings: Settings) -> SourcedFile:
    """The source of a file: that of its folder, else the first with a pattern that its name fits."""
    if file.folder is None:
        name = settings.sources.of_file(file.name)
        return SourcedFile(name or "unknown", settings.sources.sources[name] if name else None)
    if note := note_of(file, landing):
        return SourcedFile(file.folder, settings.source_note(note))
    return SourcedFile(file.folder, settings.sources.sources.get(file.folder))


def note_of(file: LandedFile, landing: LandingZoneResource) -> Path | None:
    """The contract landed together with a file, if there is one."""
    note = landing.folder(file.day) / (file.folder or "") / SOURCE_NOTE
    return note if file.folder and note.is_file() else None


def content_of(file: LandedFile, landing: LandingZoneResource) -> str:
    """SHA-256 of a file and of the contract landed with it: when either changes, its records do."""
    note = note_of(file, landing)
    if note is None:
        return file.content_hash()
    return hashlib.sha256(f"{file.content_hash()} {content_hash(note)}".encode()).hexdigest()


def rating_ranges(day: date, landing: LandingZoneResource, settings: Settings) -> dict[str, tuple[float, float]]:
    """Lowest and highest rating of each source that a record of `day` may come from."""
    ranges = {name: source.rating_range for name, source in settings.sources.sources.items()}
    for note in sorted(landing.folder(day).glob(f"*/{SOURCE_NOTE}")):
        ranges[note.parent.name] = settings.source_note(note).rating_range
    return ranges
