"""`feedback ingest`: what is landed where, and what is refused without landing anything."""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

SAMPLES = Path(__file__).parents[2] / "samples" / "landing"


def landed(project: Path) -> list[str]:
    root = project / "landing"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_lands_into_today_under_the_source_that_claims_the_name(project: Path, feedback, reviews: Path) -> None:
    before = datetime.now(UTC).date()
    result = feedback("ingest", reviews, "--format", "json")
    after = datetime.now(UTC).date()
    assert result.exit_code == 0
    [row] = json.loads(result.stdout)
    assert row["uri"] in {f"{day}/shop_reviews_1.csv" for day in (before, after)}
    assert row == {
        "uri": row["uri"],
        "source": "shop_reviews",
        "records": 3,
        "bytes": reviews.stat().st_size,
        "new": True,
    }
    assert landed(project) == [row["uri"]]


def test_landing_the_same_again_changes_nothing(project: Path, feedback, reviews: Path) -> None:
    day = ("--partition", "2026-09-01", "--format", "json")
    feedback("ingest", reviews, *day)
    stamp = (project / "landing/2026-09-01/shop_reviews_1.csv").stat().st_mtime_ns
    again = feedback("ingest", reviews, *day)
    assert json.loads(again.stdout)[0]["new"] is False
    assert (project / "landing/2026-09-01/shop_reviews_1.csv").stat().st_mtime_ns == stamp


def test_other_content_of_the_same_name_is_refused_unless_it_may_replace(
    project: Path, feedback, reviews: Path, tmp_path: Path, one_line
) -> None:
    day = ("--partition", "2026-09-01")
    assert feedback("ingest", reviews, *day).exit_code == 0
    place = project / "landing/2026-09-01/shop_reviews_1.csv"
    before = place.read_text()
    reviews.write_text(before.replace("broken", "whole"))
    beside = shutil.copy(reviews, tmp_path / "shop_reviews_2.csv")
    one_line(feedback("ingest", beside, reviews, *day), str(reviews), "rename this one", "--replace")
    assert (landed(project), place.read_text()) == (["2026-09-01/shop_reviews_1.csv"], before)
    result = feedback("ingest", reviews, *day, "--replace", "--format", "json")
    assert json.loads(result.stdout)[0]["new"] is True
    assert place.read_text() == reviews.read_text()


def test_table_names_the_next_command(feedback, reviews: Path) -> None:
    result = feedback("ingest", reviews)
    assert result.exit_code == 0
    assert "shop_reviews_1.csv" in result.stdout
    assert "feedback run" in result.stderr


def test_warns_where_many_records_will_be_dead_letters(feedback, reviews: Path) -> None:
    result = feedback("ingest", reviews)
    assert "1 of 3 records will be quarantined; line 4: 9 is no rating from 1 to 5" in result.stderr


def test_known_source_by_name(project: Path, feedback, reviews: Path, tmp_path: Path) -> None:
    other = shutil.copy(reviews, tmp_path / "export.csv")
    result = feedback("ingest", other, "--source", "shop_reviews", "--partition", "2026-09-01")
    assert result.exit_code == 0
    assert landed(project) == ["2026-09-01/shop_reviews/export.csv"]


def test_new_source_with_a_mapping_is_read_by_the_next_run(project: Path, feedback, tmp_path: Path) -> None:
    file = tmp_path / "notes.csv"
    file.write_text("Review;Date;Stars\nGood;2026-09-01 10:00;4\nBad;2026-09-01 11:00;8\n")
    result = feedback(
        "ingest", file, "--source", "notes", "--map", "text=Review", "--map", "created_at=Date",
        "--map", "rating=Stars", "--set", "time_zone=Europe/Berlin", "--set", "delimiter=;",
        "--set", "rating_range=1..10", "--partition", "2026-09-01",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert landed(project) == ["2026-09-01/notes/_source.yaml", "2026-09-01/notes/notes.csv"]
    assert feedback("run", "--select", "raw_feedback").exit_code == 0
    rows = json.loads(
        feedback(
            "query", "select source, text, rating, created_at from raw_feedback order by rating", "--format", "json"
        ).stdout
    )
    assert rows == [
        {"source": "notes", "text": "Good", "rating": 4.0, "created_at": "2026-09-01T08:00:00+00:00"},
        {"source": "notes", "text": "Bad", "rating": 8.0, "created_at": "2026-09-01T09:00:00+00:00"},
    ]


def test_mapping_of_json_needs_the_text_only(feedback, tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text('{"body": {"text": "Good"}}\n')
    mapping = ("--map", "text=body.text", "--map", "rating=stars")
    assert feedback("ingest", file, "--source", "notes", *mapping).exit_code == 0


def test_two_files_of_one_mapping_share_its_note(project: Path, feedback, tmp_path: Path, one_line) -> None:
    mapping = ("--source", "notes", "--map", "text=Review", "--partition", "2026-09-01")
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("Review,Text\nGood,Fine\n")
        assert feedback("ingest", tmp_path / name, *mapping).exit_code == 0
    (tmp_path / "c.csv").write_text("Review,Text\nGood,Fine\n")
    other = ("--source", "notes", "--map", "text=Text", "--partition", "2026-09-01")
    one_line(feedback("ingest", tmp_path / "c.csv", *other), "a.csv", "other columns", "--source")
    assert "2026-09-01/notes/c.csv" not in landed(project)
    assert feedback(
        "ingest", tmp_path / "c.csv", "--source", "notes", "--partition", "2026-09-01"
    ).exit_code == 0  # fmt: skip


def test_folder_of_days_lands_every_file_under_its_day(project: Path, feedback) -> None:
    result = feedback("ingest", SAMPLES, "--format", "json")
    assert result.exit_code == 0
    expected = sorted(str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*") if path.is_file())
    assert sorted(row["uri"] for row in json.loads(result.stdout)) == expected
    assert landed(project) == expected


def test_empty_file_is_a_warning(feedback, tmp_path: Path) -> None:
    (tmp_path / "shop_reviews_empty.csv").touch()
    (tmp_path / "helpdesk_empty.jsonl").touch()
    result = feedback("ingest", tmp_path / "shop_reviews_empty.csv", tmp_path / "helpdesk_empty.jsonl")
    assert result.exit_code == 0
    assert result.stderr.count("holds no records") == 2


class TestRefused:
    """Every refusal names the file and what to do, and lands nothing, not even the sound file beside it."""

    @pytest.fixture
    def refused(self, project: Path, feedback, reviews: Path, one_line):
        def check(file: Path, *words: str, options: tuple[str, ...] = ()) -> None:
            one_line(feedback("ingest", reviews, file, *options), file.name, *words)
            assert landed(project) == []

        return check

    def test_missing_column(self, tmp_path: Path, refused) -> None:
        file = tmp_path / "shop_reviews_2.csv"
        file.write_text("Order Nr.,Text\n1,Good\n")
        refused(file, "'Review Text (full)'", "found: 'Order Nr.', 'Text'", "--map")

    def test_missing_column_of_a_file_without_records(self, tmp_path: Path, refused) -> None:
        file = tmp_path / "shop_reviews_2.csv"
        file.write_text("Order Nr.,Text\n")
        refused(file, "'Review Text (full)'")

    def test_missing_column_in_parquet(self, tmp_path: Path, refused) -> None:
        file = tmp_path / "app_store_2.parquet"
        pl.DataFrame({"reviewId": ["1"]}).write_parquet(file)
        refused(file, "'body'")

    def test_missing_path_in_json(self, tmp_path: Path, refused) -> None:
        file = tmp_path / "helpdesk_2.jsonl"
        file.write_text('{"ticket": {"id": "1"}}\n')
        refused(file, "'ticket.message.text'", "ticket.id")

    def test_absent_file(self, tmp_path: Path, refused) -> None:
        refused(tmp_path / "shop_reviews_2.csv", "does not exist")

    def test_no_parquet(self, tmp_path: Path, refused) -> None:
        file = tmp_path / "app_store_2.parquet"
        file.write_bytes(b"PAR1 and then nothing")
        refused(file, "Parquet file ends too soon", "export the file again")

    def test_other_encoding(self, tmp_path: Path, refused) -> None:
        file = tmp_path / "shop_reviews_2.csv"
        file.write_bytes("Schöner Stuhl".encode("cp1252"))
        refused(file, "encoding")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_file_that_may_not_be_read(self, tmp_path: Path, refused) -> None:
        file = tmp_path / "shop_reviews_2.csv"
        file.write_text("Order Nr.\n")
        file.chmod(0)
        refused(file, "cannot be read", "allow reading")

    def test_unknown_suffix(self, tmp_path: Path, refused) -> None:
        file = tmp_path / "export.ods"
        file.touch()
        refused(file, ".ods", ".csv", ".xlsx", options=("--source", "shop_reviews"))

    def test_unclaimed_name(self, tmp_path: Path, refused) -> None:
        file = tmp_path / "export.csv"
        file.touch()
        refused(file, "shop_reviews, helpdesk, app_store", "--source", "--map")

    def test_unfinished_name(self, tmp_path: Path, refused) -> None:
        file = tmp_path / "_shop_reviews.csv"
        file.write_text("a\n1\n")
        mapping = ("--source", "notes", "--map", "text=a")
        (tmp_path / "shop_reviews_1.csv").write_text("a\n1\n")
        refused(file, "rename", options=mapping)

    def test_two_files_of_one_name(self, tmp_path: Path, reviews: Path, refused) -> None:
        (tmp_path / "other").mkdir()
        refused(shutil.copy(reviews, tmp_path / "other" / reviews.name), "two files", "rename")

    def test_folder_without_days(self, tmp_path: Path, refused) -> None:
        (tmp_path / "folder").mkdir()
        refused(tmp_path / "folder", "YYYY-MM-DD")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--source", "nobody"), ("nobody", "known: shop_reviews", "--map")),
        (("--map", "text=a"), ("--source NAME",)),
        (("--source", "notes", "--map", "rating=a"), ("text=COLUMN",)),
        (("--source", "notes", "--map", "body=a"), ("'body'", "source_record_id")),
        (("--source", "notes", "--map", "text"), ("NAME=VALUE",)),
        (("--source", "notes", "--map", "text=a", "--map", "text=b"), ("twice",)),
        (("--source", "No Tes", "--map", "text=a"), ("No Tes", "lower-case")),
        (("--source", "../x", "--map", "text=a"), ("../x", "lower-case")),
        (("--source", "notes", "--map", "text=a", "--set", "time_zone=Mars"), ("Mars", "Europe/Berlin")),
        (("--source", "notes", "--set", "time_zone=UTC"), ("--set goes with --map",)),
        (("--partition", "2024-01-01"), ("unknown partition 2024-01-01", "2025-01-01")),
        (("--partition", "yesterday"), ("yesterday", "YYYY-MM-DD")),
    ],
)
def test_options_that_make_no_sense(
    project: Path, feedback, reviews: Path, one_line, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    one_line(feedback("ingest", reviews, *options), *words)
    assert not (project / "landing").exists()


def test_landing_zone_that_cannot_be_written(project: Path, feedback, reviews: Path, one_line) -> None:
    (project / "landing").write_text("a file in the way")
    one_line(feedback("ingest", reviews), "landing", "is a file where a folder has to be")


def test_no_files_at_all(feedback, one_line) -> None:
    one_line(feedback("ingest"), "FILE", "--help")
