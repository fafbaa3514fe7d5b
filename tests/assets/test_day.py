"""A whole day through every asset, on a real server."""

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from platform_assets.domain.raw_feedback import sendable
from platform_assets.domain.tables import TABLES
from platform_assets.jobs import DAY_ASSETS
from platform_assets.landed_sources import note_uri
from resources.model_repository import ModelRepository
from tests.project import Project, failed_checks, failure_line, materialized

pytestmark = pytest.mark.integration

SERVED_MODELS = dg.AssetKey("served_models")  # of no day
DAY, OTHER = date(2026, 9, 1), date(2026, 9, 5)
CSV_HEADER = "Order Nr.,Review Text (full),Date/Time,Stars (1-5),Customer #,Lang\n"
GOOD = CSV_HEADER + (
    "0001,The lamp is broken and I hate it,2026-09-01 10:00,1,C1,en\n0002,I love this chair,2026-09-01 11:00,5,C2,en\n"
)


def data_of(project: Project, day: date) -> dict[str, pl.DataFrame]:
    return {table: project.rows(table, day) for table in DAY_ASSETS}


@pytest.mark.parametrize("day", [DAY, OTHER])
def test_records_are_conserved_at_every_step(two_days: Project, day: date) -> None:
    tables = data_of(two_days, day)
    ledger, raw = tables["landed_files"], tables["raw_feedback"]
    assert ledger.height == len(two_days.landing.files(day))
    assert ledger["records"].sum() == raw.height + tables["quarantined_feedback"].height > 0
    assert ledger["loaded"].sum() == raw.height
    assert ledger["quarantined"].sum() == tables["quarantined_feedback"].height
    for table in ("feedback_embeddings", "anomaly_scores", "normalized_feedback"):
        assert tables[table]["feedback_id"].to_list() == raw["feedback_id"].to_list()
    assert tables["daily_summary"]["volume"].sum() == raw.height
    for table, rows in tables.items():
        assert dict(rows.schema) == TABLES[table]


@pytest.mark.parametrize("day", [DAY, OTHER])
def test_every_readable_text_has_a_vector_that_says_its_model(two_days: Project, day: date) -> None:
    raw, vectors = two_days.rows("raw_feedback", day), two_days.rows("feedback_embeddings", day)
    readable = raw.select(sendable()).to_series()
    assert (vectors["status"] == "ok").to_list() == readable.to_list()
    assert vectors.filter(readable)["embedding"].list.len().unique().to_list() == [384]
    assert vectors["model_name"].unique().to_list() == ["text_embedder"]
    assert vectors["model_version"].unique().to_list() == [two_days.triton.metadata("text_embedder").version]
    assert (vectors.filter(readable)["token_count"] >= 3).all()
    card = ModelRepository(Path(two_days.triton.repository)).card("text_embedder", int(vectors["model_version"][0]))
    assert vectors["model_hash"].unique().to_list() == [card.files["model.cpu.onnx"][:16]]


def test_all_blocking_checks_pass_and_each_check_gave_a_result(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", GOOD)
    run = project.run(DAY)
    assert run.success
    results = run.get_asset_check_evaluations()
    everyday = {
        key for key in project.definitions.resolve_asset_graph().asset_check_keys if key.asset_key != SERVED_MODELS
    }
    assert {one.asset_check_key for one in results} == everyday
    assert failed_checks(run) == []
    assert all(one.partition == str(DAY) for one in results)


def test_a_second_run_gives_the_same_data(two_days: Project) -> None:
    before = data_of(two_days, DAY)
    assert two_days.run(DAY).success
    for table, rows in data_of(two_days, DAY).items():
        assert_frame_equal(rows, before[table], abs_tol=1e-6)


def test_without_an_anomaly_model_scores_are_null_and_the_day_is_whole(two_days: Project) -> None:
    scores = two_days.rows("anomaly_scores", DAY)
    assert scores.height > 0
    for column in ("score", "threshold", "is_anomaly", "nearest_feedback_id", "model_version"):
        assert scores[column].null_count() == scores.height


def test_changed_content_replaces_what_the_file_brought(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", GOOD)
    project.land(OTHER, "shop_reviews_2.csv", GOOD.replace("000", "100"))
    assert project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files").success
    assert project.run(OTHER, "raw_feedback", "quarantined_feedback", "landed_files").success
    other = project.rows("raw_feedback", OTHER)
    first_seen = project.rows("landed_files", DAY)["landed_at"].item()
    project.land(DAY, "shop_reviews_1.csv", GOOD.replace("0002,", "0003,").replace("love", "adore"))
    assert project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files").success
    raw = project.rows("raw_feedback", DAY)
    assert sorted(raw["source_record_id"]) == ["0001", "0003"]
    assert "I adore this chair" in raw["text"].to_list()
    assert project.rows("landed_files", DAY)["landed_at"].item() >= first_seen
    assert_frame_equal(project.rows("raw_feedback", OTHER), other)


def test_landing_the_same_content_again_changes_nothing(project: Project) -> None:
    landed = project.land(DAY, "shop_reviews_1.csv", GOOD)
    project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files")
    before = data_of_ingestion(project)
    assert project.land(DAY, "shop_reviews_1.csv", GOOD) == landed
    project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files")
    for rows, then in zip(data_of_ingestion(project), before, strict=True):
        assert_frame_equal(rows, then)
    # Only the ledger knows that the file was touched.
    os.utime(project.path_of(landed), (2_000_000_000, 2_000_000_000))
    project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files")
    before[-1] = before[-1].with_columns(modified_at=pl.lit(datetime.fromtimestamp(2_000_000_000, UTC)))
    for rows, then in zip(data_of_ingestion(project), before, strict=True):
        assert_frame_equal(rows, then)


@pytest.mark.parametrize("read_before", [True, False])
def test_of_records_with_one_id_the_last_that_landed_wins(project: Project, read_before: bool) -> None:
    """In the order of reading; of files that were read together, in that of their time stamps."""
    first = project.land(DAY, "shop_reviews_b.csv", GOOD)
    if read_before:
        project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files")
    correction = project.land(DAY, "shop_reviews_a.csv", GOOD.replace("love", "adore"))
    older = (first.modified_at - timedelta(days=1)).timestamp()
    os.utime(project.path_of(correction), (older, older))
    assert project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files").success
    winner = "shop_reviews_a.csv" if read_before else "shop_reviews_b.csv"
    raw, letters = project.rows("raw_feedback", DAY), project.rows("quarantined_feedback", DAY)
    assert raw["file_uri"].unique().to_list() == [f"{DAY}/{winner}"]
    assert letters["reason"].to_list() == ["superseded"] * 2
    assert all(f"{winner} line" in detail for detail in letters["detail"])


def test_a_rating_is_read_by_the_range_that_landed_with_its_file(project: Project) -> None:
    note = "columns: {text: answer, rating: points}\nrating_range: [0, 10]\n"
    project.landing.write_text(note_uri(DAY, "survey"), note)
    outside = project.root / "answers.csv"
    outside.write_text("answer,points\nDer Stuhl steht in der Küche und die Lampe steht daneben,5\n")
    project.landing.land(outside, DAY, "survey")
    assert project.run(DAY).success
    row = project.rows("normalized_feedback", DAY).row(0, named=True)
    assert (row["language"], row["sentiment"], row["sentiment_score"]) == ("de", "neutral", 0.0)


def data_of_ingestion(project: Project) -> list[pl.DataFrame]:
    return [project.rows(table, DAY) for table in ("raw_feedback", "quarantined_feedback", "landed_files")]


@pytest.mark.parametrize(
    ("name", "content", "reason", "letters", "says"),
    [
        ("shop_reviews_x.csv", "Order Nr.,Text\n1,a\n2,b\n", "missing_column", 2, "no column 'Review Text (full)'"),
        ("helpdesk_x.jsonl", '{"ticket": {"id": 1}}\n', "missing_column", 1, "no column 'ticket.message.text'"),
        (
            "helpdesk_x.jsonl",
            '{"\\ud83d": 1}\n',
            "missing_column",
            1,
            "no column 'ticket.message.text' (found: \ufffd)",
        ),
        ("nobody_knows.csv", GOOD, "unknown_source", 1, "no source claims this file"),
        ("shop_reviews_x.csv", "Nr\n1\n".encode("utf-16-le"), "missing_column", 2, "no column 'Review Text (full)'"),
        ("shop_reviews_x.csv", GOOD.encode() + b"\xe9", "unreadable_file", 1, "is not utf-8"),
        ("app_store_x.parquet", b"no table", "unreadable_file", 1, "not a Parquet file"),
    ],
)
def test_a_file_that_breaks_its_contract_stops_its_day_only(
    project: Project, name: str, content: str | bytes, reason: str, letters: int, says: str
) -> None:
    project.land(OTHER, "shop_reviews_2.csv", GOOD.replace("000", "100"))
    project.run(OTHER, "raw_feedback", "quarantined_feedback", "landed_files")
    other = project.rows("raw_feedback", OTHER)
    project.land(DAY, "shop_reviews_1.csv", GOOD)
    project.land(DAY, name, content)
    run = project.run(DAY)
    assert not run.success
    assert failed_checks(run) == ["raw_feedback:files_match_contract"]
    assert materialized(run) == {"raw_feedback", "quarantined_feedback", "landed_files"}
    assert not project.lake.exists("feedback_embeddings")
    dead = project.rows("quarantined_feedback", DAY)
    assert dead["reason"].to_list() == [reason] * letters
    assert all(says in detail for detail in dead["detail"])
    assert project.rows("raw_feedback", DAY).height == 2, "the sound file beside it is loaded"
    assert says in project.rows("landed_files", DAY).filter(pl.col("file_uri").str.ends_with(name))["problem"].item()
    assert_frame_equal(project.rows("raw_feedback", OTHER), other)


def test_a_file_with_a_suffix_that_is_no_format_is_told_so(project: Project) -> None:
    project.edit("sources", lambda text: text.replace('"shop_reviews*.csv"', '"shop_reviews*"'))
    project.land(DAY, "shop_reviews.ods", b"PK")
    run = project.run(DAY)
    assert failed_checks(run) == ["raw_feedback:files_match_contract"]
    assert "its name ends with none of .csv, .tsv" in project.rows("quarantined_feedback", DAY)["detail"].item()


def test_a_file_that_brings_its_own_contract_needs_no_source(project: Project) -> None:
    project.landing.write_text(note_uri(DAY, "survey"), "columns:\n  text: answer\n")
    outside = project.root / "answers.csv"
    outside.write_text("answer\nThe chair is fine\nThe lamp is not\n")
    project.landing.land(outside, DAY, "survey")
    assert project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files").success
    raw = project.rows("raw_feedback", DAY)
    assert raw["source"].unique().to_list() == ["survey"]
    assert raw["file_uri"].unique().to_list() == ["2026-09-01/survey/answers.csv"]
    assert sorted(raw["text"]) == ["The chair is fine", "The lamp is not"]


def test_a_broken_contract_beside_a_file_is_one_line_with_its_place(project: Project) -> None:
    project.landing.write_text(note_uri(DAY, "survey"), "columns:\n  text: a\ncolour: red\n")
    outside = project.root / "answers.csv"
    outside.write_text("a\nx\n")
    project.landing.land(outside, DAY, "survey")
    run = project.run(DAY)
    note = project.landing.location(note_uri(DAY, "survey"))
    assert failure_line(run, "raw_feedback").startswith(f"{note}:3: colour: unknown key")


def test_a_day_without_files_is_empty_and_passes(project: Project) -> None:
    run = project.run(DAY)
    assert run.success
    assert failed_checks(run) == []
    assert all(rows.is_empty() for rows in data_of(project, DAY).values())


def test_empty_files_advance_the_ledger_with_a_problem(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", "")
    project.land(DAY, "shop_reviews_2.csv", CSV_HEADER)
    project.land(DAY, "helpdesk_1.jsonl", "\n")
    run = project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files")
    assert run.success
    assert project.rows("landed_files", DAY)["problem"].to_list() == ["the file holds no records"] * 3
    assert project.rows("quarantined_feedback", DAY).is_empty()
