import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.record_files import json_document
from resources.record_files.batches import EXTRA, LINE_NO, Dialect, RecordBatch, UnreadableFileError


class Dribble(io.BytesIO):
    """A stream that gives a few bytes at a time, so that everything is cut everywhere."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(3 if size is None or size < 0 else min(size, 3))


def read(content: bytes, fields: str = "a", **how: str) -> list[RecordBatch]:
    return list(json_document.read(io.BytesIO(content), fields.split(), Dialect(**how)))


def read_one(content: bytes, fields: str = "a", **how: str) -> RecordBatch:
    (batch,) = read(content, fields, **how)
    return batch


@pytest.mark.parametrize(
    "content",
    [
        '[{"a": "é"},{"a": 2.50}]',
        '\n[\n  {"a": "é"},\n  {\n    "a": 2.50\n  }\n]\n',
        '{"a": "é"}{"a": 2.50}',
        '{"a": "é"}\r\n{"a": 2.50}\r\n',
        '{\n  "a": "é"\n}\n\n{\n  "a": 2.50\n}',
        '[{"a": "é"}] [] [{"a": 2.50}]',
        '\ufeff[{"a": "é"},{"a": 2.50}]',
    ],
)
def test_the_same_records_in_many_dresses(content: str) -> None:
    for encoded in (content.encode(), content.removeprefix("\ufeff").encode("utf-16")):
        found = read_one(encoded)
        assert (found.records["a"].to_list(), found.rejected, found.columns) == (["é", "2.50"], [], ["a"])


@pytest.mark.parametrize(
    ("content", "record_path"),
    [
        ('{"items": [{"a": 1}, {"a": 2}]}', "items"),
        ('{"more": [{"a": 9}, {}], "items": [{"a": 1}, {"a": 2}], "next": {"items": [{"a": 9}]}}', "items"),
        ('{"items": {"a": 9}, "data": {"x": null, "items": [{"a": 1}, {"a": 2}], "y": "]"}, "z": 1e5}', "data.items"),
        ('{"items": [{"a": 1}]} {"items": []} {"items": [{"a": 2}]}', "items"),
        ('{"\\u0069tems": [{"a": 1}, {"a": 2}]}', "items"),
    ],
)
def test_the_records_may_lie_deeper(content: str, record_path: str) -> None:
    assert read_one(content.encode(), record_path=record_path).records["a"].to_list() == ["1", "2"]


def test_records_are_numbered_and_texts_are_those_of_the_file() -> None:
    found = read_one(b'[\n  {"a": 1, "b": [2]},\n\n  {\r\n"a" : "x\\ny" },  {"a": null}\n]')
    assert found.records.select(LINE_NO, "a", EXTRA).rows() == [
        (1, "1", '{"b":[2]}'),
        (2, "x\ny", "{}"),
        (3, None, "{}"),
    ]
    assert found.raws([2, 1, 0]) == ['{"a": null}', '{\r\n"a" : "x\\ny" }', '{"a": 1, "b": [2]}']


def test_elements_that_are_no_records_are_rejected_one_by_one() -> None:
    found = read_one(b'[{"a": 1}, 5,\n{"a": 1, "a": 2}, null, {"a": [1]},\n"x", [{"a": 3}], {"a": "\x01"}, {"a": 4}]')
    assert found.records["a"].to_list() == ["1", "4"]
    assert [(one.line_no, one.raw) for one in found.rejected] == [
        (2, "5"), (3, '{"a": 1, "a": 2}'), (4, "null"), (5, '{"a": [1]}'), (6, '"x"'), (7, '[{"a": 3}]'),
        (8, '{"a": "\x01"}'),
    ]  # fmt: skip


def test_half_a_surrogate_pair_and_a_very_long_number_spoil_nothing_else() -> None:
    found = read_one(b'[{"a": "\\ud83d"}, {"a": ' + b"9" * 5000 + b'}, {"a": "\\ud83d\\ude00"}]')
    assert found.records["a"].to_list() == ["\ufffd", "😀"]
    assert [one.line_no for one in found.rejected] == [2]


@pytest.mark.parametrize("content", [b"", b"\n \t\r\n", b"\xef\xbb\xbf", b"[]", b"[\n]", b"[] []"])
def test_a_file_without_records_holds_nothing(content: bytes) -> None:
    assert read(content) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('[{"a": 1}\n{"a": 2}]', "line 2, column 1: Expecting , or ]"),
        ('[\n {"a": 1},\n {"a": nope}\n]', "line 3, column 8: Expecting value"),
        ('[{"é": 1}, {"a" 2}]', "line 1, column 17: Expecting ':' delimiter"),
        ('[{"a": 1},]', "line 1, column 11: Expecting value"),
        ('[{"a": "\\x"}]', "line 1, column 9: Invalid \\escape"),
        ('{"a": 1}\n]', "line 2, column 1: Expecting value"),
        ("hello", "line 1, column 1: Expecting value"),
        ("[" + '{"a": "\n"},\n' * 1000 + "oops]", "line 2001, column 1: Expecting value"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ],
)
def test_a_document_that_is_broken_is_unreadable(content: str, says: str) -> None:
    for stream in (io.BytesIO(content.encode()), Dribble(content.encode())):
        with pytest.raises(UnreadableFileError) as refused:
            list(json_document.read(stream, ["a"], Dialect()))
        assert says in refused.value.detail
        assert not refused.value.incomplete


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('[{"a": 1}]', "there is no array at 'data.items': set the source's record_path"),
        ("{}", "no array at"),
        ('{"data": {"item": []}}', "no array at"),
        ('{"data": [{"items": []}]}', "no array at"),
        ('{"data": {"items": {"a": 1}}}', "no array at"),
        ('{"data.items": []}', "no array at"),
        ('{"data": {"items": [], "items": []}}', "the key 'items' of the record_path 'data.items' stands twice"),
        ('{"data": {"items": [{"a": 1}] "x"}}', "line 1, column 31: Expecting , or }"),
        ("{data: 1}", 'line 1, column 2: Expecting "'),
    ],
)
def test_a_record_path_that_leads_nowhere_is_unreadable(content: str, says: str) -> None:
    with pytest.raises(UnreadableFileError, match=says) as refused:
        read(content.encode(), record_path="data.items")
    assert not refused.value.incomplete


WHOLE = '[\n {"a": "x\\n\\ud83d\\ude00 é", "b": [-1.5e+3, true, {}]},\n null, false, NaN, -Infinity, -12.25E-3 \n]'


@pytest.mark.parametrize("record_path", [None, "data.items"])
def test_a_document_cut_anywhere_is_incomplete(record_path: str | None) -> None:
    whole = WHOLE
    if record_path:
        whole = '{"x": {"data": 0}, "data": {"k": "}", "items": ' + WHOLE + ', "y": 0.5}, "z": [""]}'
    dialect = Dialect(record_path=record_path)
    (found,) = json_document.read(io.BytesIO(whole.encode()), ["a"], dialect)
    assert (found.records["a"].to_list(), len(found.rejected)) == (["x\n😀 é"], 5)
    for end in range(1, len(whole)):
        with pytest.raises(UnreadableFileError) as refused:
            list(json_document.read(io.BytesIO(whole[:end].encode()), ["a"], dialect))
        assert refused.value.incomplete, whole[:end]
        assert refused.value.detail == "the JSON document ends too soon"


def test_a_large_file_comes_in_batches() -> None:
    texts = [json.dumps({"a": number, "b": "é" * 500}, ensure_ascii=False) for number in range(40_000)]
    batches = read(("[" + ",\n".join(texts) + "]").encode())
    assert len(batches) > 1
    assert [no for batch in batches for no in batch.records[LINE_NO]] == list(range(1, 40_001))
    assert [a for batch in batches for a in batch.records["a"]] == [str(number) for number in range(40_000)]
    assert batches[-1].raws([0]) == [texts[-batches[-1].records.height]]


def test_one_long_element_is_read() -> None:
    long = "x" * (40 << 20)
    found = read(json.dumps([{"a": long}, {"a": "short"}]).encode())
    assert [a for batch in found for a in batch.records["a"]] == [long, "short"]


def pieces(batches: list[RecordBatch]) -> list[tuple[int, str]]:
    """Number and text of everything that was found."""
    return sorted(
        piece
        for batch in batches
        for piece in [
            *zip(batch.records[LINE_NO], batch.raws(range(batch.records.height)), strict=True),
            *((one.line_no, one.raw) for one in batch.rejected),
        ]
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(max_size=2), VALUES, max_size=3)


@settings(max_examples=200)
@given(
    values=st.lists(VALUES, max_size=6) | st.lists(OBJECTS, max_size=6),
    indent=st.sampled_from([None, 1]),
    apart=st.sampled_from(["\n", "  "]),
)
def test_every_element_counts_with_its_number_and_text_however_it_is_cut(
    values: list[object], indent: int | None, apart: str
) -> None:
    texts = [json.dumps(value, indent=indent) for value in values]
    dresses = [("[", f",{apart}", "]")]
    if all(isinstance(value, dict) for value in values):
        dresses.append(("", apart, ""))
    for before, between, after in dresses:
        content = before + between.join(texts) + after
        expected = list(enumerate(texts, start=1))
        assert pieces(list(json_document.read(Dribble(content.encode()), [], Dialect()))) == expected
        assert pieces(read(content.encode(), "")) == expected


TOKENS = st.sampled_from(
    [b"{", b"}", b"[", b"]", b",", b":", b'"a"', b"1", b"\\", b'"', b'{"a":1}', b"\n", b"-", b"\xff"]
)


@settings(max_examples=300)
@given(
    content=st.binary(max_size=100) | st.lists(TOKENS, max_size=15).map(b"".join),
    record_path=st.sampled_from([None, "a", "a.a"]),
)
def test_no_bytes_raise_anything_else(content: bytes, record_path: str | None) -> None:
    outcomes = []
    for stream in (io.BytesIO(content), Dribble(content)):
        try:
            outcomes.append(str(pieces(list(json_document.read(stream, ["a"], Dialect(record_path=record_path))))))
        except UnreadableFileError as error:
            outcomes.append(f"{error.incomplete} {error.detail}")
    if "is not utf-8" not in "".join(outcomes):  # which may be found before what is no JSON, or after it
        assert outcomes[0] == outcomes[1]
