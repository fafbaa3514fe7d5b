import datetime as dt
import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resources.record_files import parquet
from resources.record_files.batches import EXTRA, LINE_NO, Dialect, RecordBatch, UnreadableFileError


def read(path: Path, fields: str = "a b") -> list[RecordBatch]:
    return list(parquet.read(path, fields.split(), Dialect()))


ReadTable = Callable[..., RecordBatch]


@pytest.fixture
def read_table(tmp_path: Path) -> ReadTable:
    def from_columns(**columns: Any) -> RecordBatch:
        path = tmp_path / "file.parquet"
        pl.DataFrame(columns).write_parquet(path)
        (batch,) = read(path)
        return batch

    return from_columns


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**63 - 1, "9223372036854775807"),
        (1.5, "1.5"),
        (Decimal("1.10"), "1.10"),
        (True, "true"),
        (b"bytes", "bytes"),
        (b"\xff", "b'\\xff'"),
        ("00123", "00123"),
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
def test_values_come_out_as_text(read_table: ReadTable, value: Any, text: str | None) -> None:
    found = read_table(a=[value], c=[value])
    assert found.records.select(LINE_NO, "a", "b").rows() == [(1, text, None)]
    (raw,) = found.raws([0])
    assert set(json.loads(raw)) == {"a", "c"}
    assert set(json.loads(found.records[EXTRA][0])) == {"c"}
    assert (found.columns, found.rejected) == (["a", "c"], [])


def test_ids_are_one_text_whatever_their_type(read_table: ReadTable) -> None:
    numbers = read_table(a=pl.Series([17, None, 9_007_199_254_740_993], dtype=pl.Int64))
    texts = read_table(a=pl.Series(["17", None, "9007199254740993"]))
    assert numbers.records["a"].to_list() == texts.records["a"].to_list() == ["17", None, "9007199254740993"]


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(2**63 - 1, pl.Datetime("us")), (-(2**63), pl.Datetime("ms", "UTC")), (2**31 - 1, pl.Date)],
)
def test_a_moment_that_no_calendar_has_spoils_its_own_field_only(
    read_table: ReadTable, number: int, dtype: pl.DataType
) -> None:
    moments = pl.Series([number, 0, None], dtype=pl.Int32 if dtype == pl.Date else pl.Int64).cast(dtype)
    found = read_table(a=moments, c=moments)
    assert [text and text[:10] for text in found.records["a"]] == [str(number)[:10], "1970-01-01", None]
    assert json.loads(found.raws([0])[0]) == {"a": str(number), "c": str(number)}


def test_columns_named_like_patterns_are_columns(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pl.DataFrame({"^a.*$": ["x"], "a": ["y"], "*": ["z"], "": ["w"]}).write_parquet(path)
    (found,) = read(path, "^a.*$ *")
    assert found.records.select(pl.nth(2, 3)).rows() == [("x", "z")]
    assert json.loads(found.records[EXTRA][0]) == {"a": "y", "": "w"}
    assert found.columns == ["^a.*$", "a", "*", ""]


def test_a_file_without_rows_names_its_columns(read_table: ReadTable) -> None:
    found = read_table(c=pl.Series([], dtype=pl.String))
    assert (found.records.height, found.records.columns, found.columns) == (0, [LINE_NO, EXTRA, "a", "b"], ["c"])


def test_a_large_file_comes_in_batches_with_running_numbers(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    notes = [random.Random(number).randbytes(500).hex() for number in range(40_000)]
    pl.DataFrame({"a": range(40_000), "c": notes}).write_parquet(path, row_group_size=30_000)
    batches = read(path)
    assert len(batches) > 2
    assert [no for batch in batches for no in batch.records[LINE_NO]] == list(range(1, 40_001))
    assert [a for batch in batches for a in batch.records["a"]] == [str(number) for number in range(40_000)]
    last = batches[-1].records.height - 1
    assert [json.loads(raw) for raw in batches[-1].raws([last, 0])] == [
        {"a": number, "c": notes[number]} for number in (39_999, 39_999 - last)
    ]


@pytest.mark.parametrize("kept", [0, 2, 4, 20, -1, -8])
def test_a_file_that_was_cut_off_is_incomplete(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "file.parquet"
    pl.DataFrame({"a": ["x"] * 100}).write_parquet(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UnreadableFileError, match="ends too soon") as refused:
        read(path)
    assert refused.value.incomplete


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a,b\n1,2\n", "not a Parquet file, though its name says so"),
        (b"PAR1" + b"\x00" * 100 + b"PAR1", "not a Parquet file that can be read"),
    ],
)
def test_what_is_no_parquet_is_unreadable(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "file.parquet"
    path.write_bytes(content)
    with pytest.raises(UnreadableFileError, match=says) as refused:
        read(path)
    assert not refused.value.incomplete


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), path)
    with pytest.raises(UnreadableFileError, match="names the column 'a' more than once"):
        read(path)


def test_text_that_is_no_utf8_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    broken = pa.Array.from_buffers(pa.binary(), 1, pa.array([b"\xff\xfe"]).buffers()).view(pa.string())
    pq.write_table(pa.table({"a": broken}), path)
    with pytest.raises(UnreadableFileError, match="UTF8"):
        read(path)


def test_a_file_that_is_not_there_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing.parquet")


def counted(path: Path) -> int | None:
    """How many rows are read; None where the file is refused."""
    try:
        return sum(batch.records.height for batch in read(path))
    except UnreadableFileError:
        return None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(content=st.binary(max_size=100), framed=st.booleans())
def test_no_bytes_raise_anything_else(tmp_path: Path, content: bytes, framed: bool) -> None:
    path = tmp_path / "file.parquet"
    path.write_bytes(b"PAR1" + content + b"PAR1" if framed else content)
    assert counted(path) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4))
def test_no_damage_raises_anything_else(tmp_path: Path, changes: list[tuple[float, int]]) -> None:
    path = tmp_path / "file.parquet"
    moments = pl.Series([0] * 100, dtype=pl.Datetime("us"))
    pl.DataFrame({"a": ["text"] * 100, "b": range(100), "c": moments}).write_parquet(path, row_group_size=50)
    assert counted(path) == 100
    content = bytearray(path.read_bytes())
    for where, byte in changes:
        content[int(where * len(content))] = byte
    path.write_bytes(content)
    assert counted(path) in {None, *range(101)}
