import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.record_files import json_lines
from resources.record_files.batches import (
    EXTRA,
    LINE_NO,
    Dialect,
    RecordBatch,
    Rejection,
    UnreadableFileError,
)


def read(content: bytes, fields: str = "a b", **how: str) -> list[RecordBatch]:
    return list(json_lines.read(io.BytesIO(content), fields.split(), Dialect(**how)))


def read_one(content: bytes, fields: str = "a b", **how: str) -> RecordBatch:
    (batch,) = read(content, fields, **how)
    return batch


@pytest.mark.parametrize(
    ("line", "a"),
    [
        ('{"a": 9223372036854775808}', "9223372036854775808"),
        ('{"a": 12345678901234567890123}', "12345678901234567890123"),
        ('{"a": -7}', "-7"),
        ('{"a": "00123"}', "00123"),
        ('{"a": 4.5}', "4.5"),
        ('{"a": 1.50}', "1.50"),
        ('{"a": 5.0}', "5.0"),
        ('{"a": 1e400}', "1e400"),
        ('{"a": 1E5}', "1E5"),
        ('{"a": 0.30000000000000004441}', "0.30000000000000004441"),
        ('{"a": true}', "true"),
        ('{"a": false}', "false"),
        ('{"a": null}', None),
        ('{"b": 1}', None),
        ('{"a": NaN}', None),
        ('{"a": -Infinity}', None),
        ('{"a": "NaN"}', "NaN"),
        ('{"a": ""}', ""),
        ('{"a": {}}', None),
        ('{"a": 1, "a.x": 2}', "1"),
        ('{"a": null, "a.x": 2}', None),
        ('{"a": "\\ud83d\\ude00"}', "😀"),
        ('{"a": "x\\ud83dy"}', "x\ufffdy"),
        ('{"a": "\\ud83d\\ud83d\\ude00\\ude00"}', "\ufffd😀\ufffd"),
        ('{"a": "\\\\ud83d \\ud83d"}', "\\ud83d \ufffd"),
        ('{"a": "\\u0000"}', "\x00"),
        ('{"a": "line\u2028sep\x85"}', "line\u2028sep\x85"),
        ('  {"a": 1}\t', "1"),
    ],
)
def test_values_come_out_as_text(line: str, a: str | None) -> None:
    found = read_one(line.encode())
    assert (found.records["a"].to_list(), found.rejected) == ([a], [])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"id": 1, "id": 2}', 'duplicate key "id" at column 16'),
        ('{"id": 1, "\\u0069d": 2}', 'duplicate key "id"'),
        ('{"o": {"k": 1, "k": 1}}', 'duplicate key "k"'),
        ('{"l": [{"k": 1, "k": 1}]}', 'duplicate key "k"'),
        ('{"\\ud83d": 1, "\\ud83e": 2}', "duplicate key"),
        ('["a"]', "this is a list"),
        ('"a"', "this is a string"),
        ("1.5", "this is a number"),
        ("true", "this is a boolean"),
        ("null", "this is null"),
        ('{"a": 1', "not valid JSON"),
        ('{"a": 1,}', "not valid JSON"),
        ('{"a": 1} {"a": 2}', "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": "\x01"}', "not valid JSON"),
        ('{"a": 01}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"c": ' + "[" * 190 + "{}" + "]" * 190 + ', "d": ' + "[" * 100_000, "not valid JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
        ('{"a": ["x", {"y": 1}]}', "a is a list"),
        ('{"a": []}', "a is a list"),
        ('{"a": {"x": {"y": 1}}}', "a is an object"),
        ('{"o": {"k": 1}, "o.k": 2}', "two values stand at o.k"),
        ('{"o.k": 2, "o": {"k": 1}}', "two values stand at o.k"),
    ],
)
def test_a_line_that_is_no_object_is_rejected_and_the_next_is_read(line: str, says: str) -> None:
    found = read_one(f'\n{line}\n{{"a": "next"}}\n'.encode())
    assert found.records["a"].to_list() == ["next"]
    (rejected,) = found.rejected
    assert (rejected.line_no, rejected.raw, rejected.reason) == (2, line, Rejection.MALFORMED_RECORD)
    assert says in rejected.detail


def test_a_path_and_one_below_it_cannot_both_be_had() -> None:
    for fields in ("a a.x", "a.x a"):
        assert [one.detail for one in read_one(b'{"a": {"x": 1}}', fields).rejected] == [
            "a is an object, one value is expected"
        ]


def test_nested_objects_have_dotted_names_and_the_rest_is_kept() -> None:
    found = read_one(
        b'{"a": {"x": 1.5, "y": {"z": "deep"}}, "Name": "A", "name": "b", "t": [1, {"k": "\xc3\xa9"}], "n": null}',
        "a.y.z name",
    )
    assert found.records.select("a.y.z", "name").rows() == [("deep", "b")]
    assert found.records[EXTRA].to_list() == ['{"a.x":1.5,"Name":"A","t":[1,{"k":"é"}],"n":null}']
    assert found.columns == ["a.x", "a.y.z", "Name", "name", "t", "n"]


def test_what_is_left_is_always_json() -> None:
    found = read_one(b'{"x": NaN, "y": [-Infinity], "z": 1e400, "big": 12345678901234567890123, "s": "\\ud83d\\u0000"}')
    assert json.loads(found.records[EXTRA][0]) == {
        "x": None,
        "y": [None],
        "z": "1e400",
        "big": 12345678901234567890123,
        "s": "\ufffd\x00",
    }


def test_lines_are_counted_and_blank_ones_are_none() -> None:
    found = read_one(b'\xef\xbb\xbf\n{"a": 1}\r\n \t\r\n\r\n{"a": 2}\n{"a"')
    assert found.records.select(LINE_NO, "a").rows() == [(2, "1"), (5, "2")]
    assert [(one.line_no, one.raw) for one in found.rejected] == [(6, '{"a"')]
    assert found.raws([1, 0]) == ['{"a": 2}', '{"a": 1}']


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf", b"\r\n\r\n"])
def test_a_blank_file_holds_nothing(content: bytes) -> None:
    assert read(content) == []


def test_keys_with_lone_surrogates_can_be_written_down() -> None:
    found = read_one(b'{"\\ud83d": "\\ud83d"}\n')
    assert found.columns == ["\ufffd"]
    assert json.loads(found.records[EXTRA][0]) == {"\ufffd": "\ufffd"}


def test_the_encoding_is_that_of_the_source() -> None:
    assert read_one('{"a": "“é”"}'.encode("cp1252"), encoding="cp1252").records["a"].to_list() == ["“é”"]
    assert read_one('{"a": "é"}\r\n'.encode("utf-16")).records["a"].to_list() == ["é"]
    with pytest.raises(UnreadableFileError, match="byte 7 is not utf-8"):
        read(b'{"a": "\x93"}')


def test_a_large_file_comes_in_batches() -> None:
    lines = [f'{{"a": {number}, "b": "{"é" * 1000}"}}' for number in range(20_000)]
    batches = read("\n".join(lines).encode())
    assert len(batches) > 1
    assert [no for batch in batches for no in batch.records[LINE_NO]] == list(range(1, 20_001))
    assert [a for batch in batches for a in batch.records["a"]] == [str(number) for number in range(20_000)]
    assert batches[-1].raws([batches[-1].records.height - 1]) == lines[-1:]


def test_a_file_without_line_feeds_does_not_fill_the_memory() -> None:
    with pytest.raises(UnreadableFileError, match=r"longer than 16 MiB: name the file \.json"):
        read(b"[" + b'{"a": 1},' * (4 << 20))


def oracle(line: str) -> dict[str, Any] | None:
    """What Python's own parser makes of a line; None where it is no record."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("twice")
        return dict(pairs)

    def flatten(prefix: str, value: dict[str, Any]) -> list[tuple[str, Any]]:
        pairs: list[tuple[str, Any]] = []
        for key, inner in value.items():
            pairs += flatten(f"{prefix}{key}.", inner) if isinstance(inner, dict) else [(prefix + key, inner)]
        return pairs

    try:
        document = json.loads(line, object_pairs_hook=unique, parse_float=float, parse_constant=lambda _: None)
        flat = unique(flatten("", document)) if isinstance(document, dict) else None
    except (ValueError, RecursionError):
        return None
    if flat is None or any(isinstance(flat.get(name), list) for name in ("a", "o.k")):
        return None
    objects = any(name not in flat and any(path.startswith(f"{name}.") for path in flat) for name in ("a", "o.k"))
    return None if objects else flat


TOKENS = st.sampled_from(
    ["{", "}", "[", "]", ",", ":", '"a"', '"b"', '"o"', '"k"', '"o.k"', '"a":', '"\\u0061"', "1", "-0", "1.5", "1e5",
     "true", "null", "NaN", "-Infinity", '"\\ud83d\\ude00"', '"é\u2028"', " ", "x", '"', "\\",
     '{"a":1}', '{"o":{"k":2}}']
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "o", "k", "o.k", "a.b", ""]), inner, max_size=3)
    ),
    max_leaves=8,
)
LINES = st.lists(TOKENS, max_size=12).map("".join) | st.builds(json.dumps, VALUES, ensure_ascii=st.booleans())


@settings(max_examples=500)
@given(line=LINES.filter(lambda line: "\\ud" not in line or "\\ude00" in line))
def test_what_is_a_record_and_its_values_are_as_in_another_parser(line: str) -> None:
    expected = oracle(line)
    batches = read(line.encode(), "a o.k")
    if not line.strip(" \t"):
        assert batches == []
        return
    (found,) = batches
    if expected is None:
        assert (found.records.height, [one.raw for one in found.rejected]) == (0, [line])
        return
    assert (found.rejected, found.columns, found.raws([0])) == ([], list(expected), [line])
    for name in ("a", "o.k"):
        value, text = expected.pop(name, None), found.records[name][0]
        assert text == value if isinstance(value, str | None) else json.loads(text) == value
    assert json.loads(found.records[EXTRA][0]) == expected


@settings(max_examples=300)
@given(content=st.binary(max_size=200) | st.lists(LINES.map(str.encode) | st.just(b"\n"), max_size=8).map(b"".join))
def test_no_bytes_raise_and_each_line_counts_once(content: bytes) -> None:
    try:
        batches = read(content)
    except UnreadableFileError:
        with pytest.raises(UnicodeDecodeError):
            content.decode()
        return
    numbers = [no for batch in batches for no in [*batch.records[LINE_NO], *(one.line_no for one in batch.rejected)]]
    if not content.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\x00\x00\xfe\xff")):
        assert sorted(numbers) == [no for no, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
