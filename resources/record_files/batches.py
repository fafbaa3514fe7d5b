"""What every reader gives: batches of records as text, and what is no record with its reason.

Nothing is inferred: every field comes out as the text that stands in the file. Types, names and rules belong
to the callers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import polars as pl

LINE_NO: Final = "#line_no"
"""Column beside the fields: the 1-based line on which the record begins; its row in Parquet and XLSX, its number in
JSON documents."""

EXTRA: Final = "#extra"
"""Column beside the fields: the fields that were not asked for, as a JSON object without white space."""

FIELD_LIMIT_CHARACTERS: Final = 1 << 20
"""A longer field is taken for a quote that was never closed."""

BATCH_BYTES: Final = 8 << 20
"""About so much of a file is in memory at once."""


class RecordFormat(StrEnum):
    """The file formats that can be read."""

    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    JSON = "json"
    PARQUET = "parquet"
    XLSX = "xlsx"


class Compression(StrEnum):
    """How a whole file may be compressed, each with its suffix."""

    GZIP = "gz"
    ZSTD = "zst"


_FORMATS: Final = {one.value: one for one in RecordFormat}
_FORMAT_SUFFIXES: Final = {**_FORMATS, "ndjson": RecordFormat.JSONL, "txt": RecordFormat.CSV}
_COMPRESSIONS: Final = {one.value: one for one in Compression}
_COMPRESSION_SUFFIXES: Final = {**_COMPRESSIONS, "gzip": Compression.GZIP, "zstd": Compression.ZSTD}

SUFFIXES: Final = f"{', '.join(f'.{one}' for one in RecordFormat)}, each also with .gz or .zst"
"""For messages: what a name may end with."""


@dataclass(frozen=True)
class FileKind:
    """What a file's name says of its content."""

    format: RecordFormat
    compression: Compression | None = None

    @classmethod
    def of(cls, name: str) -> "FileKind | None":
        """The kind that a name's suffixes tell, if it is one of ours."""
        *_, before, last = ["", "", *name.lower().split(".")[1:]]
        compression = _COMPRESSION_SUFFIXES.get(last)
        record_format = _FORMAT_SUFFIXES.get(before if compression else last)
        return cls(record_format, compression) if record_format else None


@dataclass(frozen=True)
class Dialect:
    """How a source writes its files; each format looks at what concerns it."""

    encoding: str = "utf-8"
    """Of CSV, TSV, JSONL and JSON; a byte order mark goes before it."""
    delimiter: str = ","
    """Of CSV; a first line `sep=…` goes before it."""
    record_path: str | None = None
    """Of JSON: dotted path of the array that holds the records; None for the document itself."""
    sheet: str | None = None
    """Of XLSX; None for the first."""


class Rejection(StrEnum):
    """Why something in a file is no record."""

    MALFORMED_RECORD = "malformed_record"
    WRONG_FIELD_COUNT = "wrong_field_count"


REJECTED_SCHEMA: Final = {"line_no": pl.Int64(), "raw": pl.String(), "reason": pl.String(), "detail": pl.String()}


@dataclass(frozen=True)
class Rejected:
    """A piece of a file that is no record."""

    line_no: int
    raw: str
    reason: Rejection
    detail: str


class UnreadableFileError(Exception):
    """A file that is not what its name and its source say; whatever was read of it before does not count.

    `incomplete` tells a file that ends too soon, and so may still be on its way.
    """

    def __init__(self, detail: str, *, incomplete: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.incomplete = incomplete


@dataclass(frozen=True)
class RecordBatch:
    """Some of a file's records, in the file's order: `records.height + len(rejected)` were read."""

    records: pl.DataFrame
    """Columns LINE_NO (Int64), EXTRA and one String column for each field asked for; null where there is none."""
    raws: Callable[[Sequence[int]], list[str]]
    """The records at these positions of `records` as they stand in the file; asked for only when needed."""
    rejected: list[Rejected] = field(default_factory=list)
    columns: Sequence[str] = ()
    """Names of the columns (dotted paths in JSON) that were seen in this batch; those of the header in a table."""


def frame(
    fields: Sequence[str], line_nos: Sequence[int], extras: Sequence[str], values: Sequence[Sequence[str | None]]
) -> pl.DataFrame:
    """Rows of Python values as `RecordBatch.records`; `values` holds one row of fields a record."""
    columns = list(zip(*values, strict=True)) if values else [()] * len(fields)
    return pl.DataFrame(
        [
            pl.Series(LINE_NO, line_nos, dtype=pl.Int64),
            pl.Series(EXTRA, extras, dtype=pl.String),
            *(pl.Series(name, column, dtype=pl.String) for name, column in zip(fields, columns, strict=True)),
        ]
    )
