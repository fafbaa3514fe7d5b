"""Reads Parquet files, whatever their types, as text."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from resources.errors import unreadable
from resources.record_files.batches import BATCH_BYTES, EXTRA, LINE_NO, Dialect, RecordBatch, UnreadableFileError
from resources.record_files.plain_bytes import plain
from resources.record_files.table_json import json_rows, json_rows_at

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

_MAGIC: Final = b"PAR1"
_ROWS_AT_MOST: Final = 1 << 16
_PER_DAY: Final = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_CALENDAR_DAYS: Final = (-719_162, 2_932_897)
"""0001-01-01 and 10000-01-01, in days since 1970."""


def read(path: Path, fields: Sequence[str], dialect: Dialect) -> Iterator[RecordBatch]:
    """Read the rows of a Parquet file; LINE_NO is the row's number, from 1.

    Bytes are text where they are UTF-8, as older writers store strings, and otherwise as Python spells them; times
    are ISO 8601; lists and structs are JSON. A raw is the row as a JSON object. A file without rows gives one
    batch, which names its columns. Of `dialect` nothing concerns Parquet.

    Raises:
        UnreadableFileError: the file is no Parquet file, is broken, or was cut off (`incomplete`).
        FileNotFoundError: there is no such file.
        ConfigurationError: it cannot be opened.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    with plain(path, None) as raw:
        start = raw.read(len(_MAGIC))
        raw.seek(max(len(start), raw.seek(0, 2) - len(_MAGIC)))
        end = raw.read()
    if not _MAGIC.startswith(start):
        raise UnreadableFileError("not a Parquet file, though its name says so")
    if not start == end == _MAGIC:
        raise UnreadableFileError("the Parquet file ends too soon", incomplete=True)
    try:
        with ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            names = file.schema_arrow.names
            if repeated := next((name for name in names if names.count(name) > 1), None):
                raise UnreadableFileError(f"the file names the column {repeated!r} more than once")
            rows_before = 0
            for part in file.iter_batches(_rows_per_batch(file)):
                part.validate(full=True)
                yield _batch(_table(part), fields, rows_before)
                rows_before += part.num_rows
            if rows_before == 0:
                yield _batch(_table(file.schema_arrow.empty_table()), fields, 0)
    except (
        pa.ArrowException,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        OSError,
        ValueError,
        OverflowError,
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(path, error) from error
        what = next(iter(str(error).splitlines()), type(error).__name__)
        raise UnreadableFileError(f"not a Parquet file that can be read: {what}") from error


def _rows_per_batch(file: "ParquetFile") -> int:
    """As many as hold BATCH_BYTES, going by what the footer says of the whole."""
    footer = file.metadata
    size = sum(int(footer.row_group(group).total_byte_size) for group in range(footer.num_row_groups))
    return max(1, min(_ROWS_AT_MOST, BATCH_BYTES * int(footer.num_rows) // max(size, 1)))


def _table(part: "pa.RecordBatch | pa.Table") -> pl.DataFrame:
    table = pl.DataFrame(pl.from_arrow(part))
    table.columns = part.schema.names  # an empty name was replaced
    return table


def _batch(table: pl.DataFrame, fields: Sequence[str], rows_before: int) -> RecordBatch:
    columns = {column.name: _plain(column) for column in table.iter_columns()}
    nothing = pl.repeat(None, table.height, dtype=pl.String, eager=True)
    records = pl.DataFrame(
        {
            LINE_NO: pl.int_range(rows_before + 1, rows_before + table.height + 1, dtype=pl.Int64, eager=True),
            EXTRA: json_rows({name: columns[name] for name in columns if name not in fields}, table.height),
            **{name: _text_of(columns[name]) if name in columns else nothing for name in fields},
        }
    )
    return RecordBatch(records, partial(json_rows_at, columns), columns=table.columns)


def _plain(column: pl.Series) -> pl.Series:
    """Bytes and moments as text, for which JSON has no words of its own."""
    if "Binary" in str(column.dtype):
        return pl.Series(column.name, [_text_of_bytes(value) for value in column.to_list()], dtype=pl.String)
    if isinstance(column.dtype, pl.Datetime):
        return _where_a_calendar_goes(column, _PER_DAY[column.dtype.time_unit], "iso:strict")
    if isinstance(column.dtype, pl.Date):
        return _where_a_calendar_goes(column, 1, "iso")
    if isinstance(column.dtype, pl.Duration):
        return column.dt.to_string("iso")
    return column.cast(pl.String) if isinstance(column.dtype, pl.Time) else column


def _where_a_calendar_goes(column: pl.Series, per_day: int, form: str) -> pl.Series:
    """Days or moments as ISO 8601; those of no year that has four digits, as the number that stands in the file."""
    number = column.to_physical()
    first, last = (max(-(1 << 63), min(day * per_day, (1 << 63) - 1)) for day in _CALENDAR_DAYS)
    known = number.is_between(first, last, closed="left")
    nothing = pl.Series([None], dtype=column.dtype)
    return column.zip_with(known, nothing).dt.to_string(form).zip_with(known, number.cast(pl.String))


def _text_of_bytes(value: object) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else None if value is None else str(value)
    except UnicodeDecodeError:
        return str(value)


def _text_of(column: pl.Series) -> pl.Series:
    if column.dtype.is_nested():
        document = pl.DataFrame({"v": column}).to_struct().struct.json_encode()
        # Without the braces and the key that the struct put around it.
        return document.str.slice(5).str.head(-1).zip_with(column.is_not_null(), pl.Series([None], dtype=pl.String))
    return column.cast(pl.String)
