"""CSV and TSV: exact line numbers and field counts at the speed of Polars.

The bytes of a block are scanned for quotes and line feeds with NumPy. Where the quotes keep the grammar of RFC 4180,
each record's span and line follow from their positions, and Polars splits the fields. Polars fills up short records, so
the bytes are accounted for: those in no cell tell how many delimiters there were, and only where there are too few are
they counted record by record. A block that does not keep the grammar is read by `strict_csv.py`, which gives the same
records.
"""

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from resources.record_files.batches import (
    BATCH_BYTES,
    EXTRA,
    FIELD_LIMIT_CHARACTERS,
    LINE_NO,
    RecordBatch,
    Rejected,
    Rejection,
    UnreadableFileError,
)
from resources.record_files.plain_bytes import utf8_blocks
from resources.record_files.strict_csv import SEPARATOR_DIRECTIVE, csv_records

_QUOTE: Final = ord('"')
_LINE_FEED: Final = ord("\n")
_RETURN: Final = ord("\r")
_LOOKAHEAD_BYTES: Final = 8 << 20
"""Enough to see the end of every field within the limit."""

_USUAL_HEADER_BYTES: Final = 1 << 16
_DIRECTIVE_BYTES: Final = 16
_MOST_COLUMNS: Final = 10_000

Positions: TypeAlias = npt.NDArray[np.int64]
Block: TypeAlias = npt.NDArray[np.uint8]


def read(
    stream: BinaryIO, fields: Sequence[str], *, encoding: str, delimiter: str, batch_bytes: int = BATCH_BYTES
) -> Iterator[RecordBatch]:
    """Read delimited text whose first record is the header.

    Raises:
        UnreadableFileError: the text is not of the encoding, or its header is no header.
    """
    text = _Text(utf8_blocks(stream, encoding, max(batch_bytes // 8, 1)), batch_bytes)
    text.fill(_DIRECTIVE_BYTES)
    if directive := SEPARATOR_DIRECTIVE.match(text.buffer[:_DIRECTIVE_BYTES].decode("utf-8", "ignore")):
        delimiter = directive[1]
        text.drop(len(directive[0].encode()), lines=1)
    header = _header(text, delimiter)
    if header is None:
        return
    layout = _Layout(header, fields, delimiter)
    if not text.fill():
        yield layout.batch(layout.empty())
    while text.fill():
        yield _quick(text, layout) or _careful(text, layout)


class _Text:
    """What was read and not yet used: UTF-8 that begins at the start of a record."""

    def __init__(self, blocks: Iterator[bytes], batch_bytes: int) -> None:
        self.buffer = b""
        self.line_no = 1
        self.ended = False
        self._blocks = blocks
        self._batch_bytes = batch_bytes

    def fill(self, least: int = 0) -> bool:
        """Read on where less than a batch, or `least` bytes, is left; False at the end."""
        missing = max(self._batch_bytes, least) - len(self.buffer)
        blocks = [self.buffer]
        while not self.ended and missing > 0:
            block = next(self._blocks, None)
            if block is None:
                self.ended = True
            else:
                blocks.append(block)
                missing -= len(block)
        self.buffer = b"".join(blocks)
        return bool(self.buffer)

    def drop(self, size: int, lines: int) -> None:
        self.buffer = self.buffer[size:]
        self.line_no += lines

    def lines(self, size: int | None = None) -> list[str]:
        """The lines at hand, or those of the first bytes; a character that is not there whole is left out."""
        return list(io.StringIO(self.buffer[:size].decode("utf-8", "ignore"), newline=""))


class _Layout:
    """Where the fields asked for stand among a file's columns."""

    def __init__(self, header: Sequence[str], fields: Sequence[str], delimiter: str) -> None:
        if len(header) > _MOST_COLUMNS:
            raise UnreadableFileError(f"the header has {len(header):,} columns, more than {_MOST_COLUMNS:,}")
        times = Counter(header)
        if repeated := next((name for name in fields if times[name] > 1), None):
            raise UnreadableFileError(f"the header names the column {repeated!r} more than once")
        self.header = header
        self.delimiter = delimiter
        self.names = [f"c{index}" for index in range(len(header))]
        position = {name: index for index, name in enumerate(header)}
        others: dict[str, str] = {}
        for index, name in enumerate(header):
            if name not in fields:
                free = name if times[name] == 1 else f"{name}#{index + 1}"
                while free in others or (free != name and free in times):
                    free += "#"
                others[free] = self.names[index]
        extra = (
            pl.struct(pl.col(column).alias(name) for name, column in others.items()).struct.json_encode()
            if others
            else pl.lit("{}")
        )
        self._select = [
            pl.col(LINE_NO),
            extra.alias(EXTRA),
            *(
                (pl.col(self.names[position[name]]) if name in position else pl.lit(None, pl.String)).alias(name)
                for name in fields
            ),
        ]

    def empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=dict.fromkeys(self.names, pl.String())).with_columns(
            pl.lit(0, pl.Int64).alias(LINE_NO)
        )

    def batch(self, cells: pl.DataFrame, raws: "_Raws | None" = None, rejected: Sequence[Rejected] = ()) -> RecordBatch:
        """`cells` has LINE_NO and the columns of `names`."""
        return RecordBatch(cells.select(self._select), raws or _no_raws, list(rejected), self.header)

    def wrong_count(self, line_no: int, raw: str, found: int) -> Rejected:
        detail = f"{len(self.header)} fields declared, {found} found"
        return Rejected(line_no, raw, Rejection.WRONG_FIELD_COUNT, detail)


_Raws: TypeAlias = Any


def _no_raws(positions: Sequence[int]) -> list[str]:
    return [""] * len(positions)


def _header(text: _Text, delimiter: str) -> list[str] | None:
    """Take the first record that is not blank."""
    size = _USUAL_HEADER_BYTES
    while True:
        lines = text.lines(size)
        is_all = size >= _LOOKAHEAD_BYTES or (text.ended and size >= len(text.buffer))
        for _, stop, cells in csv_records(lines, delimiter):
            if not is_all and (stop == len(lines) or isinstance(cells, str)):
                break
            if isinstance(cells, str):
                raise UnreadableFileError(f"the header is not valid CSV: {cells}")
            if cells:
                text.drop(sum(len(line.encode()) for line in lines[:stop]), lines=stop)
                return cells
        if is_all:
            return None
        size = 2 * min(size, max(len(text.buffer), _DIRECTIVE_BYTES))
        text.fill(size)


@dataclass(frozen=True)
class _Spans:
    """The records of a block: byte positions, and lines from 0."""

    starts: Positions
    stops: Positions
    lines: Positions
    line_feeds: int
    quotes: Positions
    """Their positions; those within a quoted field stand in pairs."""
    escaped_quotes: int
    """How many such pairs there are."""

    @property
    def end(self) -> int:
        """Position after the last record's line feed."""
        return int(self.stops[-1]) + 1


def _quick(text: _Text, layout: _Layout) -> RecordBatch | None:
    """The records of the buffer up to the last that is whole; None where it takes more care."""
    if not layout.delimiter.isascii():
        return None
    if text.ended and not text.buffer.endswith(b"\n"):
        text.buffer += b"\n"
    block = np.frombuffer(text.buffer, np.uint8)
    spans = _spans(block, ord(layout.delimiter))
    if spans is None:
        return None
    lengths = spans.stops - spans.starts
    if int(lengths.max()) > FIELD_LIMIT_CHARACTERS:
        return None
    blank = (lengths == 0) | ((lengths == 1) & (block[spans.starts] == _RETURN))
    fields = np.full(lengths.size, len(layout.header))
    cells = None if blank.any() else _split(text.buffer[: spans.end], layout)
    if cells is None or not _all_whole(cells, block, spans):
        fields = np.where(blank, 0, _fields(block, spans, ord(layout.delimiter)))
        good = fields == len(layout.header)
        cells = _split(block[: spans.end][np.repeat(good, lengths + 1)].tobytes(), layout)
        if cells is None or cells.height != np.count_nonzero(good):
            return None
    line_nos = spans.lines + text.line_no
    kept = np.flatnonzero(fields == len(layout.header))
    source = text.buffer

    def raw(record: int) -> str:
        return source[spans.starts[record] : spans.stops[record]].removesuffix(b"\r").decode()

    rejected = [
        layout.wrong_count(int(line_nos[record]), raw(record), int(fields[record]))
        for record in np.flatnonzero((fields > 0) & (fields != len(layout.header))).tolist()
    ]
    text.drop(spans.end, lines=spans.line_feeds)
    return layout.batch(
        cells.with_columns(pl.Series(LINE_NO, line_nos[kept], dtype=pl.Int64)),
        lambda positions: [raw(kept[position]) for position in positions],
        rejected,
    )


def _spans(block: Block, delimiter: int) -> _Spans | None:
    """Find the records that end in the block; None where there is none, or its quotes or returns are not in order."""
    feeds = np.flatnonzero(block == _LINE_FEED)
    quotes = np.flatnonzero(block == _QUOTE)
    # Outside of quoted fields the number of quotes so far is even.
    ends = np.flatnonzero(np.searchsorted(quotes, feeds) % 2 == 0) if quotes.size else np.arange(feeds.size)
    if not ends.size:
        return None
    stops = feeds[ends]
    quotes = quotes[: np.searchsorted(quotes, stops[-1])]
    escaped = _escaped_quotes(block, quotes, delimiter)
    seen = ends + 1
    returns = np.count_nonzero(block[: stops[-1]] == _RETURN)
    if escaped is None or returns > np.count_nonzero(block[np.maximum(feeds[: seen[-1]], 1) - 1] == _RETURN):
        return None
    starts = np.concatenate(([0], stops[:-1] + 1))
    return _Spans(starts, stops, np.concatenate(([0], seen[:-1])), int(seen[-1]), quotes, escaped)


def _escaped_quotes(block: Block, quotes: Positions, delimiter: int) -> int | None:
    """Number of pairs of quotes within fields; None unless each other quote opens a field at its start or closes it."""
    if quotes.size % 2:
        return None
    opening, closing = quotes[::2], quotes[1::2]
    before, after = block[opening - 1], block[closing + 1]
    doubled = closing[:-1] + 1 == opening[1:]
    opens = (before == delimiter) | (before == _LINE_FEED) | (opening == 0)
    opens[1:] |= doubled
    closes = (after == delimiter) | (after == _LINE_FEED) | (after == _RETURN)
    closes[:-1] |= doubled
    return int(np.count_nonzero(doubled)) if opens.all() and closes.all() else None


def _all_whole(cells: pl.DataFrame, block: Block, spans: _Spans) -> bool:
    """Whether each record of the block has a field for each column.

    None has more, or Polars had refused them. If one had fewer, there would be too few delimiters, which are the bytes
    that are neither in a cell, nor a quote around one or before another, nor a line's end.
    """
    in_cells = sum(cells.select(pl.all().str.len_bytes().cast(pl.Int64).sum()).row(0))
    returns = int(np.count_nonzero(block[spans.stops - 1] == _RETURN))
    quotes = spans.quotes.size - spans.escaped_quotes
    delimiters = spans.end - in_cells - quotes - returns - spans.stops.size
    return cells.height == spans.stops.size and delimiters == cells.height * (cells.width - 1)


def _fields(block: Block, spans: _Spans, delimiter: int) -> Positions:
    """Number of fields of each record."""
    delimiters = np.flatnonzero(block[: spans.end] == delimiter)
    if spans.quotes.size:
        delimiters = delimiters[np.searchsorted(spans.quotes, delimiters) % 2 == 0]
    return np.diff(np.searchsorted(delimiters, spans.stops), prepend=0) + 1


def _split(data: bytes, layout: _Layout) -> pl.DataFrame | None:
    """The cells of records; None where one has more fields than there are columns."""
    schema = dict.fromkeys(layout.names, pl.String())
    if not data:
        return pl.DataFrame(schema=schema)
    try:
        return pl.read_csv(
            data, has_header=False, separator=layout.delimiter, schema=schema, empty_string_is_null=False
        )
    except (pl.exceptions.ComputeError, pl.exceptions.SchemaError):
        return None


def _careful(text: _Text, layout: _Layout) -> RecordBatch:
    """The records that begin in the buffer, except those too close to its end to be seen whole."""
    text.fill(2 * _LOOKAHEAD_BYTES)
    lines = text.lines()
    if len(lines) == 1 and not text.ended:
        return _too_long(text, layout)
    sizes = np.cumsum([len(line.encode()) for line in lines])
    enough = sizes[-1] if text.ended else max(int(sizes[-1]) - _LOOKAHEAD_BYTES, 1)
    kept: list[tuple[int, int]] = []
    cells: list[list[str]] = []
    rejected: list[Rejected] = []
    used = 0
    for start, stop, record in csv_records(lines, layout.delimiter):
        # The last line at hand may go on.
        if start and (sizes[start - 1] >= enough or (stop == len(lines) and not text.ended)):
            break
        used = stop
        line_no = text.line_no + start
        if isinstance(record, str):
            rejected.append(Rejected(line_no, _raw(lines, start, stop), Rejection.MALFORMED_RECORD, record))
        elif len(record) == len(layout.header):
            kept.append((start, stop))
            cells.append(record)
        elif record:
            rejected.append(layout.wrong_count(line_no, _raw(lines, start, stop), len(record)))
    frame = pl.DataFrame(cells, schema=dict.fromkeys(layout.names, pl.String()), orient="row")
    first = text.line_no
    text.drop(int(sizes[used - 1]), lines=used)
    return layout.batch(
        frame.with_columns(pl.Series(LINE_NO, [first + start for start, _ in kept], dtype=pl.Int64)),
        lambda positions: [_raw(lines, *kept[position]) for position in positions],
        rejected,
    )


def _too_long(text: _Text, layout: _Layout) -> RecordBatch:
    """Give up a line that is longer than any record may be, as one, of which only the beginning is kept."""
    beginning = text.buffer[:_USUAL_HEADER_BYTES].decode("utf-8", "ignore")
    line_no = text.line_no
    while (end := text.buffer.find(b"\n")) < 0 and not text.ended:
        text.drop(len(text.buffer), lines=0)
        text.fill()
    text.drop(end + 1 if end >= 0 else len(text.buffer), lines=1)
    detail = f"a line of more than {_LOOKAHEAD_BYTES >> 20} MiB; this is its beginning"
    return layout.batch(layout.empty(), rejected=[Rejected(line_no, beginning, Rejection.MALFORMED_RECORD, detail)])


def _raw(lines: Sequence[str], start: int, stop: int) -> str:
    return "".join(lines[start:stop]).rstrip("\r\n")
