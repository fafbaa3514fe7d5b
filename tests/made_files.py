"""Bytes of files, made for a test: what the standard library does not write by itself."""

import gzip
import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import polars as pl
import pyarrow as pa
import xlsxwriter


def parquet(columns: dict[str, list[Any]], **types: Any) -> bytes:
    """A Parquet file; `types` are Polars types of some columns."""
    content = io.BytesIO()
    pl.DataFrame(columns, schema_overrides=types).write_parquet(content)
    return content.getvalue()


def workbook(rows: Sequence[Sequence[Any]]) -> bytes:
    """An XLSX file of one sheet; strings become text cells, None an empty one."""
    content = io.BytesIO()
    with xlsxwriter.Workbook(content, {"in_memory": True}) as book:
        book.set_properties({"created": datetime(2026, 9, 1, tzinfo=UTC)})
        sheet = book.add_worksheet()
        for row_no, row in enumerate(rows):
            for column_no, value in enumerate(row):
                if isinstance(value, str):
                    sheet.write_string(row_no, column_no, value)
                elif value is not None:
                    sheet.write(row_no, column_no, value)
    return content.getvalue()


def zstd(content: bytes) -> bytes:
    """A zstd frame."""
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as stream:
        stream.write(content)
    return bytes(packed.getvalue().to_pybytes())


PACKED: Final[dict[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".zst": zstd,
}
"""What a file may be packed with, by the suffix that its name then has."""
