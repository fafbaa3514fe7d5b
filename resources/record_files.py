"""Reads record files (CSV, TSV, JSONL, Parquet) into text columns; what is no record is kept with its reason.

Nothing is inferred: every field comes out as the text that stands in the file. Types, names and rules belong
to the callers.
"""

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import polars as pl

from resources.errors import ConfigurationError

LINE_NO, RAW, EXTRA = "#line_no", "#raw", "#extra"
"""Columns beside the fields: 1-based line (row, in Parquet), the record as it stands in the file, and the
fields that were not asked for as a JSON object."""

_FIELD_LIMIT_CHARACTERS = 1 << 20
_BYTE_ORDER_MARK = "\ufeff"
_SEPARATOR_DIRECTIVE = re.compile(r"sep=([^\r\n\"])")
"""A first line that spreadsheets write to say which separator follows."""

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


class RecordFormat(StrEnum):
    """The file formats that can be read."""

    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    PARQUET = "parquet"

    @classmethod
    def of(cls, path: Path) -> "RecordFormat | None":
        """The format that a file's suffix names, if it is one of ours."""
        suffix = path.suffix.lower().lstrip(".")
        return cls({"ndjson": "jsonl", "txt": "csv"}.get(suffix, suffix)) if suffix in _SUFFIXES else None


_SUFFIXES = {"csv", "tsv", "jsonl", "ndjson", "parquet", "txt"}


class Rejection(StrEnum):
    """Why something in a file is no record."""

    UNREADABLE_FILE = "unreadable_file"
    MALFORMED_RECORD = "malformed_record"
    WRONG_FIELD_COUNT = "wrong_field_count"


@dataclass(frozen=True)
class Rejected:
    """A piece of a file that is no record; `line_no` is 0 where the whole file is meant."""

    line_no: int
    raw: str
    reason: Rejection
    detail: str


@dataclass(frozen=True)
class RecordFile:
    """What a file holds: `records.height + len(rejected)` is the number of records in it."""

    records: pl.DataFrame
    """Columns LINE_NO, RAW, EXTRA and one String column for each field asked for."""
    rejected: list[Rejected] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    """Names of the columns (dotted paths in JSON) that the file has."""
    missing: list[str] = field(default_factory=list)
    """Fields asked for that no record of the file has; empty for a file without records."""


def read_records(
    path: Path, record_format: RecordFormat, fields: Sequence[str], *, encoding: str = "utf-8", delimiter: str = ","
) -> RecordFile:
    """Read one file whole.

    A file that cannot be decoded or parsed at all comes back as one rejection, not as an exception.

    Raises:
        ConfigurationError: the file cannot be opened, or `encoding` is unknown.
    """
    try:
        if record_format is RecordFormat.PARQUET:
            return _read_parquet(path, fields)
        text = _decoded(path.read_bytes(), encoding)
    except LookupError:
        raise ConfigurationError(
            f"unknown encoding {encoding!r}: use a name that Python knows, such as utf-8 or cp1252"
        ) from None
    except UnicodeDecodeError as error:
        return _unreadable(fields, f"byte {error.start} is not {encoding}: set the source's encoding")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror or error}): allow reading it") from error
    if record_format is RecordFormat.JSONL:
        return _read_jsonl(text, fields)
    return _read_csv(text, fields, "\t" if record_format is RecordFormat.TSV else delimiter)


def _decoded(content: bytes, encoding: str) -> str:
    text = content.decode(encoding).removeprefix(_BYTE_ORDER_MARK)
    # UTF-8 cannot spell a lone surrogate; some other encodings can.
    return text if codecs.lookup(encoding).name == "utf-8" else _encodable(text)


def _read_csv(text: str, fields: Sequence[str], delimiter: str) -> RecordFile:
    lines = list(io.StringIO(text, newline=""))
    directive = _SEPARATOR_DIRECTIVE.fullmatch(lines[0].rstrip("\r\n")) if lines else None
    if directive:
        lines[0], delimiter = "\n", directive[1]
    records = _csv_records(lines, delimiter)
    _, _, header = next((record for record in records if record[2]), (0, "", []))
    if isinstance(header, str):
        return _unreadable(fields, f"the header is not valid CSV: {header}")
    if repeated := next((name for name in fields if header.count(name) > 1), None):
        return _unreadable(fields, f"the header names the column {repeated!r} more than once")
    position = {name: index for index, name in enumerate(header)}
    wanted = [position[name] for name in fields if name in position]
    others = [
        (name if header.count(name) == 1 else f"{name}#{index + 1}", index)
        for index, name in enumerate(header)
        if name not in fields
    ]
    kept: list[tuple[int, str, str]] = []
    values: list[list[str]] = []
    rejected: list[Rejected] = []
    for line_no, raw, cells in records:
        if isinstance(cells, str):
            rejected.append(Rejected(line_no, raw, Rejection.MALFORMED_RECORD, cells))
        elif len(cells) == len(header):
            extra = {name: cells[index] for name, index in others}
            kept.append((line_no, raw, json.dumps(extra, ensure_ascii=False)))
            values.append([cells[index] for index in wanted])
        elif cells:
            detail = f"{len(header)} fields declared, {len(cells)} found"
            rejected.append(Rejected(line_no, raw, Rejection.WRONG_FIELD_COUNT, detail))
    present = [name for name in fields if name in position]
    columns = dict(zip(present, zip(*values, strict=True), strict=True)) if values else {}
    missing = [name for name in fields if name not in position] if kept else []
    return RecordFile(_frame(fields, kept, columns), rejected, header, missing)


def _csv_records(lines: list[str], delimiter: str) -> Iterator[tuple[int, str, list[str] | str]]:
    """Yield (first line, raw, cells); a record that breaks the grammar comes as its error's text.

    Only the line on which a broken record starts is given up: a quote that is never closed must not swallow
    the rest of the file.
    """
    csv.field_size_limit(_FIELD_LIMIT_CHARACTERS)
    start = 0
    while start < len(lines):
        reader = csv.reader(_from(lines, start), delimiter=delimiter, strict=True)
        offset, done = start, 0
        try:
            for cells in reader:
                raw = "".join(lines[offset + done : offset + reader.line_num]).rstrip("\r\n")
                yield offset + done + 1, raw, cells
                done = reader.line_num
            return
        except csv.Error as error:
            start = offset + done
            yield start + 1, lines[start].rstrip("\r\n"), str(error)
            start += 1


def _from(lines: list[str], start: int) -> Iterator[str]:
    """The lines from `start` on, without a copy: a file may hold many broken ones."""
    for index in range(start, len(lines)):
        yield lines[index]


def _read_jsonl(text: str, fields: Sequence[str]) -> RecordFile:
    kept: list[tuple[int, str, str]] = []
    values: list[list[str | None]] = []
    rejected: list[Rejected] = []
    seen: dict[str, None] = {}
    for line_no, line in enumerate(text.split("\n"), start=1):
        raw = line.strip("\r")
        if not raw.strip():
            continue
        try:
            document = json.loads(raw, object_pairs_hook=_unique_keys, parse_constant=lambda _: None)
        except (ValueError, RecursionError) as error:
            rejected.append(Rejected(line_no, raw, Rejection.MALFORMED_RECORD, f"not valid JSON: {error}"))
            continue
        if not isinstance(document, dict):
            detail = f"a JSON object is expected, this is a {type(document).__name__}"
            rejected.append(Rejected(line_no, raw, Rejection.MALFORMED_RECORD, detail))
            continue
        flat = dict(_flatten(document))
        if nested := _nested(document, flat, fields):
            rejected.append(Rejected(line_no, raw, Rejection.MALFORMED_RECORD, nested))
            continue
        seen.update(dict.fromkeys(flat))
        extra = {name: value for name, value in flat.items() if name not in fields}
        kept.append((line_no, raw, _encodable(json.dumps(extra, ensure_ascii=False))))
        values.append([_as_text(flat.get(name)) for name in fields])
    columns = dict(zip(fields, zip(*values, strict=True), strict=True)) if values else {}
    missing = [name for name in fields if name not in seen] if kept else []
    return RecordFile(_frame(fields, kept, columns), rejected, [_encodable(name) for name in seen], missing)


def _read_parquet(path: Path, fields: Sequence[str]) -> RecordFile:
    try:
        table = pl.read_parquet(path)
        columns = {
            column.name: _text_of_bytes(column) if "Binary" in str(column.dtype) else column
            for column in table.iter_columns()
        }
        nothing = pl.repeat(None, table.height, dtype=pl.String, eager=True)
        rows = pl.DataFrame(
            {
                LINE_NO: pl.int_range(1, table.height + 1, dtype=pl.Int64, eager=True),
                RAW: _json_of(columns, table.height),
                EXTRA: _json_of({name: columns[name] for name in columns if name not in fields}, table.height),
                **{name: _text_of(columns[name]) if name in columns else nothing for name in fields},
            }
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        return _unreadable(fields, f"not a complete Parquet file: {str(error).splitlines()[0]}")
    missing = [name for name in fields if name not in columns] if rows.height else []
    return RecordFile(rows, [], table.columns, missing)


def _text_of(column: pl.Series) -> pl.Series:
    if isinstance(column.dtype, pl.Datetime):
        return column.dt.to_string("iso:strict")
    if isinstance(column.dtype, pl.Duration):
        return column.dt.to_string("iso")
    if column.dtype.is_nested():
        document = pl.DataFrame({"v": column}).to_struct().struct.json_encode()
        # Without the braces and the key that the struct put around it.
        return document.str.slice(5).str.head(-1).zip_with(column.is_not_null(), pl.Series([None], dtype=pl.String))
    return column.cast(pl.String)


def _text_of_bytes(column: pl.Series) -> pl.Series:
    """Bytes as text where they are UTF-8, as older writers store strings; otherwise as Python spells them."""
    texts: list[str | None] = []
    for value in column.to_list():
        try:
            texts.append(value.decode() if isinstance(value, bytes) else None if value is None else str(value))
        except UnicodeDecodeError:
            texts.append(str(value))
    return pl.Series(column.name, texts, dtype=pl.String)


def _json_of(columns: dict[str, pl.Series], height: int) -> pl.Series:
    if not columns:
        return pl.repeat("{}", height, dtype=pl.String, eager=True)
    return pl.DataFrame(columns).to_struct().struct.json_encode()


def _flatten(document: dict[str, Json], prefix: str = "") -> Iterator[tuple[str, Json]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _nested(document: dict[str, Json], flat: dict[str, Json], fields: Sequence[str]) -> str | None:
    """Why a document has no plain value for one of the fields, if so."""
    for name in fields:
        if isinstance(flat.get(name), list):
            return f"{name} is a list, one value is expected"
        if name not in flat and any(path.startswith(f"{name}.") for path in flat):
            return f"{name} is an object, one value is expected"
    paths = [path for path, _ in _flatten(document)]
    if len(paths) > len(flat):
        return f"two values stand at {next(path for path in paths if paths.count(path) > 1)}"
    return None


def _unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated!r} stands twice")
    return document


def _as_text(value: Json) -> str | None:
    if value is None:
        return None
    return _encodable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _encodable(text: str) -> str:
    """Replace lone surrogates, which JSON can spell and UTF-8 cannot, by U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _frame(
    fields: Sequence[str], kept: list[tuple[int, str, str]], columns: dict[str, tuple[str | None, ...]]
) -> pl.DataFrame:
    line_nos, raws, extras = zip(*kept, strict=True) if kept else ((), (), ())
    data: dict[str, pl.Series] = {
        LINE_NO: pl.Series(line_nos, dtype=pl.Int64),
        RAW: pl.Series(raws, dtype=pl.String),
        EXTRA: pl.Series(extras, dtype=pl.String),
    }
    nothing = [None] * len(kept)
    for name in fields:
        data[name] = pl.Series(columns.get(name, nothing), dtype=pl.String)
    return pl.DataFrame(data)


def _unreadable(fields: Sequence[str], detail: str) -> RecordFile:
    return RecordFile(_frame(fields, [], {}), [Rejected(0, "", Rejection.UNREADABLE_FILE, detail)])
