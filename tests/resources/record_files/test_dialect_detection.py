"""What the first bytes of a file tell of how it was written, and what they leave open."""

import gzip
import json
from pathlib import Path

import pytest

from resources.record_files.batches import Dialect, FileKind, UnreadableFileError
from resources.record_files.dialect_detection import SAMPLE_BYTES, DetectedDialect, detect_dialect

GERMAN = "Bewertung;Kommentar\n4,5;Schöner Stuhl, größer als gedacht\n1,0;Der Stuhl kam beschädigt an, sehr ärgerlich\n"

RECORD = {"id": 1, "tags": [{"x": 1}, {"x": 2}]}


def detected(path: Path, content: bytes | str) -> DetectedDialect:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    kind = FileKind.of(path.name)
    assert kind is not None
    return detect_dialect(path, kind)


class TestEncoding:
    @pytest.mark.parametrize(
        ("content", "name", "is_sure"),
        [
            (b"\xef\xbb\xbf" + GERMAN.encode(), "utf-8", True),
            (GERMAN.encode("utf-16"), "utf-16", True),
            (b"\xfe\xff" + GERMAN.encode("utf-16-be"), "utf-16", True),
            (GERMAN.encode("utf-32"), "utf-32", True),
            (GERMAN.encode("utf-16-le"), "utf-16-le", False),
            (GERMAN.encode("utf-16-be"), "utf-16-be", False),
            (GERMAN.encode(), "utf-8", True),
            (b"a,b\n1,2\n", "utf-8", True),
            (b"", "utf-8", True),
            (GERMAN.encode("cp1252"), "cp1252", False),
            ("Стул пришёл сломанным, очень плохо\nСпасибо, всё хорошо\n".encode("cp1251"), "cp1251", False),
            ("text\nκαρέκλα ήρθε σπασμένη, πολύ κακό\n".encode("cp1253"), "cp1253", False),
            ("text\n椅子到货时已经坏了，非常失望\n".encode("gb18030"), "gb18030", False),
        ],
    )
    def test_is_one_that_reads_the_file(self, tmp_path: Path, content: bytes, name: str, is_sure: bool) -> None:
        found = detected(tmp_path / "a.csv", content).encoding
        assert found is not None
        assert (found.value, found.is_sure) == (name, is_sure)
        content.decode(found.value)

    def test_a_guess_shows_what_it_reads(self, tmp_path: Path) -> None:
        found = detected(tmp_path / "a.csv", GERMAN.encode("cp1252")).encoding
        assert found is not None
        assert "guess" in found.why
        assert "Schöner" in found.why

    def test_text_cut_within_a_character_is_still_utf_8(self, tmp_path: Path) -> None:
        content = b"text\n" + b"x" * (SAMPLE_BYTES - 6) + "ä\n".encode()
        found = detected(tmp_path / "a.csv", content).encoding
        assert found is not None
        assert (found.value, found.is_sure) == ("utf-8", False)
        assert "first MiB" in found.why

    def test_a_file_cut_within_a_character_is_not(self, tmp_path: Path) -> None:
        found = detected(tmp_path / "a.csv", "text\nä".encode()[:-1]).encoding
        assert found is not None
        assert found.value != "utf-8"

    def test_one_that_is_given_is_not_looked_for(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_bytes(GERMAN.encode("cp1252"))
        found = detect_dialect(path, FileKind.of("a.csv"), encoding="cp850")
        assert found.dialect.encoding == "cp850"
        with pytest.raises(UnreadableFileError, match="is not ascii: set the source's encoding"):
            detect_dialect(path, FileKind.of("a.csv"), encoding="ascii")


class TestDelimiter:
    @pytest.mark.parametrize(
        ("content", "delimiter"),
        [
            ("a,b\n1,2\n", ","),
            (GERMAN, ";"),
            ("a\tb\nx, y; z\t2\n", "\t"),
            ("a|b|c\n1|2|3\n", "|"),
            ('a;b\n"one, two;\nthree";2\n"x ""y"", z";3\n', ";"),
            ("sep=;\nx,y\n1,2\n", ";"),
            ("sep=\t\r\nx\r\n", "\t"),
            ("sep=^\na^b\n1^2\n", "^"),
            ("a;b\n" + "1;2\n" * 50 + "1;2;3\n", ";"),
            ('a;b\n"never closed;1\n' + "x;2\n" * 20, ";"),
            ("text;stars\n", ";"),
        ],
    )
    def test_is_the_one_that_makes_a_table(self, tmp_path: Path, content: str, delimiter: str) -> None:
        found = detected(tmp_path / "a.csv", content)
        assert found.dialect.delimiter == delimiter

    def test_says_how_it_knows(self, tmp_path: Path) -> None:
        one = detected(tmp_path / "a.csv", "sep=;\r\na;b\r\n").delimiter
        other = detected(tmp_path / "b.csv", "a;b\n" + "1;2\n" * 50 + "1;2;3\n").delimiter
        assert one is not None
        assert other is not None
        assert "sep=;" in one.why
        assert "50 of 51 records" in other.why
        assert "2 fields" in other.why

    def test_of_a_single_column_does_not_split_its_text(self, tmp_path: Path) -> None:
        found = detected(tmp_path / "a.csv", "Review\nGood, really\nBad, so, sad; no\nFine\n").delimiter
        assert found is not None
        assert found.value not in {",", ";"}
        assert not found.is_sure

    def test_none_in_tsv(self, tmp_path: Path) -> None:
        assert detected(tmp_path / "a.tsv", "a\tb\n").delimiter is None

    def test_survives_an_empty_file(self, tmp_path: Path) -> None:
        assert detected(tmp_path / "a.csv", "").dialect == Dialect()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("4;Good;2026-09-01\n5;Bad;2026-09-02\n", "looks like a record"),
        ("Report of 2026\n\na;b;c\n1;2;3\n4;5;6\n", "header seems to stand in line 3"),
        ("a;b\n1;2\n", ""),
        ("Review\nGood\nBad\nFine\n", ""),
    ],
)
def test_a_header_that_is_none_is_noted(tmp_path: Path, content: str, says: str) -> None:
    notes = detected(tmp_path / "a.csv", content).notes
    assert (says in notes[0]) if says else not notes


class TestRecordPath:
    @pytest.mark.parametrize(
        ("document", "path"),
        [
            ([RECORD] * 3, None),
            ({"data": [RECORD] * 3}, "data"),
            ({"meta": {"links": [{"a": 1}]}, "data": {"items": [RECORD] * 3, "n": 3}}, "data.items"),
            ({"data": [1, 2, 3]}, None),
            ({"data": []}, None),
            ({}, None),
        ],
    )
    def test_leads_to_the_array_of_records(self, tmp_path: Path, document: object, path: str | None) -> None:
        found = detected(tmp_path / "a.json", json.dumps(document, indent=1))
        assert found.dialect.record_path == path

    def test_is_found_in_the_beginning_of_a_long_file(self, tmp_path: Path) -> None:
        document = {"n": 1, "data": [{"text": "x" * 1000}] * (SAMPLE_BYTES // 500)}
        assert detected(tmp_path / "a.json", json.dumps(document)).dialect.record_path == "data"

    def test_other_arrays_are_named(self, tmp_path: Path) -> None:
        found = detected(tmp_path / "a.json", json.dumps({"links": [{"a": 1}], "data": [RECORD] * 3})).record_path
        assert found is not None
        assert "'links'" in found.why
        assert not found.is_sure

    def test_records_one_after_another_are_no_array(self, tmp_path: Path) -> None:
        assert detected(tmp_path / "a.json", '{"items": [{"a": 1}]}\n{"items": []}\n').record_path is None

    @pytest.mark.parametrize("content", ["no JSON", '{"a": [{', "", '{"a"', "[" * 100_000])
    def test_broken_text_tells_nothing_and_breaks_nothing(self, tmp_path: Path, content: str) -> None:
        assert detected(tmp_path / "a.json", content).dialect.record_path in {None, "a"}


class TestSheets:
    @pytest.fixture
    def book(self, tmp_path: Path) -> Path:
        import xlsxwriter

        path = tmp_path / "a.xlsx"
        with xlsxwriter.Workbook(path) as book:
            book.add_worksheet("Cover").write(0, 0, "Export")
            sheet = book.add_worksheet("Reviews")
            for row, cells in enumerate([("Review", "Stars"), ("Good", 5)]):
                sheet.write_row(row, 0, cells)
            book.add_worksheet("Notes").write_column(0, 0, ["a", "b"])
        return path

    def test_the_first_with_records_is_suggested(self, book: Path) -> None:
        found = detect_dialect(book, FileKind.of(book.name))
        assert found.dialect.sheet == "Reviews"
        assert found.sheets == ["Cover", "Reviews", "Notes"]

    def test_in_a_compressed_file_too(self, book: Path) -> None:
        packed = book.with_name("a.xlsx.gz")
        packed.write_bytes(gzip.compress(book.read_bytes()))
        assert detect_dialect(packed, FileKind.of(packed.name)).dialect.sheet == "Reviews"

    def test_what_is_no_workbook_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableFileError, match="not a complete Excel file"):
            detected(tmp_path / "b.xlsx", b"PK\x03\x04 and no more")


def test_compressed_text_is_looked_into(tmp_path: Path) -> None:
    found = detected(tmp_path / "a.csv.gz", gzip.compress(GERMAN.encode("utf-16")))
    assert found.dialect == Dialect(encoding="utf-16", delimiter=";")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", b"PK\x03\x04....", "Excel or zip file.*rename it to .xlsx"),
        ("a.csv", gzip.compress(b"a"), "gzip file.*ends with .csv.*.gz"),
        ("a.csv.gz", b"\x28\xb5\x2f\xfd....", "zstd file.*ends with .gz"),
        ("a.jsonl", b"PAR1\x15\x04", "Parquet file"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    with pytest.raises(UnreadableFileError, match=says):
        detected(tmp_path / name, content)


def test_only_the_beginning_is_read(tmp_path: Path) -> None:
    content = b"text\n" + b"good\n" * (SAMPLE_BYTES // 5) + "schön\n".encode("cp1252")
    found = detected(tmp_path / "a.csv", content).encoding
    assert found is not None
    assert (found.value, found.is_sure) == ("utf-8", False)
