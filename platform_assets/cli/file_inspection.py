"""What can be said of a file before it is landed: whether a run could read it, and what would be lost."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from platform_assets.domain.raw_feedback import FileOrigin, accept
from platform_assets.domain.sources import Source
from resources.errors import ConfigurationError
from resources.record_files import RecordFile, RecordFormat, Rejection, read_records

_TRIED_RECORDS = 1000
_NAMED_COLUMNS = 12
_USUAL_SHARE = 0.1


@dataclass(frozen=True)
class Inspection:
    """What a file holds."""

    records: int
    """Readable or not: the run will count as many."""
    warnings: list[str] = field(default_factory=list)


def inspect(file: Path, source: Source) -> Inspection:
    """Look a file over.

    Raises:
        ConfigurationError: a run could not read the file, or would find no such column; says what to do.
    """
    record_format = RecordFormat.of(file)
    if record_format is None:
        suffixes = ", ".join(f".{known}" for known in RecordFormat)
        raise ConfigurationError(f"{file}: {file.suffix or 'no suffix'} is none of {suffixes}: convert the file")
    if file.name.startswith((".", "_", "~")):
        raise ConfigurationError(f"{file}: a name that begins with {file.name[0]} counts as unfinished: rename it")
    found = read_records(
        file,
        record_format,
        list(source.columns.mapped().values()),
        encoding=source.encoding,
        delimiter=source.delimiter,
    )
    if broken := next((one for one in found.rejected if one.reason is Rejection.UNREADABLE_FILE), None):
        raise ConfigurationError(f"{file}: {broken.detail}{_hint(file)}")
    if missing := _missing(found, record_format, source):
        columns = ", ".join(repr(name) for name in found.columns[:_NAMED_COLUMNS]) or "none"
        raise ConfigurationError(f"{file}: no column {missing!r} (found: {columns}): {_advice(found, source)}")
    records = found.records.height + len(found.rejected)
    return Inspection(records, _warnings(found, records, source))


def _hint(file: Path) -> str:
    """What else to do about a file that cannot be read."""
    with file.open("rb") as content:
        if content.read(2) == b"PK":
            return "; it looks like an Excel or zip file: export it as CSV"
    return " (with --map: --set encoding=NAME), or export the file again"


def _advice(found: RecordFile, source: Source) -> str:
    """What to do about a column that is not there."""
    only = found.columns[0] if len(found.columns) == 1 else ""
    if separator := next((each for each in ";\t|," if each in only and each != source.delimiter), ""):
        return f"the fields seem to be separated by {separator!r}: set the source's delimiter (--set delimiter=…)"
    return (
        "correct the source's columns in config/sources.yaml, or name the file's own with --source NAME "
        "--map text=COLUMN"
    )


def _missing(found: RecordFile, record_format: RecordFormat, source: Source) -> str | None:
    """The first column that a run would miss; a JSON object may leave out what it has no value for."""
    if record_format is RecordFormat.JSONL:
        return source.columns.text if source.columns.text in found.missing else None
    if not found.columns:
        return None
    return next((name for name in source.columns.mapped().values() if name not in found.columns), None)


def _warnings(found: RecordFile, records: int, source: Source) -> list[str]:
    """What will become dead letters, tried on the first records, where it is more than now and then a row."""
    if not records:
        return ["it holds no records"]
    tried = found.records.head(_TRIED_RECORDS)
    origin = FileOrigin("inspected", "", datetime.now(UTC).date(), datetime.now(UTC))
    letters = accept(tried, source, origin).quarantined.select("line_no", "detail")
    lost = [(one.line_no, one.detail) for one in found.rejected] + letters.rows()
    looked_at = tried.height + len(found.rejected)
    if len(lost) <= _USUAL_SHARE * looked_at:
        return []
    line, detail = min(lost)
    of = f"of the first {looked_at}" if looked_at < records else f"of {looked_at}"
    return [f"{len(lost)} {of} records will be quarantined; line {line}: {detail}"]
