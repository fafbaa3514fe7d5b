"""Reads Excel workbooks (XLSX), one sheet of them, as text."""

import re
import zlib
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final
from zipfile import BadZipFile, ZipFile, is_zipfile

import polars as pl

from resources.errors import is_storage_fault, unreadable
from resources.record_files.batches import BATCH_BYTES, EXTRA, LINE_NO, Dialect, RecordBatch, UnreadableFileError
from resources.record_files.plain_bytes import plain
from resources.record_files.table_json import json_rows, json_rows_at

if TYPE_CHECKING:
    from fastexcel import DType, ExcelReader, ExcelSheet

_ZIP_MAGIC: Final = b"PK\x03\x04"
_OLD_FORM_MAGIC: Final = b"\xd0\xcf\x11\xe0"
_EXTENT: Final = re.compile(rb'<dimension ref="[A-Z]{1,3}[0-9]+:([A-Z]{1,3})([0-9]{1,7})"')
_EXTENT_WITHIN_BYTES: Final = 1 << 14
_CELLS_AT_MOST: Final = 50_000_000
_EXCEL_LOSES_DIGITS_FROM: Final = 1e15
"""Excel keeps 15 digits of a number."""
_NO_DAY: Final = "1899-12-31 "
"""Where a time of day without a day falls, as the first day that Excel knows is the one after."""


def read(path: Path, fields: Sequence[str], dialect: Dialect) -> Iterator[RecordBatch]:
    """Read the rows of a sheet; the first row that is not empty is the header. LINE_NO is the row's number in Excel.

    Cells come out so: text as it stands; whole numbers without a fraction (`5`), those of more than 15 digits as
    Excel shows them (`1.23457E+18`), as the rest of their digits is lost; fractions in the fewest digits that tell
    them apart; moments as `2026-09-01T10:30:00`, at midnight as `2026-09-01`, times without a day as `10:30:00`;
    booleans as TRUE and FALSE. Empty cells, errors such as #N/A and dates beyond the calendar are null. Of a formula
    the result counts that was last saved. Wholly empty rows are no records. A raw is the row as a JSON object.

    The sheet is in memory as a whole.

    Raises:
        UnreadableFileError: the file is no XLSX workbook, is broken, encrypted or cut off (`incomplete`), lacks the
            sheet, or names one of `fields` twice in its header.
        FileNotFoundError: there is no such file.
        ConfigurationError: it cannot be opened.
    """
    import fastexcel

    _check_container(path)
    try:
        workbook = fastexcel.read_excel(path)
        if dialect.sheet is not None and dialect.sheet not in workbook.sheet_names:
            known = ", ".join(map(repr, workbook.sheet_names))
            raise UnreadableFileError(
                f"there is no sheet {dialect.sheet!r} (there are {known}): set the source's sheet"
            )
        rows = _rows(workbook, 0 if dialect.sheet is None else dialect.sheet)
    except fastexcel.FastExcelError as error:
        raise UnreadableFileError(f"not a workbook that can be read: {str(error).splitlines()[0]}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # each extension has a class of its own, which cannot be imported
            raise
        raise UnreadableFileError(f"not a workbook that can be read: {error}") from error
    if rows.is_empty():
        return
    header = [name or "" for name in rows.drop(LINE_NO).row(0)]
    if repeated := next((name for name in fields if header.count(name) > 1), None):
        raise UnreadableFileError(f"the header names the column {repeated!r} more than once")
    rows = rows.slice(1)
    size = max(1, BATCH_BYTES * rows.height // max(1, int(rows.estimated_size())))
    for start in range(0, max(1, rows.height), size):
        yield _batch(rows.slice(start, size), header, fields)


def _batch(rows: pl.DataFrame, header: list[str], fields: Sequence[str]) -> RecordBatch:
    numbers, *cells = rows.get_columns()
    columns = {
        name if name and header.count(name) == 1 else f"{name}#{index}": column
        for index, (name, column) in enumerate(zip(header, cells, strict=True), start=1)
        if name or column.null_count() < rows.height
    }
    nothing = pl.repeat(None, rows.height, dtype=pl.String, eager=True)
    extra = {name: column for name, column in columns.items() if name not in fields}
    records = {
        LINE_NO: numbers.cast(pl.Int64),
        EXTRA: json_rows(extra, rows.height),
        **{name: columns.get(name, nothing) for name in fields},
    }
    return RecordBatch(pl.DataFrame(records), partial(json_rows_at, columns), columns=[name for name in header if name])


def _check_container(path: Path) -> None:
    with plain(path, None) as raw:
        start = raw.read(len(_ZIP_MAGIC))
        if start == _OLD_FORM_MAGIC:
            raise UnreadableFileError(
                "an encrypted workbook, or one of the old form: save it as XLSX, without a password"
            )
        if not _ZIP_MAGIC.startswith(start):
            raise UnreadableFileError("not an XLSX workbook, though its name says so")
        if not is_zipfile(raw):
            raise UnreadableFileError("the workbook ends too soon", incomplete=True)
        try:
            reaches_to = max(_extents(raw), default=(0, ""))
        except (BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
            if isinstance(error, OSError) and is_storage_fault(error):
                raise unreadable(path, error) from error
            raise UnreadableFileError(f"not a workbook that can be read: {error}") from error
    if reaches_to > (_CELLS_AT_MOST, ""):
        raise UnreadableFileError(
            f"a sheet reaches to cell {reaches_to[1]}, too far to be read: delete what stands there"
        )


def _extents(raw: BinaryIO) -> Iterator[tuple[int, str]]:
    """How many cells each sheet spans, and its last one, by what it says itself; all of them would be in memory."""
    with ZipFile(raw) as parts:
        for name in parts.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                with parts.open(name) as part:
                    extent = _EXTENT.search(part.read(_EXTENT_WITHIN_BYTES))
                if extent:
                    columns = reduce(lambda number, letter: number * 26 + letter - ord("A") + 1, extent[1], 0)
                    yield columns * int(extent[2]), (extent[1] + extent[2]).decode()


def _rows(workbook: "ExcelReader", sheet: int | str) -> pl.DataFrame:
    """LINE_NO and every cell as text, of the rows that are not empty.

    A cell's type shows in the ways in which it can be read: numbers and booleans as booleans, moments as durations,
    text as neither; what is no string either is an error.
    """

    def seen_as(kind: "DType") -> "ExcelSheet":
        return workbook.load_sheet(sheet, header_row=None, skip_rows=0, dtypes=kind)

    strings, errors = seen_as("string").to_arrow_with_errors()
    views = [pl.DataFrame(strings), *(seen_as(kind).to_polars() for kind in ("boolean", "float", "duration"))]
    cells = pl.DataFrame([_text(*views) for views in zip(*(view.iter_columns() for view in views), strict=True)])
    with_errors = {error.position[0] + 1 for error in errors.errors} if errors else set()
    return cells.with_row_index(LINE_NO, offset=1).filter(
        ~pl.all_horizontal(pl.exclude(LINE_NO).is_null()) | pl.col(LINE_NO).is_in(with_errors)
    )


def _text(text: pl.Series, boolean: pl.Series, number: pl.Series, moment: pl.Series) -> pl.Series:
    has_lost_digits = pl.col("number").is_finite() & (pl.col("number").abs() >= _EXCEL_LOSES_DIGITS_FROM)
    views = pl.DataFrame({"text": text, "boolean": boolean, "number": number, "moment": moment})
    return views.select(
        pl.when(pl.col("moment").is_not_null())
        .then(_moment(pl.col("text")))
        .when(pl.col("boolean").is_null())
        .then(pl.col("text"))
        .when(pl.col("text").is_in(["true", "false"]))
        .then(pl.col("text").str.to_uppercase())
        .when(has_lost_digits)
        .then(pl.when(has_lost_digits).then("number").map_elements("{:.6G}".format, return_dtype=pl.String))
        .when(pl.col("number") == pl.col("number").round())
        .then(pl.col("number").cast(pl.Int64, strict=False).cast(pl.String))
        .otherwise(pl.col("number").cast(pl.String))
        .alias(text.name)
    ).to_series()


def _moment(text: pl.Expr) -> pl.Expr:
    """ISO 8601 for `2026-09-01 10:30:00`, without what the cell does not say."""
    return (
        pl.when(text.str.starts_with(_NO_DAY))
        .then(text.str.strip_prefix(_NO_DAY))
        .otherwise(text.str.strip_suffix(" 00:00:00").str.replace(" ", "T", literal=True))
    )
