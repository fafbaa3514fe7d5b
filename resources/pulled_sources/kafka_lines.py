"""What a Kafka message is as a line of a landed file, and which message such a file ends with.

Which messages are landed, and when, belongs to `kafka.py`.
"""

import base64
import json
import mmap
import operator
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, cast

from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from confluent_kafka import Message

_LINE_HEAD: Final = re.compile(rb'!?\{"partition":\d+,"offset":(\d+),')
_LINE_HEAD_BYTES: Final = 100
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_given_headers: Final = operator.methodcaller("headers")
"""Where a name is not UTF-8, the client gives a broken list along with its error. Python tells that as SystemError, but
not where it has sped up a plain call: there the process would die of the list."""


def record_line(message: "Message") -> str:
    """A message as one line of its partition's file, without the line feed; `KafkaSource` describes it."""
    # Partition and offset first, and always numbers: the end of a file is read without parsing any value.
    about: dict[str, object] = {"partition": message.partition(), "offset": message.offset()}
    about |= _time(message) | _key(message.key()) | _headers(message)
    content = message.value()
    try:
        value = _embeddable(content)
    except ValueError as error:
        about["problem"] = str(error)
        about["value_base64"] = None if content is None else _base64(content)
        return f"!{_json(about)}"
    return f'{_json(about)[:-1]},"value":{value}}}'


def _embeddable(content: bytes | None) -> str:
    """The JSON object that `content` holds, on one line but else as it was written.

    Raises:
        ValueError: it holds none.
    """
    if content is None:
        raise ValueError("the message has no value (a tombstone)")
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ValueError(f"the value is not UTF-8 at byte {error.start}") from None
    try:
        # Numbers are left unread: they may have more digits than Python converts.
        json.loads(text, parse_int=len, parse_float=len, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("the value is JSON nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the value is no JSON: {error}") from None
    if not text.lstrip().startswith("{"):
        raise ValueError("the value is JSON, but no object")
    # In valid JSON these two stand only between tokens, where a space means the same.
    return text.replace("\n", " ").replace("\r", " ")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _time(message: "Message") -> dict[str, object]:
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

    kind, milliseconds = message.timestamp()
    if kind == TIMESTAMP_NOT_AVAILABLE:
        return {"timestamp": None}
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        # Producers set what they like, such as microseconds.
        return {"timestamp": None, "timestamp_ms": milliseconds}
    return {"timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")}


def _key(key: bytes | None) -> dict[str, object]:
    try:
        return {"key": None if key is None else key.decode("utf-8")}
    except UnicodeDecodeError:
        return {"key_base64": _base64(key or b"")}


def _headers(message: "Message") -> dict[str, object]:
    """The headers by name; the values of a repeated name as a list, those not in UTF-8 under `headers_base64`."""
    try:
        headers = cast("list[tuple[str, bytes | None]]", _given_headers(message) or [])
    except (SystemError, UnicodeDecodeError):
        return {"headers_problem": "the name of a header is not UTF-8"}
    given: dict[str, dict[str, list[str | None]]] = {"headers": {}, "headers_base64": {}}
    for name, value in headers:
        try:
            kind, text = "headers", None if value is None else value.decode("utf-8")
        except UnicodeDecodeError:
            kind, text = "headers_base64", _base64(value or b"")
        given[kind].setdefault(name, []).append(text)
    return {
        kind: {name: values if len(values) > 1 else values[0] for name, values in of_kind.items()}
        for kind, of_kind in given.items()
        if of_kind
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def last_offset(path: Path, uri: str) -> int:
    """The offset of a landed file's last line.

    Raises:
        ConfigurationError: its last line is none of ours.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        begin = content.rfind(b"\n", 0, len(content) - 1) + 1
        head = _LINE_HEAD.match(content[begin : begin + _LINE_HEAD_BYTES])
    if head is None:
        raise ConfigurationError(f"{uri} does not end with a message: was it edited? Put it back as it was pulled")
    return int(head[1])
