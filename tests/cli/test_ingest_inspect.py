"""`feedback ingest --inspect`: what is proposed for a file, and keeping it in config/sources.yaml; nothing lands."""

import gzip
import json
import os
import shutil
from pathlib import Path

import polars as pl
import pytest
import yaml

SAMPLES = Path(__file__).parents[2] / "samples" / "landing" / "2026-09-01"

SPREADSHEET = (
    "sep=;\r\nBewertung;Kommentar;Datum;Nr\r\n4,5;Gut, danke schön;31.08.2026 10:00;A1\r\n"
    '1,0;"Nein;\nkaputt";01.09.2026 11:00;A2\r\n9,5;Na ja, geht so;02.09.2026 11:00;A3\r\n'
)
"""As a spreadsheet exports it; the last rating is beyond a scale that ends with 5."""


@pytest.fixture
def spreadsheet(tmp_path: Path) -> Path:
    file = tmp_path / "shop_kommentare_2026-09-01.csv"
    file.write_bytes(SPREADSHEET.encode("utf-16"))
    return file


@pytest.fixture
def inspected(feedback):
    """What is proposed for a file, as JSON."""

    def run(file: Path, *options: str) -> dict:
        result = feedback("ingest", file, "--inspect", "--format", "json", *options)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return run


@pytest.fixture
def config(project: Path) -> Path:
    return project / "config" / "sources.yaml"


def columns_of(found: dict) -> dict[str, str]:
    return {field_name: one["column"] for field_name, one in found["mapping"].items()}


class TestSpreadsheet:
    """UTF-16 with a byte order mark, CRLF, a first line `sep=;`, decimal commas."""

    def test_is_seen_through(self, inspected, spreadsheet: Path) -> None:
        found = inspected(spreadsheet)
        assert found["encoding"]["value"] == "utf-16"
        assert found["delimiter"]["value"] == ";"
        assert found["properties"]["decimal_mark"]["value"] == ","
        assert found["properties"]["time_format"]["value"] == "%d.%m.%Y %H:%M"
        assert columns_of(found) == {
            "text": "Kommentar",
            "source_record_id": "Nr",
            "created_at": "Datum",
            "rating": "Bewertung",
        }
        assert found["columns"][1] == {"name": "Kommentar", "example": "Gut, danke schön"}

    def test_is_told_in_words(self, feedback, spreadsheet: Path, project: Path) -> None:
        result = feedback("ingest", spreadsheet, "--inspect")
        assert result.exit_code == 0
        for words in ("utf-16", "byte order mark", "sep=;", "4,5", "Kommentar", "its name", "To decide", "time_zone"):
            assert words in result.stdout, words
        assert "Nothing was landed" in result.stderr
        assert not (project / "landing").exists()

    def test_can_be_kept_and_then_landed(self, feedback, inspected, spreadsheet: Path, config: Path) -> None:
        before = config.read_text()
        found = inspected(spreadsheet, "--save", "--set", "time_zone=Europe/Berlin", "--set", "rating_range=1..5")
        assert (found["saved"], found["quarantined"]) == (str(config), 1)
        assert config.read_text().startswith(before)
        assert yaml.safe_load(config.read_text())["sources"]["shop_kommentare"] == {
            "files": ["shop_kommentare*.csv"],
            "columns": {
                "text": "Kommentar",
                "source_record_id": "Nr",
                "created_at": "Datum",
                "rating": "Bewertung",
            },
            "encoding": "utf-16",
            "delimiter": ";",
            "decimal_mark": ",",
            "time_zone": "Europe/Berlin",
            "time_format": "%d.%m.%Y %H:%M",
        }
        landed = feedback("ingest", spreadsheet, "--partition", "2026-09-01", "--format", "json")
        assert landed.exit_code == 0, landed.stderr
        assert (json.loads(landed.stdout)[0]["source"], json.loads(landed.stdout)[0]["records"]) == (
            "shop_kommentare",
            3,
        )


class TestTrial:
    def test_shows_rows_as_a_run_would_load_them(self, inspected, spreadsheet: Path) -> None:
        found = inspected(spreadsheet, "--set", "time_zone=Europe/Berlin")
        assert (found["sampled"], found["quarantined"], len(found["rows"])) == (3, 0, 3)
        assert found["rows"][1] == {
            "created_at": "2026-09-01T09:00:00+00:00",
            "rating": 1.0,
            "text": "Nein;\nkaputt",
            "source_record_id": "A2",
            "author_id": None,
            "language": None,
            "channel": "unknown",
        }

    def test_shows_five(self, inspected, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("comment\n" + "Good thing\n" * 9)
        assert len(inspected(tmp_path / "a.csv")["rows"]) == 5

    def test_counts_what_would_be_quarantined_and_why(self, inspected, spreadsheet: Path, tmp_path: Path) -> None:
        spreadsheet.write_bytes((SPREADSHEET + "5,0;too few\r\n").encode("utf-16"))
        found = inspected(spreadsheet, "--set", "time_zone=UTC", "--set", "rating_range=1..5")
        assert (found["sampled"], found["quarantined"]) == (4, 2)
        assert [(one["reason"], one["records"], one["line"]) for one in found["reasons"]] == [
            ("bad_rating", 1, 6),
            ("wrong_field_count", 1, 7),
        ]
        assert "9,5" in found["reasons"][0]["detail"]

    def test_leaves_times_out_that_nobody_can_read_yet(self, inspected, spreadsheet: Path) -> None:
        found = inspected(spreadsheet)
        assert list(found["undecided"]) == ["time_zone"]
        assert found["quarantined"] == 3
        assert [row["text"] for row in found["rows"]][:1] == ["Gut, danke schön"]
        assert "created_at" not in found["rows"][0]

    def test_reads_no_more_than_a_sample(self, inspected, tmp_path: Path) -> None:
        lines = ["comment,stars"] + [f"Comment number {number},5" for number in range(3000)] + ["bad"]
        (tmp_path / "a.csv").write_text("\n".join(lines))
        found = inspected(tmp_path / "a.csv")
        assert (found["sampled"], found["quarantined"]) == (1000, 0)


class TestFormats:
    EXPECTED = {"text": "ticket.message.text", "source_record_id": "ticket.id", "created_at": "ticket.created"}  # noqa: RUF012

    @pytest.mark.parametrize("packed", [False, True])
    def test_json_lines(self, inspected, tmp_path: Path, packed: bool) -> None:
        content = (SAMPLES / "helpdesk_2026-09-01.jsonl").read_bytes()
        file = tmp_path / ("tickets.jsonl.gz" if packed else "tickets.jsonl")
        file.write_bytes(gzip.compress(content) if packed else content)
        found = inspected(file)
        assert found["compression"] == ("gz" if packed else None)
        assert self.EXPECTED.items() <= columns_of(found).items()
        assert found["quarantined"] == 0
        assert {"name": "tags", "example": None} in found["columns"]

    def test_json_document(self, inspected, tmp_path: Path) -> None:
        lines = (SAMPLES / "helpdesk_2026-09-01.jsonl").read_text().splitlines()
        file = tmp_path / "tickets.json"
        file.write_text('{"page": {"n": 1}, "data": {"tickets": [' + ",".join(lines) + "]}}")
        found = inspected(file)
        assert found["record_path"]["value"] == "data.tickets"
        assert self.EXPECTED.items() <= columns_of(found).items()
        assert found["source"]["entry"]["record_path"] == "data.tickets"
        assert found["quarantined"] == 0

    def test_parquet(self, inspected, tmp_path: Path) -> None:
        file = Path(shutil.copy(SAMPLES / "app_store_2026-09-01.parquet", tmp_path / "ratings.parquet"))
        found = inspected(file)
        assert columns_of(found) == {
            "text": "body",
            "source_record_id": "reviewId",
            "created_at": "at",
            "rating": "score",
            "author_id": "userName",
        }
        assert (found["encoding"], found["delimiter"], found["undecided"], found["quarantined"]) == (None, None, {}, 0)

    def test_tsv(self, inspected, tmp_path: Path) -> None:
        (tmp_path / "a.tsv").write_text("comment\tstars\nGood; really, good\t5\nBad thing\t1\n")
        found = inspected(tmp_path / "a.tsv")
        assert columns_of(found) == {"text": "comment", "rating": "stars"}
        assert "delimiter" not in found["source"]["entry"]

    def test_workbook(self, inspected, tmp_path: Path) -> None:
        import xlsxwriter

        with xlsxwriter.Workbook(tmp_path / "a.xlsx") as book:
            book.add_worksheet("Cover").write(0, 0, "Our reviews")
            sheet = book.add_worksheet("Reviews")
            for row, cells in enumerate([("Review", "Stars"), ("Good thing", 5), ("Bad thing", 1)]):
                sheet.write_row(row, 0, cells)
        found = inspected(tmp_path / "a.xlsx")
        assert (found["sheets"], found["sheet"]["value"]) == (["Cover", "Reviews"], "Reviews")
        assert columns_of(found) == {"text": "Review", "rating": "Stars"}
        assert [row["rating"] for row in found["rows"]] == [5, 1]

    def test_shipped_sources_are_found_out(self, inspected, config: Path) -> None:
        for name, source in yaml.safe_load(config.read_text())["sources"].items():
            [file] = SAMPLES.glob(f"{name}_*")
            assert columns_of(inspected(file)) == source["columns"]


class TestDecided:
    def test_columns_by_map(self, inspected, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("comment,internal\nGood thing,What we think\n")
        assert columns_of(inspected(tmp_path / "a.csv", "--map", "text=internal")) == {"text": "internal"}

    def test_the_order_of_day_and_month_by_set(self, inspected, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("comment,date\nGood thing,03/04/2026\n")
        assert "%d/%m/%Y or %m/%d/%Y" in inspected(tmp_path / "a.csv")["undecided"]["time_format"]
        found = inspected(tmp_path / "a.csv", "--set", "time_format=%m/%d/%Y", "--set", "time_zone=UTC")
        assert (found["undecided"], found["rows"][0]["created_at"]) == ({}, "2026-03-04T00:00:00+00:00")
        assert found["properties"]["time_format"] == {"value": "%m/%d/%Y", "why": "given"}

    def test_the_dialect_by_set(self, inspected, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_bytes("comment|note\nSchön; gut|x\n".encode("cp850"))
        found = inspected(tmp_path / "a.csv", "--set", "encoding=cp850", "--set", "delimiter=|")
        assert (found["rows"][0]["text"], found["encoding"]["why"]) == ("Schön; gut", "given")

    def test_units_of_numbers(self, inspected, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_text("comment,timestamp\nGood thing,1711848600000\n")
        found = inspected(tmp_path / "a.csv")
        assert found["properties"]["epoch_unit"]["value"] == "ms"
        assert found["rows"][0]["created_at"] == "2024-03-31T01:30:00+00:00"
        found = inspected(tmp_path / "a.csv", "--set", "epoch_unit=us")
        assert found["properties"]["epoch_unit"] == {"value": "us", "why": "given"}
        assert found["rows"][0]["created_at"].startswith("1970-01-20T")


def test_without_a_text_column_it_says_so(feedback, inspected, one_line, tmp_path: Path, config: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    before = config.read_text()
    found = inspected(tmp_path / "a.csv")
    assert (found["source"]["entry"], found["rows"]) == (None, [])
    assert "--map text=COLUMN" in found["notes"][-1]
    assert "--map text=COLUMN" in feedback("ingest", tmp_path / "a.csv", "--inspect").stdout
    one_line(feedback("ingest", tmp_path / "a.csv", "--inspect", "--save"), "a.csv", "--map text=COLUMN")
    assert config.read_text() == before


@pytest.mark.parametrize("content", ["", "\n", "comment,stars\n"])
def test_file_without_records(inspected, tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert inspected(tmp_path / "a.csv")["mapping"] == {}


def test_column_named_twice_is_noted(inspected, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("comment,note,note\nGood thing,x,y\n")
    found = inspected(tmp_path / "a.csv")
    assert any("'note' more than once" in note for note in found["notes"])
    assert columns_of(found) == {"text": "comment"}


def test_record_with_a_list_among_plain_ones_is_counted(inspected, tmp_path: Path) -> None:
    lines = ['{"text": "Good thing", "by": null}'] * 20 + ['{"text": ["a"], "by": {"id": "u1"}}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    found = inspected(tmp_path / "a.jsonl")
    assert columns_of(found)["text"] == "text"
    assert [(one["reason"], one["records"], one["line"]) for one in found["reasons"]] == [("malformed_record", 1, 21)]


class TestSave:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        file = tmp_path / "Umfrage Größe (3).csv"
        file.write_text("comment,stars\nGood thing,5\n")
        return file

    def test_names_the_source_after_the_file(self, feedback, file: Path, config: Path) -> None:
        result = feedback("ingest", file, "--inspect", "--save")
        assert "Saved as umfrage_grosse" in result.stderr
        assert yaml.safe_load(config.read_text())["sources"]["umfrage_grosse"]["files"] == ["Umfrage Größe*.csv"]
        assert feedback("ingest", file).exit_code == 0

    def test_or_as_one_says(self, feedback, file: Path, config: Path) -> None:
        assert feedback("ingest", file, "--inspect", "--save", "--source", "survey").exit_code == 0
        assert list(yaml.safe_load(config.read_text())["sources"])[-1] == "survey"

    def test_says_what_is_undecided_beside_the_entry(self, feedback, spreadsheet: Path, config: Path) -> None:
        assert feedback("ingest", spreadsheet, "--inspect", "--save").exit_code == 0
        assert config.read_text().splitlines()[-1].startswith("    # time_zone: ")
        assert feedback("ingest", spreadsheet).exit_code == 0

    def test_keeps_layout_mode_and_line_ends(self, feedback, file: Path, config: Path) -> None:
        before = "# Ours.\nsources:\n    # The first.\n    old: {files: [old.csv], columns: {text: a}}".replace(
            "\n", "\r\n"
        )
        config.write_bytes(before.encode())
        config.chmod(0o640)
        assert feedback("ingest", file, "--inspect", "--save", "--source", "survey").exit_code == 0
        after = config.read_bytes().decode()
        assert after.startswith(before)
        assert "\n    survey:\n      files: " in after
        assert config.stat().st_mode & 0o777 == 0o640
        assert [path.name for path in config.parent.glob("*sources*")] == ["sources.yaml"]

    def test_into_a_file_without_sources(self, feedback, file: Path, config: Path) -> None:
        config.write_text("sources:\n")
        refused = feedback("ingest", file, "--inspect", "--save")
        config.write_text("sources: {}\n")
        flow = feedback("ingest", file, "--inspect", "--save")
        assert (refused.exit_code, flow.exit_code) == (2, 2)
        assert "by hand" in flow.stderr
        assert config.read_text() == "sources: {}\n"

    def test_refuses_a_name_that_is_taken(self, feedback, file: Path, config: Path, one_line) -> None:
        before = config.read_bytes()
        one_line(
            feedback("ingest", file, "--inspect", "--save", "--source", "helpdesk"), "'helpdesk' already", "--source"
        )
        assert config.read_bytes() == before

    def test_refuses_a_file_that_has_a_source(self, feedback, reviews: Path, config: Path, one_line) -> None:
        before = config.read_bytes()
        one_line(feedback("ingest", reviews, "--inspect", "--save", "--source", "mine"), "'shop_reviews' already")
        assert config.read_bytes() == before

    def test_refuses_a_file_that_does_not_end_with_its_sources(
        self, feedback, file: Path, config: Path, one_line
    ) -> None:
        before = config.read_bytes() + b"...\n"
        config.write_bytes(before)
        one_line(feedback("ingest", file, "--inspect", "--save"), "sources.yaml", "by hand")
        assert config.read_bytes() == before

    def test_refuses_a_name_that_tells_none(self, feedback, tmp_path: Path, one_line) -> None:
        (tmp_path / "2026-09-01.csv").write_text("comment\nGood thing\n")
        one_line(feedback("ingest", tmp_path / "2026-09-01.csv", "--inspect", "--save"), "--source NAME")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_into_a_folder_that_may_not_be_written(self, feedback, file: Path, config: Path, one_line) -> None:
        config.parent.chmod(0o500)
        one_line(feedback("ingest", file, "--inspect", "--save"), "cannot be written", "allow writing")


class TestRefused:
    def test_a_file_that_is_not_what_its_name_says(self, feedback, tmp_path: Path, one_line) -> None:
        pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "a.csv")
        one_line(feedback("ingest", tmp_path / "a.csv", "--inspect"), "a.csv", "Parquet", "rename it to .parquet")

    def test_an_encoding_that_it_is_not_in(self, feedback, spreadsheet: Path, tmp_path: Path, one_line) -> None:
        (tmp_path / "a.csv").write_bytes("comment\nSchön\n".encode("cp1252"))
        one_line(feedback("ingest", tmp_path / "a.csv", "--inspect", "--set", "encoding=utf-8"), "is not utf-8")

    def test_a_column_that_is_not_there(self, feedback, spreadsheet: Path, one_line) -> None:
        one_line(feedback("ingest", spreadsheet, "--inspect", "--map", "text=Text"), "no column 'Text'", "'Kommentar'")

    def test_a_file_that_is_not_there(self, feedback, tmp_path: Path, one_line) -> None:
        one_line(feedback("ingest", tmp_path / "a.csv", "--inspect"), "does not exist")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--inspect", "--replace"), ("lands nothing",)),
            (("--inspect", "--partition", "2026-09-01"), ("lands nothing",)),
            (("--save",), ("--save goes with --inspect",)),
            (("--inspect", "--source", "No Name"), ("No Name", "lower-case")),
            (("--inspect", "--set", "time_zone=Mars"), ("Mars", "Europe/Berlin")),
            (("--inspect", "--set", "epoch_unit=h"), ("epoch_unit", "'ns'")),
            (("--inspect", "--set", "pull=x"), ("'pull' is none of", "record_path")),
            (("--inspect", "--set", "encoding=klingon"), ("klingon", "cp1252")),
            (("--inspect", "--set", "delimiter=;;"), ("delimiter",)),
            (("--inspect", "--map", "body=a"), ("'body'",)),
        ],
    )
    def test_options_that_make_no_sense(
        self, feedback, spreadsheet: Path, one_line, options: tuple[str, ...], words: tuple[str, ...]
    ) -> None:
        one_line(feedback("ingest", spreadsheet, *options), *words)

    def test_more_than_one_file(self, feedback, spreadsheet: Path, reviews: Path, tmp_path: Path, one_line) -> None:
        one_line(feedback("ingest", spreadsheet, reviews, "--inspect"), "one file")
        one_line(feedback("ingest", tmp_path, "--inspect"), "one file")
