import csv
import io
import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.record_files import delimited
from resources.record_files.batches import EXTRA, LINE_NO, Rejected, Rejection, UnreadableFileError
from tests.rfc4180 import rfc_4180

Row = tuple[str | None, ...]


@dataclass
class Read:
    """A file's records, put together from all batches."""

    lines: list[int] = field(default_factory=list)
    values: list[Row] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)
    raws: list[str] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)


def read(
    content: bytes,
    fields: str = "a b",
    *,
    encoding: str = "utf-8",
    delimiter: str = ",",
    batch_bytes: int = delimited.BATCH_BYTES,
) -> Read:
    whole = Read()
    names = fields.split()
    stream = io.BytesIO(content)
    for batch in delimited.read(stream, names, encoding=encoding, delimiter=delimiter, batch_bytes=batch_bytes):
        assert batch.records.columns == [LINE_NO, EXTRA, *names]
        whole.lines += batch.records[LINE_NO].to_list()
        whole.values += batch.records.select(names).rows()
        whole.extras += batch.records[EXTRA].to_list()
        whole.raws += batch.raws(range(batch.records.height))
        whole.rejected += batch.rejected
        whole.columns = list(batch.columns)
    return whole


@pytest.mark.parametrize(
    ("content", "how"),
    [
        (b"a,b\n1,x\n", {}),
        (b"a,b\r\n1,x\r\n", {}),
        (b"a,b\r1,x", {}),
        (b"\xef\xbb\xbfa,b\n1,x\n", {}),
        (b"\n\na,b\n\n1,x\n\n", {}),
        (b"b,a\nx,1\n", {}),
        (b'"a","b"\n"1","x"', {}),
        (b"a;b\n1;x\n", {"delimiter": ";"}),
        (b"a\tb\n1\tx\n", {"delimiter": "\t"}),
        ("a¦b\n1¦x\n".encode(), {"delimiter": "¦"}),
        (b"sep=;\r\na;b\r\n1;x\r\n", {}),
        (b"sep=\t\na\tb\n1\tx\n", {}),
        (b"\xef\xbb\xbfsep=;\na;b\n1;x\n", {"delimiter": ";"}),
        ("a,b\r\n1,x\r\n".encode("utf-16"), {}),
        ("a,b\r\n1,x\r\n".encode("utf-16"), {"encoding": "cp1252"}),
        ("\ufeffsep=;\r\na;b\r\n1;x\r\n".encode("utf-16-be"), {"encoding": "utf-16"}),
        ("a,b\r\n1,x\r\n".encode("utf-16-le"), {"encoding": "utf-16-le"}),
        ("a,b\r\n1,x\r\n".encode("utf-32"), {}),
    ],
)
@pytest.mark.parametrize("batch_bytes", [1, 7, 1000])
def test_the_same_table_in_many_dresses(content: bytes, how: dict[str, str], batch_bytes: int) -> None:
    found = read(content, batch_bytes=batch_bytes, **how)  # type: ignore[arg-type]
    assert found.values == [("1", "x")]
    assert (found.rejected, set(found.columns)) == ([], {"a", "b"})


def test_quoted_fields_hold_anything_and_lines_are_counted() -> None:
    found = read(b'a,b,c\n1,"x ""y"", z\n\n2",k\n3,\x00,\xc3\xa9\n')
    assert found.values == [("1", 'x "y", z\n\n2'), ("3", "\x00")]
    assert found.lines == [2, 5]
    assert found.raws == ['1,"x ""y"", z\n\n2",k', "3,\x00,é"]
    assert found.extras == ['{"c":"k"}', '{"c":"é"}']


def test_empty_fields_are_empty_not_missing() -> None:
    assert read(b'a,b\n,\n"",x\n').values == [("", ""), ("", "x")]


def test_an_unclosed_quote_gives_up_one_line_only() -> None:
    found = read(b'a,b\n1,"x\n2,y\n3,"z" z\n4,w\n')
    assert found.values == [("2", "y"), ("4", "w")]
    assert [(one.line_no, one.raw, one.reason) for one in found.rejected] == [
        (2, '1,"x', Rejection.MALFORMED_RECORD),
        (4, '3,"z" z', Rejection.MALFORMED_RECORD),
    ]


def test_thousands_of_broken_lines_are_each_given_up_alone() -> None:
    found = read(b"a,b\n" + b'1,"x" x\n2,y\n' * 5_000)
    assert found.lines == list(range(3, 10_002, 2))
    assert set(found.values) == {("2", "y")}
    assert [one.line_no for one in found.rejected] == list(range(2, 10_002, 2))
    assert {(one.raw, one.reason) for one in found.rejected} == {('1,"x" x', Rejection.MALFORMED_RECORD)}


def test_a_field_beyond_the_limit_is_an_unclosed_quote() -> None:
    found = read(b'a,b\n1,"' + b"x" * (1 << 20) + b'x"\n2,y\n')
    assert found.values == [("2", "y")]
    assert [(one.line_no, one.reason) for one in found.rejected] == [(2, Rejection.MALFORMED_RECORD)]
    within = read(b'a,b\n1,"' + b"x" * (1 << 20) + b'"\n2,y\n')
    assert [len(b or "") for _, b in within.values] == [1 << 20, 1]


@pytest.mark.parametrize("end", [b"\n3,y\n", b""])
def test_a_line_of_many_megabytes_is_given_up_as_one(end: bytes) -> None:
    long = b"1," + b"x" * (40 << 20) + b",tail"
    found = read(b"a,b\n0,w\n" + long + end)
    assert found.values == ([("0", "w"), ("3", "y")] if end else [("0", "w")])
    assert found.lines == ([2, 4] if end else [2])
    assert [(one.line_no, one.raw[:4], one.reason) for one in found.rejected] == [
        (3, "1,xx", Rejection.MALFORMED_RECORD)
    ]


def test_a_header_of_too_many_columns_is_none() -> None:
    with pytest.raises(UnreadableFileError, match="the header has 20,001 columns"):
        read(b"," * 20_000 + b"\n")


def test_a_quote_within_a_plain_field_is_a_character() -> None:
    found = read(b'a,b\n5"10\',x\n2,"y"\n')
    assert found.values == [("5\"10'", "x"), ("2", "y")]


def test_one_column_may_hold_what_separates_elsewhere() -> None:
    assert read(b"c0\nv0\na;b\n\n", "c0").values == [("v0",), ("a;b",)]


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf", b"\r\n\r\n", b"sep=,\n", b"x,y", b"x,y\n\n"])
def test_a_file_without_records_holds_nothing(content: bytes) -> None:
    found = read(content)
    assert (found.values, found.rejected) == ([], [])
    assert found.columns == (["x", "y"] if b"x" in content else [])


def test_columns_that_are_not_there_are_null() -> None:
    found = read(b"a,c\n1,2\n")
    assert (found.columns, found.values) == (["a", "c"], [("1", None)])


def test_other_columns_of_one_name_are_all_kept() -> None:
    found = read(b"a,b,c,,c,\n1,2,3,4,5,6\n")
    assert json.loads(found.extras[0]) == {"c#3": "3", "#4": "4", "c#5": "5", "#6": "6"}
    assert json.loads(read(b"a,c,c,c#2\nx,1,2,3\n").extras[0]) == {"c#2#": "1", "c#3": "2", "c#2": "3"}


@pytest.mark.parametrize(
    ("content", "how", "says"),
    [
        (b"a,b\n1,\x93\xe9\x85\x94\n", {}, "byte 6 is not utf-8: set the source's encoding"),
        (b"a,b\n1,\x81\n", {"encoding": "cp1252"}, "byte 6 is not cp1252"),
        ("a,b\r\n1,x".encode("utf-16")[:-1], {}, "byte 16 is not utf-16"),
        (b'a,"b\n1,2\n', {}, "the header is not valid CSV"),
        (b"a,b,a\n1,2,3\n", {}, "names the column 'a' more than once"),
    ],
)
@pytest.mark.parametrize("batch_bytes", [1, 5, 1000])
def test_a_file_that_cannot_be_understood_is_refused(
    content: bytes, how: dict[str, str], says: str, batch_bytes: int
) -> None:
    with pytest.raises(UnreadableFileError, match=says) as raised:
        read(content, batch_bytes=batch_bytes, **how)  # type: ignore[arg-type]
    assert not raised.value.incomplete


def test_the_declared_encoding_is_used() -> None:
    assert read(b"a,b\n1,\x93\xe9\x94\n", encoding="cp1252").values == [("1", "“é”")]


def test_an_encoding_that_can_spell_lone_surrogates_does_not_break() -> None:
    assert read(b"a,b\n1,+2D0-\n", encoding="utf-7").values == [("1", "\ufffd")]


@pytest.mark.parametrize(
    ("bad", "found"), [("1", 1), ('"1,2"', 1), ('"1""2"', 1), ("1,2,3", 3), ('1,"2",', 3), ("1,2,,,", 5)]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_one_record_of_too_few_or_many_fields_is_found_among_many(bad: str, found: int, end: str) -> None:
    good = ["5,6", '"x, ""y""","\r\n"', ',""', "é,é"]
    lines = ["a,b", *good * 50, bad, *good * 50, ""]
    whole = read(end.join(lines).encode())
    assert whole.values == [("5", "6"), ('x, "y"', "\r\n"), ("", ""), ("é", "é")] * 100
    assert [(one.line_no, one.raw, one.detail) for one in whole.rejected] == [
        (252, bad, f"2 fields declared, {found} found")
    ]
    assert whole.lines[-1] == 502


def test_a_lone_return_is_seen_in_a_block_that_is_cut_within_an_end_of_line() -> None:
    found = read(b"a,b\n\n1\r5,22\n3,4\r\n", batch_bytes=12)
    assert found.values == [("5", "22"), ("3", "4")]
    assert [(one.line_no, one.raw) for one in found.rejected] == [(3, "1")]


def test_a_short_record_is_not_hidden_by_a_long_one() -> None:
    found = read(b"a,b\n1,2\n3\n4,5,6\n7,8\n\n")
    assert found.values == [("1", "2"), ("7", "8")]
    assert [(one.line_no, one.reason) for one in found.rejected] == [
        (3, Rejection.WRONG_FIELD_COUNT),
        (4, Rejection.WRONG_FIELD_COUNT),
    ]


TOKENS = [
    b"a",
    b"1",
    b",",
    b",",
    b'"',
    b'"',
    b'""',
    b"\n",
    b"\n",
    b"\r\n",
    b"\r",
    b"\x00",
    "é😀".encode(),
    b" ",
    b'"x,y"',
]
HEADERS = [b"a,b\n", b"a,b,c\r\n", b"b\n", b"sep=,\na,b\n", b"\n\na,b\n", b""]


@given(
    header=st.sampled_from(HEADERS),
    tokens=st.lists(st.sampled_from(TOKENS), max_size=60),
    batch_bytes=st.integers(1, 40),
)
def test_the_quick_way_and_the_careful_one_give_the_same(header: bytes, tokens: list[bytes], batch_bytes: int) -> None:
    """A delimiter that is one byte is read the quick way where the quotes allow it; of two bytes, never."""
    content = header + b"".join(tokens)
    # The same text with another delimiter: `¦` nowhere else in it.
    other = content.decode().replace(",", "¦").encode()
    try:
        quick = read(content, batch_bytes=batch_bytes)
    except UnreadableFileError as error:
        with pytest.raises(UnreadableFileError, match="header"):
            read(other, delimiter="¦")
        assert "header" in error.detail
        return
    careful = read(other, delimiter="¦")

    def again(text: str | None) -> str | None:
        return text.replace("¦", ",") if text else text

    assert quick.values == [tuple(again(cell) for cell in row) for row in careful.values]
    assert (quick.lines, quick.raws) == (careful.lines, [again(raw) for raw in careful.raws])
    assert quick.extras == [again(extra) for extra in careful.extras]
    assert [(one.line_no, one.raw, one.reason) for one in quick.rejected] == [
        (one.line_no, again(one.raw), one.reason) for one in careful.rejected
    ]


@given(tokens=st.lists(st.sampled_from(TOKENS), max_size=60), batch_bytes=st.integers(1, 40))
def test_what_keeps_rfc_4180_is_read_by_its_letter(tokens: list[bytes], batch_bytes: int) -> None:
    body = b"".join(tokens)
    strict = rfc_4180(body.decode())
    found = read(b"a,b\n" + body, batch_bytes=batch_bytes)
    if strict is None:
        return
    # A line without anything is no record of ours.
    records = [record for record in strict if record != [""]]
    assert found.values == [tuple(record) for record in records if len(record) == 2]
    assert len(found.values) + len([one for one in found.rejected if one.raw != '""']) == len(records)


def test_the_strict_reader_is_one() -> None:
    assert rfc_4180('a,"b ""c"", d\r\n"\n1,,\r\n') == [["a", 'b "c", d\r\n'], ["1", "", ""]]
    for broken in ('a"b\n', '"a" b\n', '"a\n', "a\rb\n"):
        assert rfc_4180(broken) is None


@given(
    content=st.binary(max_size=200), encoding=st.sampled_from(["utf-8", "cp1252", "utf-16-le", "shift_jis", "latin-1"])
)
def test_no_bytes_raise_anything_else(content: bytes, encoding: str) -> None:
    try:
        found = read(content, encoding=encoding, batch_bytes=16)
    except UnreadableFileError:
        return
    lines = [*found.lines, *(one.line_no for one in found.rejected)]
    assert len(set(lines)) == len(lines)


@given(
    rows=st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=2, max_size=2).filter(any),
        max_size=8,
    )
)
def test_what_a_csv_writer_writes_is_read_back(rows: list[list[str]]) -> None:
    written = io.StringIO()
    csv.writer(written).writerows([["a", "b"], *rows])
    found = read(written.getvalue().encode(), batch_bytes=20)
    assert found.values == [tuple(row) for row in rows]
    assert found.rejected == []
