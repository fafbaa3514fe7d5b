import datetime as dt
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resources.record_files import workbook
from resources.record_files.batches import EXTRA, LINE_NO, Dialect, RecordBatch, UnreadableFileError

DAY, MOMENT, TIME = "yyyy-mm-dd", "yyyy-mm-dd hh:mm", "hh:mm"


def written(sheets: dict[str, Sequence[Sequence[Any]]]) -> bytes:
    """A workbook; a cell is a value, or a value and the format that it has, or a formula and its result."""
    content = io.BytesIO()
    with xlsxwriter.Workbook(content, {"in_memory": True}) as book:
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            for row_no, row in enumerate(rows):
                for column_no, value in enumerate(row):
                    cell, form = value if isinstance(value, tuple) else (value, None)
                    if isinstance(cell, str) and cell.startswith("="):
                        sheet.write_formula(row_no, column_no, cell, None, form)
                    elif isinstance(cell, str):
                        sheet.write_string(row_no, column_no, cell)
                    elif cell is not None:
                        sheet.write(row_no, column_no, cell, book.add_format({"num_format": form or "General"}))
    return content.getvalue()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.xlsx"


def read(path: Path, fields: str = "a b", sheet: str | None = None) -> list[RecordBatch]:
    return list(workbook.read(path, fields.split(), Dialect(sheet=sheet)))


def read_one(path: Path, rows: Sequence[Sequence[Any]], fields: str = "a b") -> RecordBatch:
    path.write_bytes(written({"One": rows}))
    (batch,) = read(path, fields)
    return batch


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (5, "5"),
        (5.0, "5"),
        (-0.0, "0"),
        (4.1, "4.1"),
        (1 / 3, "0.3333333333333333"),
        (0.1, "0.1"),
        (123456789012345, "123456789012345"),
        (-999999999999999, "-999999999999999"),
        (1234567890123456, "1.23457E+15"),
        (12345678901234567890, "1.23457E+19"),
        (-1e20, "-1E+20"),
        ("00123", "00123"),
        ("1.50", "1.50"),
        ("12345678901234567890", "12345678901234567890"),
        ("true", "true"),
        ("1E400", "1E400"),
        ("NaN", "NaN"),
        ("2026-09-01T00:00:00", "2026-09-01T00:00:00"),
        (" x\n\ty ", " x\n\ty "),
        ("😀 é", "😀 é"),
        ("#N/A", "#N/A"),
        (True, "TRUE"),
        (False, "FALSE"),
        ((dt.datetime(2026, 9, 1), DAY), "2026-09-01"),  # noqa: DTZ001
        ((dt.datetime(2026, 9, 1, 10, 30), MOMENT), "2026-09-01T10:30:00"),  # noqa: DTZ001
        ((dt.datetime(2026, 9, 1, 10, 30, 1, 500_000), MOMENT), "2026-09-01T10:30:01.500"),  # noqa: DTZ001
        ((46266, DAY), "2026-09-01"),
        ((dt.time(10, 30), TIME), "10:30:00"),
        ((10**10, DAY), None),
        (("=1+1", 2), "2"),
        (('="x"', "x"), "x"),
        (("=1=1", True), "TRUE"),
        (("=NA()", "#N/A"), None),
        (("=1/0", "#DIV/0!"), None),
    ],
)
def test_cells_come_out_as_text(path: Path, cell: Any, text: str | None) -> None:
    found = read_one(path, [["a", "c"], [cell, cell]])
    assert found.records.rows() == [(2, json.dumps({"c": text}, ensure_ascii=False, separators=(",", ":")), text, None)]
    assert [json.loads(raw) for raw in found.raws([0])] == [{"a": text, "c": text}]
    assert (found.columns, found.rejected) == (["a", "c"], [])


def test_a_column_may_hold_everything(path: Path) -> None:
    cells = ["text", 5, 4.5, True, (dt.datetime(2026, 9, 1, 10), MOMENT), "5", None, 10**17]  # noqa: DTZ001
    found = read_one(path, [["a", "b"], *([cell, "."] for cell in cells)])
    assert found.records["a"].to_list() == [
        "text", "5", "4.5", "TRUE", "2026-09-01T10:00:00", "5", None, "1E+17"
    ]  # fmt: skip


def test_row_numbers_are_those_that_excel_shows(path: Path) -> None:
    found = read_one(
        path, [[], [None, None], [None, "a", None, "b"], [], [None, "x", None, 1], [None, None], [None, "y"]]
    )
    assert found.records.select(LINE_NO, "a", "b").rows() == [(5, "x", "1"), (7, "y", None)]
    assert [json.loads(raw) for raw in found.raws([1, 0])] == [{"a": "y", "b": None}, {"a": "x", "b": "1"}]


def test_a_row_of_errors_is_not_empty(path: Path) -> None:
    found = read_one(path, [["a"], [("=NA()", "#N/A")], [None], ["x"]])
    assert found.records.select(LINE_NO, "a").rows() == [(2, None), (4, "x")]


def test_other_columns_of_one_name_or_of_none_are_kept(path: Path) -> None:
    found = read_one(path, [["a", "c", None, "c", None, 2026], ["1", "2", "3", "4", None, "6"]])
    assert json.loads(found.records[EXTRA][0]) == {"c#2": "2", "#3": "3", "c#4": "4", "2026": "6"}
    assert found.columns == ["a", "c", "c", "2026"]


def test_a_column_asked_for_that_stands_twice_is_refused(path: Path) -> None:
    path.write_bytes(written({"One": [["a", "b", "a"], [1, 2, 3]]}))
    with pytest.raises(UnreadableFileError, match="the header names the column 'a' more than once"):
        read(path)
    assert read(path, "b")[0].records["b"].to_list() == ["2"]


def test_the_first_sheet_is_read_or_the_named_one(path: Path) -> None:
    path.write_bytes(written({"One": [["a"], ["1"]], "0": [["a"], ["2"]], "Empty": [], "Bare": [["a", "x"]]}))
    assert [read(path, sheet=name)[0].records["a"].to_list() for name in (None, "One", "0")] == [["1"], ["1"], ["2"]]
    assert read(path, sheet="Empty") == []
    (bare,) = read(path, sheet="Bare")
    assert (bare.records.height, bare.records.columns, bare.columns) == (0, [LINE_NO, EXTRA, "a", "b"], ["a", "x"])
    with pytest.raises(UnreadableFileError, match=r"no sheet 'Two' \(there are 'One', '0', 'Empty', 'Bare'\): set"):
        read(path, sheet="Two")


def test_a_large_sheet_comes_in_batches(path: Path) -> None:
    found = [["a", "c"], *([number, "é" * 1000] for number in range(15_000))]
    path.write_bytes(written({"One": found}))
    batches = read(path)
    assert len(batches) > 1
    assert [no for batch in batches for no in batch.records[LINE_NO]] == list(range(2, 15_002))
    assert [a for batch in batches for a in batch.records["a"]] == [str(number) for number in range(15_000)]
    assert json.loads(batches[-1].raws([batches[-1].records.height - 1])[0]) == {"a": "14999", "c": "é" * 1000}


def test_the_name_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert read_one(path, [["a"], ["1"]]).records["a"].to_list() == ["1"]


@pytest.mark.parametrize("kept", [0, 3, 4, 1000, -1, -22])
def test_a_file_that_was_cut_off_is_incomplete(path: Path, kept: int) -> None:
    path.write_bytes(written({"One": [["a"], ["1"]]})[:kept])
    with pytest.raises(UnreadableFileError, match="ends too soon") as refused:
        read(path)
    assert refused.value.incomplete


def empty_zip() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as parts:
        parts.writestr("note.txt", "no workbook")
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a,b\n1,2\n", "not an XLSX workbook, though its name says so"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 1000, "save it as XLSX, without a password"),
        (empty_zip(), "not a workbook that can be read"),
    ],
)
def test_what_is_no_workbook_is_unreadable(path: Path, content: bytes, says: str) -> None:
    path.write_bytes(content)
    with pytest.raises(UnreadableFileError, match=says) as refused:
        read(path)
    assert not refused.value.incomplete


def test_a_cell_in_the_farthest_corner_does_not_fill_the_memory(path: Path) -> None:
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet()
        sheet.write_string(0, 0, "a")
        sheet.write_string(1_048_575, 16_383, "stray")
    with pytest.raises(UnreadableFileError, match="reaches to cell XFD1048576, too far"):
        read(path)


def test_a_day_beyond_every_calendar_does_not_break_the_reader(path: Path) -> None:
    path.write_bytes(written({"One": [["a"], [(-1e15, DAY)]]}))
    with pytest.raises(UnreadableFileError, match="out of bounds"):
        read(path)


def test_a_file_that_is_not_there_is_told_apart(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(path)


def counted(path: Path) -> int | None:
    """How many rows are read; None where the file is refused."""
    try:
        return sum(batch.records.height for batch in read(path))
    except UnreadableFileError:
        return None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(content=st.binary(max_size=100), start=st.sampled_from([b"", b"PK\x03\x04", b"\xd0\xcf\x11\xe0"]))
def test_no_bytes_raise_anything_else(path: Path, content: bytes, start: bytes) -> None:
    path.write_bytes(start + content)
    assert counted(path) is None


WHOLE = written({"One": [["a", "b"], *([f"text {n}", n] for n in range(9)), [(46266, DAY)]], "Two": [["a"], [1.5]]})
with zipfile.ZipFile(io.BytesIO(WHOLE)) as _parts:
    PARTS = {name: _parts.read(name) for name in _parts.namelist()}
PLACES = st.floats(0, 1, exclude_max=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(changes=st.lists(st.tuples(PLACES, st.integers(0, 255)), max_size=4))
def test_no_damage_to_the_container_raises_anything_else(path: Path, changes: list[tuple[float, int]]) -> None:
    content = bytearray(WHOLE)
    for where, byte in changes:
        content[int(where * len(content))] = byte
    path.write_bytes(content)
    assert counted(path) in ({10} if content == WHOLE else {None, *range(11)})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(PARTS)),
    where=PLACES,
    length=st.integers(0, 30),
    instead=st.sampled_from([b"", b"9", b"<", b'"', b"&#x0;", b"\xff", b"</row>", b'<c r="D7"><v>1</v></c>']),
)
def test_no_damage_within_raises_anything_else(
    path: Path, name: str, where: float, length: int, instead: bytes
) -> None:
    content = PARTS[name]
    at = int(where * len(content))
    with zipfile.ZipFile(path, "w") as parts:
        for other, part in PARTS.items():
            parts.writestr(other, content[:at] + instead + content[at + length :] if other == name else part)
    assert counted(path) in {None, *range(1000)}
