"""Finds out how a file was written, from its first bytes, and says how it knows: suggestions, for a person to read.

Reading a file under a dialect is `reader.py`; what its columns mean, the callers'.
"""

import codecs
import contextlib
import io
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from resources.record_files.batches import Compression, Dialect, FileKind, RecordFormat, UnreadableFileError
from resources.record_files.plain_bytes import byte_order_mark, plain
from resources.record_files.strict_csv import SEPARATOR_DIRECTIVE, csv_records

SAMPLE_BYTES: Final = 1 << 20
"""So much of a file is looked at, after decompression."""

DELIMITERS: Final = (",", ";", "\t", "|")
"""The delimiters that are looked for."""

_BEGINNINGS: Final = (
    (b"PK\x03\x04", "an Excel or zip file", "xlsx"),
    (b"PAR1\x15", "a Parquet file", "parquet"),
    (b"\x1f\x8b", "a gzip file", "gz"),
    (b"\x28\xb5\x2f\xfd", "a zstd file", "zst"),
)
"""How files that are no text begin, and the suffix that their names end with."""

_LONGEST_BEGINNING: Final = 5

_LEGACY_ENCODINGS: Final = [
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp874",
    "iso8859_2", "iso8859_5", "iso8859_7", "iso8859_15", "koi8_r", "cp437", "cp850", "cp852", "cp866", "mac_roman",
    "cp932", "euc_jp", "gb18030", "big5", "cp949",
]  # fmt: skip
"""What files without a mark that are not UTF-8 are written in; more would only add guesses that read alike."""

_GUESSED_BYTES: Final = 1 << 16
_SHOWN_CHARACTERS: Final = 40
_NUL_SHARE: Final = 0.3
_RARE_SHARE: Final = 0.2
_ABOUT_AS_GOOD: Final = 0.1
_CLEARLY_MORE: Final = 0.05
_FITTING_SHARE: Final = 0.9
_TRIED_RECORDS: Final = 1000
_FIRST_LINES: Final = 10
_DEPTH: Final = 8
_NO_NAME: Final = re.compile(r"[\d.,:/+ -]+")


@dataclass(frozen=True)
class Detected:
    """A property of a file as `Dialect` spells it."""

    value: str
    why: str
    is_sure: bool = True


@dataclass(frozen=True)
class DetectedDialect:
    """What was found out; None where the format has no such property, or the default is right."""

    encoding: Detected | None = None
    delimiter: Detected | None = None
    record_path: Detected | None = None
    sheet: Detected | None = None
    sheets: Sequence[str] = ()
    """All of an Excel file's, in its order."""
    notes: Sequence[str] = field(default_factory=tuple)
    """What else a person should know before the file is read."""

    @property
    def dialect(self) -> Dialect:
        """The dialect to read the file with."""
        default = Dialect()
        return Dialect(
            encoding=self.encoding.value if self.encoding else default.encoding,
            delimiter=self.delimiter.value if self.delimiter else default.delimiter,
            record_path=self.record_path.value if self.record_path else None,
            sheet=self.sheet.value if self.sheet else None,
        )


def detect_dialect(
    path: Path,
    kind: FileKind,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    record_path: str | None = None,
    sheet: str | None = None,
) -> DetectedDialect:
    """Look at the first MiB of a file; what is given is taken as it is, and not looked for.

    Raises:
        UnreadableFileError: the content is not what the name says, or not of the encoding.
        ConfigurationError: the file cannot be opened.
    """
    check_beginning(path, kind)
    if kind.format is RecordFormat.PARQUET:
        return DetectedDialect()
    if kind.format is RecordFormat.XLSX:
        return _of_sheets(path, kind.compression, _given(sheet))
    content, is_whole = _start(path, kind.compression)
    found = _given(encoding) or _encoding(content, is_whole=is_whole)
    text = _decoded(content, found, is_whole=is_whole)
    if kind.format is RecordFormat.CSV:
        lines = _whole_lines(text, is_whole=is_whole)
        separated = _given(delimiter) or _delimiter(lines)
        return DetectedDialect(found, separated, notes=_header_notes(lines, separated.value))
    if kind.format is RecordFormat.JSON:
        return DetectedDialect(found, record_path=_given(record_path) or _record_path(text))
    return DetectedDialect(found)


def _given(value: str | None) -> Detected | None:
    return Detected(value, "given") if value else None


def check_beginning(path: Path, kind: FileKind) -> None:
    """See that a file does not begin like one of another kind.

    Raises:
        UnreadableFileError: it does; says of which.
        ConfigurationError: the file cannot be opened.
    """
    with plain(path, None) as file:
        start = file.read(_LONGEST_BEGINNING)
    suffix = (kind.compression or kind.format).value
    for beginning, what, real in _BEGINNINGS:
        if start.startswith(beginning) and suffix != real:
            raise UnreadableFileError(f"it looks like {what}, but its name ends with .{suffix}: rename it to .{real}")


def _start(path: Path, compression: Compression | None) -> tuple[bytes, bool]:
    """The first bytes, and whether they are all."""
    content = b""
    with plain(path, compression) as stream:
        while len(content) <= SAMPLE_BYTES and (more := stream.read(SAMPLE_BYTES + 1 - len(content))):
            content += more
    return content[:SAMPLE_BYTES], len(content) <= SAMPLE_BYTES


def _encoding(content: bytes, *, is_whole: bool) -> Detected:
    _, marked = byte_order_mark(content)
    if marked:
        # By the name under which a mark is read over, whichever way round the bytes are.
        return Detected(re.sub("-[lb]e$", "", marked), "the byte order mark at its beginning")
    if wide := _without_mark(content):
        return wide
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content, final=is_whole)
    except UnicodeDecodeError:
        return _guessed(content)
    extent = "the file" if is_whole else "the first MiB"
    if content.isascii():
        return Detected("utf-8", f"{extent} is plain ASCII", is_sure=is_whole)
    return Detected("utf-8", f"{extent} is valid UTF-8", is_sure=is_whole)


def _without_mark(content: bytes) -> Detected | None:
    """UTF-16 that lacks its mark: every other byte of most alphabets is the same, and zero in Latin ones."""
    half = len(content) // 2
    for name, zeros, letters in (
        ("utf-16-le", content[1::2], content[::2]),
        ("utf-16-be", content[::2], content[1::2]),
    ):
        if half and zeros.count(0) > _NUL_SHARE * half and letters.count(0) < zeros.count(0) / 10:
            return Detected(name, "every other byte is zero, and there is no byte order mark", is_sure=False)
    return None


def _guessed(content: bytes) -> Detected:
    """An encoding in which the lines beyond ASCII read like language."""
    import charset_normalizer

    lines = [line for line in content.splitlines() if not line.isascii()]
    sample = b"\n".join(lines)[:_GUESSED_BYTES]
    matches = list(charset_normalizer.from_bytes(sample, cp_isolation=_LEGACY_ENCODINGS))
    western = charset_normalizer.from_bytes(sample, cp_isolation=["cp1252"]).best()
    if not matches:
        shown = sample[:_SHOWN_CHARACTERS]
        return Detected("cp1252", f"a last resort: no usual encoding reads {shown!r} well", is_sure=False)
    best = matches[0]
    is_rare = sum(byte > 127 for byte in sample) < _RARE_SHARE * len(sample)  # noqa: PLR2004
    if (
        western
        and is_rare
        and western.chaos <= best.chaos + _ABOUT_AS_GOOD
        and western.coherence >= best.coherence - _CLEARLY_MORE
    ):
        # The Central European sets read the same letters, or ones that look as likely, and are much rarer.
        matches, best = [western, *matches], western
    others = dict.fromkeys(
        match.encoding
        for match in matches
        if match.encoding != best.encoding and match.chaos <= best.chaos + _ABOUT_AS_GOOD
    )
    doubt = f"{', '.join(list(others)[:3])} would read well, too" if others else "no other reads as well"
    word = _beyond_ascii(lines[0].decode(best.encoding, "replace"))
    return Detected(
        best.encoding, f"not UTF-8; a guess by its letters ({doubt}): check that {word!r} is right", is_sure=False
    )


def _beyond_ascii(line: str) -> str:
    """A piece of a line around its first character beyond ASCII."""
    place = next((index for index, character in enumerate(line) if ord(character) > 127), 0)  # noqa: PLR2004
    begin = max(place - _SHOWN_CHARACTERS // 2, 0)
    return line[begin : begin + _SHOWN_CHARACTERS]


def _decoded(content: bytes, encoding: Detected, *, is_whole: bool) -> str:
    try:
        text = codecs.getincrementaldecoder(byte_order_mark(content)[1] or encoding.value)().decode(
            content, final=is_whole
        )
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"byte {error.start} is not {encoding.value}: set the source's encoding") from None
    return text.removeprefix("\ufeff")


def _whole_lines(text: str, *, is_whole: bool) -> list[str]:
    """The lines, each with its end; one that may be cut short is left out."""
    lines = list(io.StringIO(text, newline=""))
    return lines if is_whole or len(lines) == 1 else lines[:-1]


@dataclass(frozen=True)
class _Fit:
    """How well a delimiter fits: records with as many fields as the header, of how many."""

    delimiter: str
    fields: int
    fitting: int
    records: int

    @property
    def share(self) -> float:
        return self.fitting / self.records if self.records else 1.0

    @property
    def is_table(self) -> bool:
        return self.fields > 1 and self.share >= _FITTING_SHARE

    def said(self) -> str:
        if not self.records:
            return f"the header has {self.fields} fields with it"
        of = f"{self.fitting:,} of {self.records:,} records" if self.fitting < self.records else "every record"
        return f"{of} of the sample has the header's {self.fields} fields"


def _delimiter(lines: Sequence[str]) -> Detected:
    if directive := SEPARATOR_DIRECTIVE.match(lines[0] if lines else ""):
        return Detected(directive[1], f"the first line says {directive[0].strip()}")
    fits = [_fit(lines, delimiter) for delimiter in DELIMITERS]
    sniffed = next((fit for fit in fits if fit.delimiter == _sniffed(lines)), None)
    if sniffed and sniffed.is_table:
        return Detected(sniffed.delimiter, sniffed.said())
    if tables := [fit for fit in fits if fit.is_table]:
        best = max(tables, key=lambda fit: (fit.share, fit.fields))
        return Detected(best.delimiter, best.said())
    best = max(fits, key=lambda fit: fit.share)
    if best.fields > 1 or best.share < _FITTING_SHARE:
        return Detected(best.delimiter, f"a guess: {best.said()}", is_sure=False)
    return Detected(best.delimiter, "the file has one column; this does not stand in its text", is_sure=False)


def _fit(lines: Sequence[str], delimiter: str) -> _Fit:
    header, fitting, records = 0, 0, 0
    for _, _, cells in csv_records(lines, delimiter):
        if not cells:
            continue
        if not header:
            header = 1 if isinstance(cells, str) else len(cells)
            continue
        records += 1
        fitting += not isinstance(cells, str) and len(cells) == header
        if records == _TRIED_RECORDS:
            break
    return _Fit(delimiter, header, fitting, records)


def _sniffed(lines: Sequence[str]) -> str | None:
    """What DuckDB takes for the delimiter."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder, duckdb.connect(":memory:") as connection:
        copy = Path(folder) / "sample.csv"
        copy.write_text("".join(lines), encoding="utf-8", errors="replace", newline="")
        try:
            found = connection.execute("select Delimiter from sniff_csv(?)", [str(copy)]).fetchone()
        except duckdb.Error:
            return None
    return str(found[0]) if found else None


def _header_notes(lines: Sequence[str], delimiter: str) -> list[str]:
    """What is wrong with the first line, if it seems to be no header."""
    first = 1 if lines and SEPARATOR_DIRECTIVE.match(lines[0]) else 0
    header = next((cells for _, _, cells in csv_records(lines[first : first + _FIRST_LINES], delimiter) if cells), "")
    if isinstance(header, str):
        return []
    if len(header) > 1:
        is_record = any(_NO_NAME.fullmatch(cell) for cell in header)
        return ["the first line looks like a record: put one before it that names the columns"] if is_record else []
    for start in range(first + 1, min(first + _FIRST_LINES, len(lines))):
        fits = [_fit(lines[start:], each) for each in DELIMITERS] if lines[start].strip() else []
        if any(fit.is_table and fit.records > 1 for fit in fits):
            return [f"the header seems to stand in line {start + 1} only: take out the lines before it"]
    return []


def _record_path(text: str) -> Detected | None:
    """The path of the array with the most objects in the sample; None where the document is that array."""
    sizes: dict[str, int] = {}
    # The sample may end within the document, or be no JSON, which reading it will say.
    with contextlib.suppress(IndexError, ValueError, RecursionError):
        end = _count_objects(text, _past_space(text, 0), (), sizes)
        if text[end:].strip():
            return None  # records one after another, each perhaps with an array of its own
    if not sizes or "" in sizes:
        return None
    best = max(sizes, key=lambda path: sizes[path])
    others = [path for path in sizes if path != best]
    also = f" (there is also {', '.join(repr(path) for path in others[:3])})" if others else ""
    return Detected(best, f"the array that holds the most objects{also}", is_sure=not others)


_VALUE: Final = json.JSONDecoder(strict=False)


def _count_objects(text: str, at: int, path: tuple[str, ...], sizes: dict[str, int]) -> int:
    """Count the objects of each array below the value at `at`, and return where the value ends."""
    if text[at] == "[":
        for end, is_object in _elements(text, at):
            if is_object:
                sizes[".".join(path)] = sizes.get(".".join(path), 0) + 1
            at = end
        return at
    if text[at] != "{" or len(path) == _DEPTH:
        return _VALUE.raw_decode(text, at)[1]
    at = _past_space(text, at + 1)
    while text[at] != "}":
        key, at = _VALUE.raw_decode(text, at)
        at = _past_space(text, _past_space(text, at) + 1)
        at = _past_space(text, _count_objects(text, at, (*path, str(key)), sizes))
        if text[at] == ",":
            at = _past_space(text, at + 1)
    return at + 1


def _elements(text: str, at: int) -> Iterator[tuple[int, bool]]:
    """Yield (where it ends, whether it is an object) of each element of the array at `at`, then the array's end."""
    at = _past_space(text, at + 1)
    while text[at] != "]":
        is_object = text[at] == "{"
        if is_object:
            yield at, True
        at = _past_space(text, _VALUE.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _past_space(text, at + 1)
    yield at + 1, False


def _past_space(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _of_sheets(path: Path, compression: Compression | None, given: Detected | None) -> DetectedDialect:
    import fastexcel

    try:
        if compression is None:
            book = fastexcel.read_excel(path)
        else:
            with plain(path, compression) as stream:
                book = fastexcel.read_excel(stream.read())
        names = list(book.sheet_names)
        filled = next((name for name in names if book.load_sheet(name, n_rows=1, dtypes="string").height), None)
    except fastexcel.FastExcelError as error:
        raise UnreadableFileError(f"not a complete Excel file: {str(error).splitlines()[0]}") from None
    if given or len(names) == 1 or filled is None:
        return DetectedDialect(sheet=given, sheets=names)
    if filled == names[0]:
        return DetectedDialect(sheets=names, notes=[f"only the first sheet is read, {filled!r}; others: {names[1:]}"])
    return DetectedDialect(sheet=Detected(filled, "the first sheet that holds records", is_sure=False), sheets=names)
