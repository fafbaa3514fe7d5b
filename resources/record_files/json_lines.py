"""Reads JSONL: one JSON object a line."""

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final

from resources.record_files.batches import BATCH_BYTES, Dialect, RecordBatch, UnreadableFileError
from resources.record_files.json_records import json_records
from resources.record_files.plain_bytes import utf8_blocks

_LONGEST_LINE_BYTES: Final = 16 << 20


def read(stream: BinaryIO, fields: Sequence[str], dialect: Dialect) -> Iterator[RecordBatch]:
    """Read the records of a JSONL file; `json_records` says how an object becomes one.

    Blank lines are no records. A last line that is not finished is a line that is not valid JSON.

    Raises:
        UnreadableFileError: the bytes are not of the encoding, or a line is longer than 16 MiB.
    """
    line_no = 1
    for lines in _lines(utf8_blocks(stream, dialect.encoding, BATCH_BYTES)):
        numbered = enumerate(lines, start=line_no)
        batch = json_records(fields, ((no, text) for no, line in numbered if (text := line.rstrip(b"\r")).strip()))
        line_no += len(lines)
        if batch.records.height or batch.rejected:
            yield batch


def _lines(blocks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines that end in each block; what is left at the end goes with the last."""
    lines: list[bytes] = []
    begun = b""
    for block in blocks:
        *more, begun = (begun + block).split(b"\n")
        if more:
            yield lines
            lines = more
        if len(begun) > _LONGEST_LINE_BYTES:
            raise UnreadableFileError(
                f"a line is longer than {_LONGEST_LINE_BYTES >> 20} MiB: name the file .json if it is one JSON document"
            )
    yield [*lines, begun]
