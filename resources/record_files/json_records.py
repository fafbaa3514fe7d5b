"""What JSON objects become: records of text by dotted path, or rejections. Both JSON formats share it.

Where one object ends and the next begins belongs to the formats.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias

from jiter import LosslessFloat, from_json
from pydantic_core import to_json

from resources.record_files.batches import RecordBatch, Rejected, Rejection, frame

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | LosslessFloat | bool | None"

_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape in a JSON text; the group is a surrogate without its other half."""

_NO_NUMBERS: Final = {"NaN", "Infinity", "-Infinity"}


class _NoRecordError(ValueError):
    """Valid JSON that is no record."""


def json_records(fields: Sequence[str], texts: Iterable[tuple[int, bytes]]) -> RecordBatch:
    """Read JSON texts in UTF-8, each with its line or number.

    Objects within objects are flattened to dotted paths. Numbers keep the text that they have in the file; NaN and
    the infinities, which JSON does not know and some writers write, are null; half of a surrogate pair is U+FFFD.
    EXTRA holds what was not asked for under its dotted paths; fractions stand in it as floats.

    Rejected is what is no JSON object, names a key twice, has two values at one path, or has a list or an object
    where a field is asked for.
    """
    line_nos: list[int] = []
    raws: list[bytes] = []
    extras: list[str] = []
    values: list[tuple[str | None, ...]] = []
    rejected: list[Rejected] = []
    seen: dict[str, None] = {}
    for line_no, raw in texts:
        try:
            flat = _flat(_parsed(raw))
            paths = dict.fromkeys(flat)
            row = tuple(
                [
                    value if isinstance(value := flat.pop(name, None), str) else _as_text(value, name, paths)
                    for name in fields
                ]
            )
            extra = to_json(flat, fallback=_as_float).decode()
        except ValueError as error:
            detail = str(error) if isinstance(error, _NoRecordError) else f"not valid JSON: {_on_one_line(error)}"
            rejected.append(Rejected(line_no, raw.decode(), Rejection.MALFORMED_RECORD, detail))
            continue
        seen.update(paths)
        line_nos.append(line_no)
        raws.append(raw)
        extras.append(extra)
        values.append(row)
    return RecordBatch(
        records=frame(fields, line_nos, extras, values),
        raws=lambda positions: [raws[position].decode() for position in positions],
        rejected=rejected,
        columns=list(seen),
    )


def _parsed(raw: bytes) -> Json:
    try:
        return _strictly_parsed(raw)
    except ValueError:
        repaired = _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], raw)
        if repaired == raw:
            raise
        return _strictly_parsed(repaired)


def _strictly_parsed(raw: bytes) -> Json:
    document: Json = from_json(raw, catch_duplicate_keys=True, float_mode="lossless-float", cache_mode="keys")
    return document


def _flat(document: Json) -> dict[str, Json]:
    """The values by dotted path; objects without members disappear."""
    if not isinstance(document, dict):
        raise _NoRecordError(f"a JSON object is expected, this is {_kind(document)}")
    flat: dict[str, Json] = {}
    _flatten(document, "", flat)
    return flat


def _flatten(document: dict[str, Json], prefix: str, flat: dict[str, Json]) -> None:
    for key, value in document.items():
        path = prefix + key
        if isinstance(value, dict):
            _flatten(value, f"{path}.", flat)
        elif path in flat:
            raise _NoRecordError(f"two values stand at {path}")
        else:
            flat[path] = value


def _as_text(value: Json, name: str, paths: Collection[str]) -> str | None:
    """The text of a value that is no string; of a record that has values at `paths`."""
    if value is None:
        below = f"{name}."
        if any(path.startswith(below) for path in paths) and name not in paths:
            raise _NoRecordError(f"{name} is an object, one value is expected")
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, LosslessFloat):
        text = bytes(value).decode()
        return None if text in _NO_NUMBERS else text
    raise _NoRecordError(f"{name} is a list, one value is expected")


def _as_float(value: LosslessFloat) -> float | str | None:
    """What EXTRA shows of a fraction."""
    number = float(value)
    text = bytes(value).decode()
    return number if math.isfinite(number) else None if text in _NO_NUMBERS else text


def _kind(document: Json) -> str:
    if document is None:
        return "null"
    return {list: "a list", str: "a string", bool: "a boolean"}.get(type(document), "a number")


def _on_one_line(error: ValueError) -> str:
    return str(error).replace(" at line 1 column ", " at column ")
