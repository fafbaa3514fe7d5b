import csv
import datetime as dt
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resources.errors import ConfigurationError
from resources.record_files import EXTRA, LINE_NO, RAW, RecordFile, RecordFormat, Rejection, read_records

CSV, JSONL, PARQUET = RecordFormat.CSV, RecordFormat.JSONL, RecordFormat.PARQUET

Read = Callable[..., RecordFile]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def from_bytes(content: bytes, record_format: RecordFormat = CSV, fields: str = "a b", **how: str) -> RecordFile:
        path = tmp_path / "file"
        path.write_bytes(content)
        return read_records(path, record_format, fields.split(), **how)

    return from_bytes


@pytest.fixture
def read_table(tmp_path: Path) -> Read:
    def from_columns(**columns: Any) -> RecordFile:
        path = tmp_path / "file.parquet"
        pl.DataFrame(columns).write_parquet(path)
        return read_records(path, PARQUET, ["a", "b"])

    return from_columns


def values(found: RecordFile) -> list[tuple[str | None, ...]]:
    return found.records.select("a", "b").rows()


@pytest.mark.parametrize(
    ("name", "record_format"),
    [("a.csv", CSV), ("a.TXT", CSV), ("a.tsv", RecordFormat.TSV), ("a.jsonl", JSONL), ("a.ndjson", JSONL),
     ("a.parquet", PARQUET), ("a.xlsx", None), ("csv", None), ("a.csv.gz", None)],
)  # fmt: skip
def test_the_suffix_names_the_format(name: str, record_format: RecordFormat | None) -> None:
    assert RecordFormat.of(Path(name)) is record_format


@pytest.mark.parametrize(
    ("content", "how"),
    [
        (b"a,b\n1,x\n", {}),
        (b"a,b\r\n1,x\r\n", {}),
        (b"a,b\r1,x", {}),
        (b"\xef\xbb\xbfa,b\n1,x\n", {}),
        (b"\n\na,b\n\n1,x\n\n", {}),
        (b"b,a\nx,1\n", {}),
        (b"a;b\n1;x\n", {"delimiter": ";"}),
        (b"sep=;\r\na;b\r\n1;x\r\n", {}),
        (b"\xef\xbb\xbfsep=;\na;b\n1;x\n", {"delimiter": ";"}),
        ("a,b\r\n1,x\r\n".encode("utf-16"), {"encoding": "utf-16"}),
        ("\ufeffa,b\r\n1,x\r\n".encode("utf-16-le"), {"encoding": "utf-16-le"}),
    ],
)
def test_the_same_table_in_many_dresses(read: Read, content: bytes, how: dict[str, str]) -> None:
    found = read(content, **how)
    assert values(found) == [("1", "x")]
    assert (found.rejected, found.missing) == ([], [])


def test_a_tsv_file_has_tabs(read: Read) -> None:
    assert values(read(b"a\tb\n1,5\tx\n", RecordFormat.TSV)) == [("1,5", "x")]


def test_quoted_fields_hold_anything_and_lines_are_counted(read: Read) -> None:
    found = read(b'a,b,c\n1,"x ""y"", z\n\n2",k\n3,\x00,\xc3\xa9\n')
    assert values(found) == [("1", 'x "y", z\n\n2'), ("3", "\x00")]
    assert found.records[LINE_NO].to_list() == [2, 5]
    assert found.records[RAW].to_list() == ['1,"x ""y"", z\n\n2",k', "3,\x00,é"]
    assert found.records[EXTRA].to_list() == ['{"c": "k"}', '{"c": "é"}']


def test_many_plain_rows_before_a_quoted_one(read: Read) -> None:
    found = read(b"a,b\n" + b"0,z\n" * 20_479 + b'"x,y",1\n')
    assert found.records.height == 20_480
    assert values(found)[-1] == ("x,y", "1")


def test_an_unclosed_quote_gives_up_one_line_only(read: Read) -> None:
    found = read(b'a,b\n1,"x\n2,y\n3,"z" z\n4,w\n')
    assert values(found) == [("2", "y"), ("4", "w")]
    assert [(one.line_no, one.raw, one.reason) for one in found.rejected] == [
        (2, '1,"x', Rejection.MALFORMED_RECORD),
        (4, '3,"z" z', Rejection.MALFORMED_RECORD),
    ]


def test_thousands_of_broken_lines_are_each_given_up_alone(read: Read) -> None:
    found = read(b"a,b\n" + b'1,"x" x\n2,y\n' * 5_000)
    assert found.records[LINE_NO].to_list() == list(range(3, 10_002, 2))
    assert set(values(found)) == {("2", "y")}
    assert [one.line_no for one in found.rejected] == list(range(2, 10_002, 2))
    assert {(one.raw, one.reason) for one in found.rejected} == {('1,"x" x', Rejection.MALFORMED_RECORD)}


def test_rows_of_other_lengths_are_kept_apart(read: Read) -> None:
    found = read(b"a,b,c\n1,2\n1,2,3\n1,2,3,4\n")
    assert values(found) == [("1", "2")]
    assert [(one.line_no, one.raw, one.detail) for one in found.rejected] == [
        (2, "1,2", "3 fields declared, 2 found"),
        (4, "1,2,3,4", "3 fields declared, 4 found"),
    ]
    assert {one.reason for one in found.rejected} == {Rejection.WRONG_FIELD_COUNT}


def test_one_column_may_hold_what_separates_elsewhere(read: Read) -> None:
    assert read(b"c0\nv0\na;b\n", fields="c0").records["c0"].to_list() == ["v0", "a;b"]


@pytest.mark.parametrize("record_format", [CSV, JSONL])
@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf", b"\r\n\r\n"])
def test_an_empty_file_holds_nothing_and_lacks_nothing(read: Read, content: bytes, record_format: RecordFormat) -> None:
    found = read(content, record_format)
    assert (found.records.height, found.rejected, found.missing) == (0, [], [])
    assert found.records.columns == [LINE_NO, RAW, EXTRA, "a", "b"]


def test_a_header_alone_lacks_nothing(read: Read) -> None:
    found = read(b"x,y\n")
    assert (found.records.height, found.columns, found.missing) == (0, ["x", "y"], [])


def test_missing_columns_are_named_and_null(read: Read) -> None:
    found = read(b"a,c\n1,2\n")
    assert (found.missing, found.columns, values(found)) == (["b"], ["a", "c"], [("1", None)])


@pytest.mark.parametrize(
    ("content", "how", "says"),
    [
        (b"a,b\n1,\x93\xe9\x85\x94\n", {}, "byte 6 is not utf-8"),
        ("a,b\r\n".encode("utf-16"), {}, "byte 0 is not utf-8: set the source's encoding"),
        (b"a,b\n1,\x81\n", {"encoding": "cp1252"}, "byte 6 is not cp1252"),
        (b'a,"b\n1,2\n', {}, "the header is not valid CSV"),
        (b"a,b,a\n1,2,3\n", {}, "names the column 'a' more than once"),
    ],
)
def test_a_file_that_cannot_be_understood_is_one_rejection(
    read: Read, content: bytes, how: dict[str, str], says: str
) -> None:
    found = read(content, **how)
    assert found.records.is_empty()
    (rejected,) = found.rejected
    assert (rejected.line_no, rejected.reason) == (0, Rejection.UNREADABLE_FILE)
    assert says in rejected.detail


def test_other_columns_of_one_name_are_all_kept(read: Read) -> None:
    found = read(b"a,b,c,,c,\n1,2,3,4,5,6\n")
    assert json.loads(found.records[EXTRA][0]) == {"c#3": "3", "#4": "4", "c#5": "5", "#6": "6"}


def test_the_declared_encoding_is_used(read: Read) -> None:
    assert values(read(b"a,b\n1,\x93\xe9\x94\n", encoding="cp1252")) == [("1", "“é”")]


def test_an_encoding_that_can_spell_lone_surrogates_does_not_break(read: Read) -> None:
    assert values(read(b"a,b\n1,+2D0-\n", encoding="utf-7")) == [("1", "\ufffd")]


@pytest.mark.parametrize(
    ("line", "a"),
    [
        ('{"a": 9223372036854775808}', "9223372036854775808"),
        ('{"a": 12345678901234567890123}', "12345678901234567890123"),
        ('{"a": "00123"}', "00123"),
        ('{"a": 4.5}', "4.5"),
        ('{"a": true}', "true"),
        ('{"a": null}', None),
        ('{"b": 1}', None),
        ('{"a": NaN}', None),
        ('{"a": -Infinity}', None),
        ('{"a": "NaN"}', "NaN"),
        ('{"a": {}}', None),
        ('{"a": 1, "a.x": 2}', "1"),
        ('{"a": "\\ud83d\\ude00"}', "😀"),
        ('{"a": "x\\ud83dy"}', "x\ufffdy"),
        ('{"a": "\\u0000"}', "\x00"),
        ('{"a": "line\u2028sep\x85"}', "line\u2028sep\x85"),
        ('  {"a": 1}\t', "1"),
    ],
)
def test_json_values_come_out_as_text(read: Read, line: str, a: str | None) -> None:
    found = read(line.encode(), JSONL)
    assert (found.records["a"].to_list(), found.rejected) == ([a], [])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"id": 1, "id": 2}', "the key 'id' stands twice"),
        ('{"o": {"k": 1, "k": 1}}', "the key 'k' stands twice"),
        ('["a"]', "this is a list"),
        ('"a"', "this is a str"),
        ("null", "this is a NoneType"),
        ('{"a": 1', "not valid JSON"),
        ('{"a": 1} {"a": 2}', "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
        ('{"a": ["x", {"y": 1}]}', "a is a list"),
        ('{"a": []}', "a is a list"),
        ('{"a": {"x": {"y": 1}}}', "a is an object"),
        ('{"o": {"k": 1}, "o.k": 2}', "two values stand at o.k"),
    ],
)
def test_a_line_that_is_no_object_is_rejected_and_the_next_is_read(read: Read, line: str, says: str) -> None:
    found = read(f'\n{line}\n{{"a": "next"}}\n'.encode(), JSONL)
    assert found.records["a"].to_list() == ["next"]
    (rejected,) = found.rejected
    assert (rejected.line_no, rejected.raw, rejected.reason) == (2, line, Rejection.MALFORMED_RECORD)
    assert says in rejected.detail


def test_nested_json_has_dotted_names_and_keeps_the_rest(read: Read) -> None:
    found = read(b'{"a": {"x": 1, "y": {"z": "deep"}}, "Name": "A", "name": "b"}\n', JSONL, fields="a.y.z name")
    assert found.records.select("a.y.z", "name").rows() == [("deep", "b")]
    assert json.loads(found.records[EXTRA][0]) == {"a.x": 1, "Name": "A"}
    assert found.columns == ["a.x", "a.y.z", "Name", "name"]


def test_a_key_that_appears_late_is_a_column_of_all(read: Read) -> None:
    found = read(b'{"a": 1}\n' * 100 + b'{"a": 2, "b": 5}\n', JSONL)
    assert found.records["b"].to_list() == [None] * 100 + ["5"]
    assert found.missing == []


def test_keys_with_lone_surrogates_can_be_written_down(read: Read) -> None:
    found = read(b'{"\\ud83d": "\\ud83d"}\n', JSONL)
    assert found.columns == ["\ufffd"]
    assert json.loads(found.records[EXTRA][0]) == {"\ufffd": "\ufffd"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**63 - 1, "9223372036854775807"),
        (1.5, "1.5"),
        (Decimal("1.10"), "1.10"),
        (True, "true"),
        (b"bytes", "bytes"),
        (b"\xff", "b'\\xff'"),
        (dt.date(2026, 9, 1), "2026-09-01"),
        (dt.datetime(2026, 9, 1, 10, tzinfo=dt.UTC), "2026-09-01T10:00:00.000000+00:00"),
        (dt.datetime(2026, 9, 1, 10), "2026-09-01T10:00:00.000000"),  # noqa: DTZ001
        (dt.time(10, 30), "10:30:00"),
        (dt.timedelta(days=1), "P1D"),
        ([1, 2], "[1,2]"),
        ([b"\xff"], "[b'\\xff']"),
        ({"x": "é"}, '{"x":"é"}'),
        (None, None),
    ],
)
def test_parquet_values_come_out_as_text(read_table: Read, value: Any, text: str | None) -> None:
    found = read_table(a=[value], c=[value])
    assert found.records.select(LINE_NO, "a", "b").rows() == [(1, text, None)]
    assert set(json.loads(found.records[RAW][0])) == {"a", "c"}
    assert set(json.loads(found.records[EXTRA][0])) == {"c"}
    assert found.missing == ["b"]


def test_parquet_columns_named_like_patterns_are_columns(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pl.DataFrame({"^a.*$": ["x"], "a": ["y"], "*": ["z"], "": ["w"]}).write_parquet(path)
    found = read_records(path, PARQUET, ["^a.*$", "*"])
    assert found.records.select(pl.nth(3, 4)).rows() == [("x", "z")]
    assert json.loads(found.records[EXTRA][0]) == {"a": "y", "": "w"}
    assert (found.missing, found.columns) == ([], ["^a.*$", "a", "*", ""])


def test_a_parquet_file_without_rows_lacks_nothing(read_table: Read) -> None:
    found = read_table(c=pl.Series([], dtype=pl.String))
    assert (found.records.height, found.missing, found.columns) == (0, [], ["c"])


@pytest.mark.parametrize("kept", [0, 4, 20, -1, -8])
def test_a_cut_parquet_file_is_one_rejection(tmp_path: Path, read: Read, kept: int) -> None:
    whole = tmp_path / "whole.parquet"
    pl.DataFrame({"a": ["x"] * 100}).write_parquet(whole)
    found = read(whole.read_bytes()[:kept], PARQUET)
    assert found.records.is_empty()
    assert [one.reason for one in found.rejected] == [Rejection.UNREADABLE_FILE]
    assert "not a complete Parquet file" in found.rejected[0].detail


@pytest.mark.parametrize("record_format", list(RecordFormat))
def test_a_file_that_is_not_there_is_an_error_of_the_user(tmp_path: Path, record_format: RecordFormat) -> None:
    with pytest.raises(ConfigurationError, match=r"nothing\.here cannot be read \(No such file"):
        read_records(tmp_path / "nothing.here", record_format, ["a"])


def test_an_unknown_encoding_is_an_error_of_the_user(read: Read) -> None:
    with pytest.raises(ConfigurationError, match="unknown encoding 'utf-9'"):
        read(b"a,b\n", encoding="utf-9")


ANY_BYTES = st.binary(max_size=200) | st.lists(
    st.sampled_from(b'a|b|,|"|\n|\r|\x00|\xff|{|}|"a":|\\ud83d|1|['.split(b"|")), max_size=40
).map(b"".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(content=ANY_BYTES, record_format=st.sampled_from([CSV, RecordFormat.TSV, JSONL]))
def test_no_bytes_raise_and_all_read_alike_twice(read: Read, content: bytes, record_format: RecordFormat) -> None:
    first, again = read(content, record_format), read(content, record_format)
    assert first.rejected == again.rejected
    assert first.records.equals(again.records)
    assert first.records.columns == [LINE_NO, RAW, EXTRA, "a", "b"]
    lines = [*first.records[LINE_NO], *(one.line_no for one in first.rejected)]
    assert len(set(lines)) == len(lines)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(content=st.binary(max_size=100), framed=st.booleans())
def test_no_bytes_named_parquet_raise(read: Read, content: bytes, framed: bool) -> None:
    found = read(b"PAR1" + content + b"PAR1" if framed else content, PARQUET)
    assert found.records.height + len(found.rejected) >= 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=2, max_size=2).filter(any),
        max_size=8,
    )
)
def test_what_a_csv_writer_writes_is_read_back(read: Read, rows: list[list[str]]) -> None:
    written = io.StringIO()
    csv.writer(written).writerows([["a", "b"], *rows])
    found = read(written.getvalue().encode())
    assert values(found) == [tuple(row) for row in rows]
    assert found.rejected == []
