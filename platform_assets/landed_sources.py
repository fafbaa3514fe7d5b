"""Which source a landed file belongs to, and under which contract its records are read.

Which days wait to be read is `waiting_days.py`.
"""

import hashlib
from dataclasses import dataclass
from datetime import date

from platform_assets.domain.sources import Source
from platform_assets.settings import Settings
from resources.landing_zone import LandedFile, LandingZoneResource

SOURCE_NOTE = "_source.yaml"
"""A contract landed together with its files, in their folder; it goes before config/sources.yaml."""


def note_uri(day: date, folder: str) -> str:
    """Where the contract of a folder lies, if it has one of its own."""
    return f"{day.isoformat()}/{folder}/{SOURCE_NOTE}"


@dataclass(frozen=True)
class SourcedFile:
    """The name of a file's source, and its contract where there is one."""

    name: str
    source: Source | None


@dataclass(frozen=True)
class LandedNote:
    """A contract landed together with its files."""

    source: Source
    sha256: str
    """Of its text, in hex."""


class LandedSources:
    """The sources of landed files, for one look at the zone: each folder's note is read once."""

    def __init__(self, landing: LandingZoneResource, settings: Settings) -> None:
        self._landing = landing
        self._settings = settings
        self._notes: dict[tuple[date, str], LandedNote | None] = {}

    def source_of(self, file: LandedFile) -> SourcedFile:
        """The source of a file: that of its folder, else the first with a pattern that its name fits.

        Raises:
            ConfigurationError: the contract landed with it is not valid.
        """
        known = self._settings.sources
        if file.folder is None:
            name = known.of_file(file.name)
            return SourcedFile(name or "unknown", known.sources[name] if name else None)
        note = self.note_of(file.day, file.folder)
        return SourcedFile(file.folder, note.source if note else known.sources.get(file.folder))

    def contract_hash(self, file: LandedFile) -> str | None:
        """SHA-256 of the contract landed together with a file, in hex; None without one.

        Raises:
            ConfigurationError: the contract is not valid.
        """
        note = self.note_of(file.day, file.folder) if file.folder else None
        return note.sha256 if note else None

    def note_of(self, day: date, folder: str) -> LandedNote | None:
        """The contract landed in a folder, if there is one.

        Raises:
            ConfigurationError: it is not valid.
        """
        if (day, folder) not in self._notes:
            self._notes[day, folder] = self._read(note_uri(day, folder))
        return self._notes[day, folder]

    def _read(self, uri: str) -> LandedNote | None:
        text = self._landing.read_text(uri)
        if text is None:
            return None
        source = self._settings.source_note(text, self._landing.location(uri))
        return LandedNote(source, hashlib.sha256(text.encode()).hexdigest())


def rating_ranges(day: date, landing: LandingZoneResource, settings: Settings) -> dict[str, tuple[float, float]]:
    """Lowest and highest rating of each source that a record of `day` may come from."""
    ranges = {name: source.rating_range for name, source in settings.sources.sources.items()}
    sources = LandedSources(landing, settings)
    for folder in landing.folders(day):
        if note := sources.note_of(day, folder):
            ranges[folder] = note.source.rating_range
    return ranges
