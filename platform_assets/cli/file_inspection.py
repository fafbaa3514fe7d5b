"""What can be said of a file before it is landed: whether a run could read it, and what would be lost.

How an unknown file might be read is suggested by `source_suggestion.py`.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from platform_assets.domain.raw_feedback import FILE_URI, RECEIVED_AT, Accepted, accept
from platform_assets.domain.sources import Source
from resources.errors import ConfigurationError
from resources.record_files.batches import (
    LINE_NO,
    SUFFIXES,
    Dialect,
    FileKind,
    RecordBatch,
    RecordFormat,
    Rejected,
    UnreadableFileError,
)
from resources.record_files.dialect_detection import check_beginning
from resources.record_files.reader import read_batches

TRIED_RECORDS = 1000
_NAMED_COLUMNS = 12
_USUAL_SHARE = 0.1
_NESTED = (RecordFormat.JSONL, RecordFormat.JSON)


@dataclass(frozen=True)
class Inspection:
    """What a file holds."""

    records: int
    """Readable or not: the run will count as many."""
    warnings: list[str] = field(default_factory=list)


def inspect(file: Path, source: Source) -> Inspection:
    """Look a file over, whole and in bounded memory.

    Raises:
        ConfigurationError: a run could not read the file, or would find no such column; says what to do.
    """
    kind = kind_of(file)
    seen = _Seen(kind, source)
    try:
        check_beginning(file, kind)
        for batch in read_batches(file, kind, list(source.columns.mapped().values()), dialect_of(source)):
            seen.add(batch)
    except UnreadableFileError as error:
        raise unreadable(file, kind, error) from None
    if missing := seen.missing():
        columns = ", ".join(repr(name) for name in seen.columns[:_NAMED_COLUMNS]) or "none"
        raise ConfigurationError(f"{file}: no column {missing!r} (found: {columns}): {_advice(seen.columns, source)}")
    return Inspection(seen.records, seen.warnings())


def kind_of(file: Path) -> FileKind:
    """The kind of a file that may be landed.

    Raises:
        ConfigurationError: its name tells no kind, or counts as unfinished.
    """
    kind = FileKind.of(file.name)
    if kind is None:
        raise ConfigurationError(f"{file}: {file.suffix or 'no suffix'} is none of {SUFFIXES}: convert the file")
    if file.name.startswith((".", "_", "~")):
        raise ConfigurationError(f"{file}: a name that begins with {file.name[0]} counts as unfinished: rename it")
    return kind


def dialect_of(source: Source) -> Dialect:
    """How a source writes its files."""
    return Dialect(source.encoding, source.delimiter, source.record_path, source.sheet)


def unreadable(file: Path, kind: FileKind, error: UnreadableFileError) -> ConfigurationError:
    """The error to raise for a file that is not what it should be."""
    if kind.format in {RecordFormat.PARQUET, RecordFormat.XLSX} or error.incomplete:
        return ConfigurationError(f"{file}: {error.detail}: export the file again")
    return ConfigurationError(f"{file}: {error.detail} (--inspect suggests how to read it), or export the file again")


def judge(records: pl.DataFrame, source: Source, name: str) -> Accepted:
    """Apply a contract to records of a reader, as a run would today."""
    now = datetime.now(UTC)
    placed = records.with_columns(pl.lit("inspected").alias(FILE_URI), pl.lit(now).alias(RECEIVED_AT))
    return accept(placed, source, name, now.date())


class _Seen:
    """What a file's batches add up to; its first records are kept to be tried."""

    def __init__(self, kind: FileKind, source: Source) -> None:
        self._kind = kind
        self._source = source
        self._tried: list[pl.DataFrame] = []
        self._room = TRIED_RECORDS
        self._lost: list[Rejected] = []
        self._has_text = False
        self._readable = 0
        self.records = 0
        self.columns: list[str] = []

    def add(self, batch: RecordBatch) -> None:
        self._readable += batch.records.height
        self.records += batch.records.height + len(batch.rejected)
        self.columns = self.columns or list(batch.columns)
        self._has_text |= self._source.columns.text in batch.columns
        if self._room:
            tried = batch.records.head(self._room)
            self._tried.append(tried)
            is_all = tried.height == batch.records.height
            self._room -= tried.height
            last_line = None if is_all else tried[LINE_NO][-1]
            self._lost += [one for one in batch.rejected if last_line is None or one.line_no < last_line]

    def missing(self) -> str | None:
        """The first column that a run would miss; a JSON object may leave out what it has no value for."""
        if self._kind.format in _NESTED:
            return self._source.columns.text if self._readable and not self._has_text else None
        if not self.columns:
            return None
        return next((name for name in self._source.columns.mapped().values() if name not in self.columns), None)

    def warnings(self) -> list[str]:
        """What will become dead letters among the first records, where it is more than now and then one."""
        if not self.records:
            return ["it holds no records"]
        lost = [(one.line_no, one.detail) for one in self._lost]
        looked_at = len(lost)
        if self._tried:
            tried = pl.concat(self._tried)
            looked_at += tried.height
            lost += judge(tried, self._source, "inspected").refused.select("line_no", "detail").rows()
        if len(lost) <= _USUAL_SHARE * looked_at:
            return []
        line, detail = min(lost)
        of = f"of the first {looked_at}" if looked_at < self.records else f"of {looked_at}"
        return [f"{len(lost)} {of} records will be quarantined; line {line}: {detail}"]


def _advice(columns: list[str], source: Source) -> str:
    """What to do about a column that is not there."""
    only = columns[0] if len(columns) == 1 else ""
    if separator := next((each for each in ";\t|," if each in only and each != source.delimiter), ""):
        return f"the fields seem to be separated by {separator!r}: set the source's delimiter (--set delimiter=…)"
    return (
        "correct the source's columns in config/sources.yaml, or name the file's own with --source NAME "
        "--map text=COLUMN (--inspect suggests them)"
    )
