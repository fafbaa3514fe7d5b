"""How a file might be read, for `feedback ingest --inspect`: a contract with its reasons, tried on a sample.

Finding out is the part of `resources/record_files/dialect_detection.py` (bytes) and `domain/suggested_source.py`
(columns and values); this joins them, and reads the sample as a run would under what they propose.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from platform_assets.cli.file_inspection import TRIED_RECORDS, judge, kind_of, unreadable
from platform_assets.cli.source_entry import pattern_of
from platform_assets.cli.source_options import contract
from platform_assets.domain.sources import Source
from platform_assets.domain.suggested_source import Suggestion, suggest
from resources.errors import ConfigurationError
from resources.record_files.batches import (
    EXTRA,
    LINE_NO,
    Dialect,
    FileKind,
    RecordBatch,
    RecordFormat,
    UnreadableFileError,
)
from resources.record_files.dialect_detection import DetectedDialect, detect_dialect
from resources.record_files.reader import read_batches

_SHOWN_ROWS: Final = 5
_UNUSUAL_SHARE: Final = 0.1
_ROW: Final = ("created_at", "rating", "text", "source_record_id", "author_id", "language", "channel")
_DIALECT: Final = ("encoding", "delimiter", "record_path", "sheet")


@dataclass(frozen=True)
class Refused:
    """Sampled records that the proposal would quarantine for one reason."""

    reason: str
    records: int
    line_no: int
    detail: str
    """Of the first of them, at that line."""


@dataclass(frozen=True)
class Trial:
    """What became of the sample under the proposal."""

    records: int
    refused: Sequence[Refused]
    rows: pl.DataFrame
    """The first that would be loaded."""
    rows_lack_time: bool
    """Whether their times were left out, because it is not decided how to read them."""

    @property
    def quarantined(self) -> int:
        """Number of the sampled records that would be quarantined."""
        return sum(one.records for one in self.refused)


@dataclass(frozen=True)
class Proposal:
    """How a file might be read."""

    file: Path
    kind: FileKind
    dialect: DetectedDialect
    examples: Mapping[str, str | None]
    """A value of each column; None where the sample has none, or only lists."""
    suggestion: Suggestion
    properties: Mapping[str, str]
    """Property of the source → why it is as `source` has it; those of the dialect are in `dialect`."""
    undecided: Mapping[str, str]
    """Property → what a person still has to say."""
    notes: Sequence[str]
    """What else a person should know."""
    source: Source | None
    """The contract; None where no column holds the text."""
    trial: Trial | None


def propose(file: Path, columns: Mapping[str, str], properties: Mapping[str, object]) -> Proposal:
    """Look at the beginning of a file and propose how to read it.

    Args:
        file: the file; nothing is done to it.
        columns: our field → column, where a person has said it.
        properties: of the source, where a person has said them; valid ones.

    Raises:
        ConfigurationError: the file cannot be read, or has no such column.
    """
    kind = kind_of(file)
    try:
        given = {name: str(properties[name]) for name in _DIALECT if name in properties}
        detected = detect_dialect(file, kind, **given)
        sample = _Sample(file, kind, detected.dialect)
        if lost := next((column for column in columns.values() if column not in sample.plain), None):
            names = ", ".join(repr(name) for name in sample.plain[:12]) or "none"
            raise ConfigurationError(f"{file}: no column {lost!r} with plain values (found: {names}): correct --map")
        suggestion = suggest(sample.records.select(sample.plain), columns)
        proposed = {name: one for name, one in suggestion.properties.items() if not _is_given(name, properties)}
        source = None
        if "text" in suggestion.columns:
            source = contract(
                {
                    **{name: value for name in _DIALECT if (value := getattr(detected.dialect, name)) is not None},
                    **{name: one.value for name, one in proposed.items()},
                    **properties,
                    "files": [pattern_of(file.name)],
                    "columns": {name: one.value for name, one in suggestion.columns.items()},
                }
            )
        undecided = {name: question for name, question in suggestion.undecided.items() if name not in properties}
        trial = _tried(sample, source, is_decided=not undecided) if source else None
    except UnreadableFileError as error:
        raise unreadable(file, kind, error) from None
    return Proposal(
        file,
        kind,
        detected,
        examples={name: _example(sample.records[name]) if name in sample.plain else None for name in sample.columns},
        suggestion=suggestion,
        properties={name: one.why for name, one in proposed.items()}
        | {name: "given" for name in properties if name not in _DIALECT},
        undecided=undecided,
        notes=[*detected.notes, *sample.notes],
        source=source,
        trial=trial,
    )


def _is_given(name: str, given: Mapping[str, object]) -> bool:
    """Whether a person has said it; one that says how times are written says it of all."""
    ways = {"time_format", "epoch_unit"}
    return name in given or (name in ways and not ways.isdisjoint(given))


class _Sample:
    """The first records of a file, with all columns that hold one plain value a record."""

    def __init__(self, file: Path, kind: FileKind, dialect: Dialect) -> None:
        batches = _first_batches(file, kind, (), dialect)
        self.columns = list(dict.fromkeys(name for batch in batches for name in batch.columns))
        """Names of all columns."""
        header = [name for batch in batches[:1] for name in batch.columns]
        twice = [name for name in self.columns if header.count(name) > 1]
        nested = _nested(batches) if kind.format in {RecordFormat.JSON, RecordFormat.JSONL} else set()
        self.plain = [name for name in self.columns if name not in nested and name not in twice]
        """Names of those that are in `records`."""
        self.notes = [f"the header names {name!r} more than once: it cannot be mapped" for name in twice]
        batches = _first_batches(file, kind, self.plain, dialect)
        self.records = pl.concat([batch.records for batch in batches]) if batches else _nothing()
        self.rejected = [one for batch in batches for one in batch.rejected]


def _nothing() -> pl.DataFrame:
    return pl.DataFrame(schema={LINE_NO: pl.Int64(), EXTRA: pl.String()})


def _first_batches(file: Path, kind: FileKind, fields: Sequence[str], dialect: Dialect) -> list[RecordBatch]:
    """The batches of the first TRIED_RECORDS, the last of them cut."""
    found: list[RecordBatch] = []
    room = TRIED_RECORDS
    for batch in read_batches(file, kind, fields, dialect):
        records = batch.records.head(room)
        is_whole = records.height == batch.records.height
        until = None if is_whole else records[LINE_NO][-1]
        rejected = [one for one in batch.rejected if until is None or one.line_no < until][:room]
        found.append(replace(batch, records=records, rejected=rejected))
        room -= records.height + len(rejected)
        if room <= 0:
            break
    return found


def _nested(batches: Sequence[RecordBatch]) -> set[str]:
    """Dotted paths in JSON at which lists or objects stand more than now and then."""
    plain: Counter[str] = Counter()
    other: Counter[str] = Counter()
    for batch in batches:
        for extra in batch.records[EXTRA]:
            values: dict[str, object] = json.loads(extra)
            plain.update(name for name, value in values.items() if value is not None and not isinstance(value, list))
            other.update(name for name, value in values.items() if isinstance(value, list))
            other.update({name[:at] for name in values for at, sign in enumerate(name) if sign == "."})
    return {name for name, count in other.items() if count > _UNUSUAL_SHARE * (count + plain[name])}


def _tried(sample: _Sample, source: Source, *, is_decided: bool) -> Trial:
    accepted = judge(sample.records, source, "inspected")
    lost = [(one.line_no, one.reason.value, one.detail) for one in sample.rejected]
    lost = sorted(lost + accepted.refused.select("line_no", "reason", "detail").rows())
    first = {reason: (line_no, detail) for line_no, reason, detail in reversed(lost)}
    counts = Counter(reason for _, reason, _ in lost)
    rows = accepted.loaded
    if not is_decided:
        timeless = source.columns.model_copy(update={"created_at": None})
        rows = judge(sample.records, source.model_copy(update={"columns": timeless}), "inspected").loaded
    return Trial(
        sample.records.height + len(sample.rejected),
        [Refused(reason, count, *first[reason]) for reason, count in counts.most_common()],
        rows.head(_SHOWN_ROWS).select(name for name in _ROW if is_decided or name != "created_at"),
        rows_lack_time=not is_decided,
    )


def _example(values: pl.Series) -> str | None:
    filled = values.filter(values.str.strip_chars().fill_null("") != "")
    return str(filled[0]) if filled.len() else None
