"""Reads JSON files that are not one object a line: arrays, objects around an array, objects one after another.

What an object becomes belongs to `json_records.py`.
"""

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final, cast

from resources.record_files.batches import BATCH_BYTES, Dialect, RecordBatch, UnreadableFileError
from resources.record_files.json_records import json_records
from resources.record_files.plain_bytes import utf8_blocks

_WHITE_SPACE: Final = re.compile(r"[ \t\n\r]*")

_ENDS = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str, strict=False)
"""Finds where a value ends; what it is, is for `json_records` to say."""

_CUT_NUMBERS: Final = (".", "e", "e+", "e-", "E", "E+", "E-")
_CUT_TOKENS: Final = ("true", "false", "null", "NaN", "Infinity", "-Infinity", *_CUT_NUMBERS)
"""What a token cut short begins, from the place at which the decoder gives up."""

_LOOK_AHEAD: Final = 4
"""Characters that must follow a value before it can be trusted to have ended: a number may go on."""


def read(stream: BinaryIO, fields: Sequence[str], dialect: Dialect) -> Iterator[RecordBatch]:
    """Read the records of a JSON file; `json_records` says how an object becomes one.

    The file holds an array of records, or records one after another; with `dialect.record_path`, an object with
    such an array at that dotted path, or several of them. About BATCH_BYTES of it are in memory at once, or one
    element, where that is longer. A file of white space holds no records. LINE_NO is a record's number, for many may
    stand on one line.

    Raises:
        UnreadableFileError: the bytes are not of the encoding, are not JSON, end too soon (`incomplete`), or have
            no array at the record path.
    """
    text = _Text(stream, dialect.encoding)
    records: list[tuple[int, bytes]] = []
    size = number = 0
    while text.next_character():
        for raw in _records(text, dialect.record_path):
            number += 1
            records.append((number, raw))
            size += len(raw)
            if size >= BATCH_BYTES:
                yield json_records(fields, records)
                records, size = [], 0
    if records:
        yield json_records(fields, records)


def _records(text: "_Text", record_path: str | None) -> Iterator[bytes]:
    if record_path is not None:
        yield from _elements_at(text, record_path.split("."), record_path)
    elif text.next_character() == "[":
        yield from _elements(text)
    else:
        yield text.take_value()


def _elements(text: "_Text") -> Iterator[bytes]:
    text.take("[")
    if text.next_character() == "]":
        text.take("]")
        return
    yield text.take_value()
    while text.take(",]") == ",":
        yield text.take_value()


def _elements_at(text: "_Text", keys: Sequence[str], record_path: str) -> Iterator[bytes]:
    """The elements of the array at a path below the value that comes next; the rest of that is passed over."""
    no_array = UnreadableFileError(f"there is no array at {record_path!r}: set the source's record_path")
    if text.next_character() not in {"{" if keys else "[", ""}:
        raise no_array
    if not keys:
        yield from _elements(text)
        return
    text.take("{")
    found = False
    more = text.next_character() != "}" or text.take("}") == ","
    while more:
        key = text.take_key()
        text.take(":")
        if key != keys[0]:
            text.take_value()
        elif found:
            raise UnreadableFileError(f"the key {key!r} of the record_path {record_path!r} stands twice")
        else:
            found = True
            yield from _elements_at(text, keys[1:], record_path)
        more = text.take(",}") == ","
    if not found:
        raise no_array


class _Text:
    """The text of a stream, of which only what is being looked at is in memory."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._blocks = utf8_blocks(stream, encoding, BATCH_BYTES)
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._window = ""
        self._at = 0
        self._line, self._column = 1, 1

    def next_character(self) -> str:
        """Pass over white space; the character there, or nothing at the end."""
        while True:
            self._move(cast("re.Match[str]", _WHITE_SPACE.match(self._window, self._at)).end())
            if self._at < len(self._window):
                return self._window[self._at]
            if not self._read_more():
                return ""

    def take(self, expected: str) -> str:
        """Take the next character, which must be one of `expected`."""
        character = self.next_character()
        if not character:
            raise self._ended()
        if character not in expected:
            if self._window[self._at :] in _CUT_NUMBERS and not self._read_more():
                raise self._ended()
            raise self._broken(self._at, f"Expecting {' or '.join(expected)}")
        self._move(self._at + 1)
        return character

    def take_key(self) -> str:
        """Take the next value, which must be a string; the string."""
        if self.next_character() not in {'"', ""}:
            raise self._broken(self._at, 'Expecting "')
        return str(json.loads(self.take_value(), strict=False))

    def take_value(self) -> bytes:
        """Take the next JSON value: its text."""
        if not self.next_character():
            raise self._ended()
        end = self._end_of_value()
        while len(self._window) - end < _LOOK_AHEAD and self._read_more():
            end = self._end_of_value()
        raw = self._window[self._at : end].encode()
        self._move(end)
        return raw

    def _end_of_value(self) -> int:
        while True:
            try:
                return _ENDS.raw_decode(self._window, self._at)[1]
            except json.JSONDecodeError as error:
                if not _is_cut(error):
                    raise self._broken(error.pos, error.msg) from None
                if not self._read_more():
                    raise self._ended() from None
            except RecursionError:
                raise self._broken(self._at, "nested too deeply") from None

    def _read_more(self) -> bool:
        """Drop what was taken, and read more than is left: a long value must not be scanned too often."""
        rest = self._window[self._at :]
        parts, size = [rest], 0
        for block in self._blocks:
            parts.append(self._decode(block))
            size += len(parts[-1])
            if size > len(rest):
                break
        if size:
            self._window, self._at = "".join(parts), 0
        return size > 0

    def _place(self, at: int) -> tuple[int, int]:
        """Line and column of a place in the window that is not taken yet."""
        lines = self._window.count("\n", self._at, at)
        column = at - self._window.rfind("\n", self._at, at) if lines else self._column + at - self._at
        return self._line + lines, column

    def _move(self, at: int) -> None:
        self._line, self._column = self._place(at)
        self._at = at

    def _broken(self, at: int, what: str) -> UnreadableFileError:
        line, column = self._place(at)
        return UnreadableFileError(f"not valid JSON at line {line}, column {column}: {what}")

    def _ended(self) -> UnreadableFileError:
        return UnreadableFileError("the JSON document ends too soon", incomplete=True)


def _is_cut(error: json.JSONDecodeError) -> bool:
    """Whether the text may be the beginning of valid JSON."""
    rest = error.doc[error.pos :].rstrip(" \t\n\r")
    if error.msg.startswith("Unterminated string"):
        return True
    if "escape" in error.msg:
        return '"' not in rest
    return any(token.startswith(rest) for token in _CUT_TOKENS)
