"""Which of a day's landed files are read, in which order, and what becomes of the others.

Reading them is `day_reader.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from platform_assets.domain.sources import Source
from platform_assets.file_ledger import Content, Entry, FileLedger
from platform_assets.landed_sources import LandedSources
from platform_assets.settings import Settings
from resources.landing_zone import LandedFile, LandingZoneResource
from resources.record_files.batches import Dialect, FileKind, RecordBatch


class FileGoneError(Exception):
    """A file is no longer what it was when the day was planned; planning anew helps."""


@dataclass(frozen=True)
class PlannedFile:
    """A file, what it holds, and when that was first seen."""

    file: LandedFile
    content: Content
    source: Source | None
    received_at: datetime
    """UTC; of the first sight of the content, so that a replay gives the same rows."""
    same_as: str | None = None
    """URI of the file that brought the same records before; then this one is not read."""

    @property
    def kind(self) -> FileKind | None:
        """Format and compression, by the name."""
        return self.content.kind

    def read(self, landing: LandingZoneResource) -> Iterator[RecordBatch]:
        """The records of a file that has a source and a format.

        Raises:
            UnreadableFileError: the file is not what it should be; what came before does not count.
            FileGoneError: it was taken away or renamed meanwhile.
            ConfigurationError: it cannot be opened.
        """
        from resources.record_files.reader import read_batches

        if self.source is None or self.kind is None:
            return
        dialect = Dialect(self.source.encoding, self.source.delimiter, self.source.record_path, self.source.sheet)
        try:
            with landing.fetch(self.file) as path:
                yield from read_batches(path, self.kind, list(self.source.columns.mapped().values()), dialect)
        except FileNotFoundError as error:
            raise FileGoneError(f"{self.file.uri} was taken away while its day was read: it is read again") from error


@dataclass(frozen=True)
class DayPlan:
    """The files of a day."""

    day: date
    files: list[PlannedFile]
    """By source, and then in the order in which they landed."""
    gone: list[Entry]
    """Files whose rows are in the tables, and which are no longer in the landing zone."""


def plan_day(day: date, landing: LandingZoneResource, settings: Settings, ledger: FileLedger, now: datetime) -> DayPlan:
    """Compare the day's files with the ledger.

    Raises:
        ConfigurationError: a contract landed with a file is not valid.
    """
    sources = LandedSources(landing, settings)
    before = ledger.of_day(day)
    first_seen = _first_seen(before)
    planned = []
    for file in landing.files(day):
        sourced = sources.source_of(file)
        content = ledger.content_of(file, sourced.name, landing, sources)
        received_at = first_seen.get(content, now)
        planned.append(PlannedFile(file, content, sourced.source, received_at))
    planned.sort(key=lambda one: (one.content.source, one.received_at, one.file.modified_at, one.file.uri))
    return DayPlan(day, _without_repeats(planned, day, ledger), _gone(planned, before))


def _first_seen(entries: Sequence[Entry]) -> dict[Content, datetime]:
    seen: dict[Content, datetime] = {}
    for entry in entries:
        seen[entry.content] = min(entry.landed_at, seen.get(entry.content, entry.landed_at))
    return seen


def _without_repeats(planned: Sequence[PlannedFile], day: date, ledger: FileLedger) -> list[PlannedFile]:
    """Mark the files whose content another one brings: of this day, or of the day that brought it first."""
    here = {(one.file.uri, one.content) for one in planned}
    first: dict[Content, str] = {}
    for one in planned:
        elsewhere = [
            entry
            for entry in ledger.holders(one.content)
            if entry.partition_date != day or (entry.file_uri, entry.content) in here
        ]
        # The file that has been the one so far stays it.
        first.setdefault(one.content, elsewhere[0].file_uri if elsewhere else one.file.uri)
    return [one if first[one.content] == one.file.uri else _repeat(one, first[one.content]) for one in planned]


def _repeat(one: PlannedFile, original: str) -> PlannedFile:
    return replace(one, same_as=original)


def _gone(planned: Sequence[PlannedFile], before: Sequence[Entry]) -> list[Entry]:
    """A renamed file is not gone: its content is there under another name, and is read the same way."""
    uris = {one.file.uri for one in planned}
    contents = {one.content for one in planned if one.source and one.kind}
    gone = [
        entry
        for entry in before
        if (entry.loaded or entry.gone) and entry.file_uri not in uris and entry.content not in contents
    ]
    return sorted(gone, key=lambda entry: (entry.source, entry.landed_at, entry.file_uri))
