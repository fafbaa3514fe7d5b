"""The ledger of landed files: what was read, when it was first seen, and which file a content belongs to.

It is the table `landed_files`; writing it is part of `raw_feedback`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

import polars as pl

from platform_assets.domain.tables import LANDED_FILES
from platform_assets.landed_sources import LandedSources
from resources.delta_lake import DeltaLakeResource
from resources.landing_zone import LandedFile, LandingZoneResource
from resources.record_files.batches import FileKind

LEDGER: Final = "landed_files"


@dataclass(frozen=True)
class Content:
    """What makes two files the same: their source, their bytes, and how these are read."""

    source: str
    content_hash: str
    contract_hash: str | None
    """Of the contract landed with them."""
    kind: FileKind | None
    """By the name."""


@dataclass(frozen=True)
class Entry:
    """One file as a run found it."""

    partition_date: date
    file_uri: str
    source: str
    content_hash: str
    contract_hash: str | None
    size_bytes: int
    modified_at: datetime
    etag: str | None
    landed_at: datetime
    records: int
    loaded: int
    same_as: str | None
    gone: bool | None
    """Whether its records were taken over, as it was no longer in the landing zone."""

    @property
    def content(self) -> Content:
        """What the file holds."""
        return Content(self.source, self.content_hash, self.contract_hash, FileKind.of(self.file_uri))

    def is_untouched(self, file: LandedFile) -> bool:
        """Whether a file is this one without a look inside."""
        found = (file.uri, file.size_bytes, file.modified_at, file.etag)
        return found == (self.file_uri, self.size_bytes, self.modified_at, self.etag)


_COLUMNS: Final = tuple(Entry.__dataclass_fields__)


class FileLedger:
    """Every file that a run has read."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = {entry.file_uri: entry for entry in entries}
        self._holders: defaultdict[Content, list[Entry]] = defaultdict(list)
        for entry in entries:
            if entry.same_as is None and entry.loaded:
                self._holders[entry.content].append(entry)

    @classmethod
    def of(cls, lake: DeltaLakeResource) -> "FileLedger":
        """The ledger as it stands; empty before the first run."""
        if not lake.exists(LEDGER):
            return cls([])
        rows = lake.scan(LEDGER)
        missing = [name for name in _COLUMNS if name not in rows.collect_schema()]
        stored = rows.with_columns(pl.lit(None, LANDED_FILES[name]).alias(name) for name in missing)
        return cls([Entry(*row) for row in stored.select(_COLUMNS).collect().iter_rows()])

    def of_day(self, day: date) -> list[Entry]:
        """The files of one day."""
        return [entry for entry in self.entries.values() if entry.partition_date == day]

    def holders(self, content: Content) -> list[Entry]:
        """The files that brought rows of a content, the one that counts first."""
        return sorted(self._holders[content], key=lambda entry: (entry.landed_at, entry.partition_date, entry.file_uri))

    def content_of(
        self, file: LandedFile, source: str, landing: LandingZoneResource, sources: LandedSources
    ) -> Content:
        """What a file holds; its bytes are read only where the ledger does not know it as it is."""
        entry = self.entries.get(file.uri)
        known = entry.content_hash if entry and entry.is_untouched(file) else None
        content_hash = known or landing.content_hash(file)
        return Content(source, content_hash, sources.contract_hash(file), FileKind.of(file.name))

    def is_superfluous(self, entry: Entry) -> bool:
        """Whether another file that counts before this one brought the same content."""
        return entry.same_as is None and entry.loaded > 0 and self.holders(entry.content)[0] is not entry

    def has_lost_its_original(self, entry: Entry) -> bool:
        """Whether the file that an entry was found to repeat does not hold the same content any more."""
        if entry.same_as is None:
            return False
        original = self.entries.get(entry.same_as)
        return original is None or original.content != entry.content
