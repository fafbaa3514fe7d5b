"""What becomes of a day's files; no server is needed for that."""

import gzip
import json
import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from platform_assets.day_plan import plan_day
from platform_assets.day_reader import read_day
from platform_assets.file_ledger import FileLedger
from resources.landing_zone import LandedFile
from resources.triton import TritonResource
from tests.project import Project, failure_line, make_project, materialized

EARLIER, DAY = date(2026, 8, 31), date(2026, 9, 1)
INGESTION = ("raw_feedback", "quarantined_feedback", "landed_files")
HEADER = "Order Nr.,Review Text (full),Date/Time,Stars (1-5),Customer #,Lang\n"
ROWS = HEADER + "1,The lamp is broken,2026-09-01 10:00,1,C1,en\n2,I love this chair,2026-09-01 11:00,9,C2,en\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, TritonResource(url="127.0.0.1:1", repository="none"))


def read(project: Project, day: date = DAY) -> dg.ExecuteInProcessResult:
    done = project.run(day, *INGESTION)
    assert materialized(done) == set(INGESTION)
    loaded, letters, ledger = (project.rows(table, day) for table in INGESTION)
    assert ledger["records"].sum() == loaded.height + letters.height
    assert (ledger["loaded"].sum(), ledger["quarantined"].sum()) == (loaded.height, letters.height)
    return done


def texts(project: Project, day: date = DAY) -> list[str]:
    return sorted(project.rows("raw_feedback", day)["text"])


def problems(project: Project, day: date = DAY) -> dict[str, str | None]:
    ledger = project.rows("landed_files", day)
    return {Path(uri).name: problem for uri, problem in ledger.select("file_uri", "problem").iter_rows()}


def rename(project: Project, landed: LandedFile, name: str, day: date = DAY) -> None:
    target = project.root / "landing" / str(day) / name
    target.parent.mkdir(exist_ok=True)
    project.path_of(landed).rename(target)


def test_a_renamed_file_keeps_its_rows_under_its_new_name(project: Project) -> None:
    landed = project.land(DAY, "shop_reviews_1.csv", ROWS)
    read(project)
    before = project.rows("raw_feedback", DAY)
    rename(project, landed, "shop_reviews_2.csv")
    read(project)
    assert_frame_equal(
        project.rows("raw_feedback", DAY), before.with_columns(file_uri=pl.lit(f"{DAY}/shop_reviews_2.csv"))
    )
    assert problems(project) == {"shop_reviews_2.csv": None}


def test_a_content_that_landed_twice_counts_once(project: Project) -> None:
    project.land(DAY, "shop_reviews_b.csv", ROWS)
    read(project)
    before = [project.rows(table, DAY) for table in INGESTION[:2]]
    project.land(DAY, "shop_reviews_a.csv", ROWS)
    read(project)
    for table, rows in zip(INGESTION, before, strict=False):
        assert_frame_equal(project.rows(table, DAY), rows)
    assert problems(project) == {
        "shop_reviews_a.csv": f"the same content as {DAY}/shop_reviews_b.csv, which counts",
        "shop_reviews_b.csv": None,
    }


def test_a_content_that_landed_again_on_another_day_counts_on_the_first(project: Project) -> None:
    landed = project.land(EARLIER, "shop_reviews_1.csv", ROWS)
    read(project, EARLIER)
    before = project.rows("raw_feedback", EARLIER)
    rename(project, landed, "shop_reviews_1.csv", DAY)
    read(project, DAY)
    assert texts(project, DAY) == []
    assert project.rows("landed_files", DAY)["same_as"].to_list() == [f"{EARLIER}/shop_reviews_1.csv"]
    read(project, EARLIER)
    assert_frame_equal(project.rows("raw_feedback", EARLIER), before)


def test_the_same_bytes_of_another_source_are_another_content(project: Project) -> None:
    outside = project.root / "answers.csv"
    outside.write_text(ROWS)
    project.landing.write_text(f"{DAY}/survey/_source.yaml", "columns: {text: Review Text (full)}\n")
    project.landing.land(outside, DAY, "survey")
    project.land(DAY, "shop_reviews_1.csv", ROWS)
    read(project)
    assert sorted(project.rows("raw_feedback", DAY)["source"]) == ["shop_reviews", "survey", "survey"]


def test_a_file_that_was_refused_is_no_original(project: Project) -> None:
    project.edit("sources", lambda text: text.replace('["shop_reviews*.csv"]', '["shop_reviews*"]'))
    project.land(EARLIER, "shop_reviews_1.json", ROWS)
    project.land(EARLIER, "shop_reviews_1.dat", ROWS)
    read(project, EARLIER)
    assert texts(project, EARLIER) == []
    project.land(EARLIER, "shop_reviews_1.csv", ROWS)
    read(project, EARLIER)
    assert texts(project, EARLIER) == ["The lamp is broken"]


def test_rows_of_a_file_that_was_moved_out_of_sight_are_kept(project: Project) -> None:
    landed = project.land(DAY, "shop_reviews_1.csv", ROWS)
    read(project)
    before = texts(project)
    rename(project, landed, "shop_reviews_1.csv.bak")
    read(project)
    assert texts(project) == before


def test_columns_that_no_contract_names_are_told(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", ROWS.replace("Lang\n", "Lang,Store\n").replace(",en\n", ",en,Kiel\n"))
    done = read(project)
    told = done.asset_materializations_for_node("raw_feedback")
    [found] = [one.metadata["columns_in_metadata"].value for one in told if "columns_in_metadata" in one.metadata]
    assert found == {"shop_reviews": ["Store"]}


def test_an_interruption_is_one_wherever_the_reading_stands(project: Project) -> None:
    """Three threads are at work then; none may be asked for more while it is made to stop."""
    row = "{number},text,2026-09-01 10:00,5,C1,en\n"
    project.land(DAY, "shop_reviews_1.csv", HEADER + "".join(row.replace("{number}", str(n)) for n in range(600_000)))
    plan = plan_day(DAY, project.landing, project.settings, FileLedger.of(project.lake), datetime.now(UTC))
    for wait_s in (0.1, 0.3, 0.5):
        timer = threading.Timer(wait_s, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            for _ in range(20):
                read_day(plan, project.landing, project.lake, patient=False).close()
        timer.join()
    assert list((project.root / "data").rglob("*.parquet")) == []


def test_rows_of_a_file_that_is_gone_are_kept(project: Project) -> None:
    landed = project.land(DAY, "shop_reviews_1.csv", ROWS)
    project.land(DAY, "shop_reviews_2.csv", ROWS.replace("1,The", "3,The").replace("2,I", "4,I"))
    read(project)
    before = [project.rows(table, DAY) for table in INGESTION[:2]]
    project.path_of(landed).unlink()
    for _ in range(2):
        read(project)
        for table, rows in zip(INGESTION, before, strict=False):
            assert_frame_equal(project.rows(table, DAY), rows)
    assert problems(project) == {
        "shop_reviews_1.csv": "no longer in the landing zone; its rows are kept",
        "shop_reviews_2.csv": None,
    }
    project.land(DAY, "shop_reviews_1.csv", HEADER)
    read(project)
    assert {Path(uri).name for uri in project.rows("raw_feedback", DAY)["file_uri"]} == {"shop_reviews_2.csv"}


def test_a_refused_file_that_is_gone_is_forgotten(project: Project) -> None:
    landed = project.land(DAY, "nobodys.csv", ROWS)
    read(project)
    assert project.rows("quarantined_feedback", DAY)["reason"].to_list() == ["unknown_source"]
    rename(project, landed, "shop_reviews_1.csv")
    read(project)
    assert project.rows("quarantined_feedback", DAY)["reason"].to_list() == ["bad_rating"]
    assert texts(project) == ["The lamp is broken"]


def test_a_row_of_a_file_that_is_gone_gives_way_and_can_be_traced(project: Project) -> None:
    landed = project.land(DAY, "shop_reviews_1.csv", ROWS)
    read(project)
    project.path_of(landed).unlink()
    project.land(DAY, "shop_reviews_2.csv", HEADER + "1,It is mended,2026-09-01 12:00,5,C1,en\n")
    read(project)
    assert texts(project) == ["It is mended"]
    letter = project.rows("quarantined_feedback", DAY).filter(reason="superseded").row(0, named=True)
    assert (Path(letter["file_uri"]).name, letter["line_no"]) == ("shop_reviews_1.csv", 2)
    assert json.loads(letter["raw"])["text"] == "The lamp is broken"
    assert "shop_reviews_2.csv line 2" in letter["detail"]


def test_the_rule_for_records_of_one_id_is_the_sources(project: Project) -> None:
    project.edit(
        "sources", lambda text: text.replace("    channel: web_review", "    channel: web_review\n    dedupe: first")
    )
    project.land(DAY, "shop_reviews_1.csv", HEADER + "1,first,,,,\n1,second,,,,\n")
    read(project)
    assert texts(project) == ["first"]
    letter = project.rows("quarantined_feedback", DAY).row(0, named=True)
    assert (letter["reason"], letter["line_no"], letter["raw"]) == ("superseded", 3, "1,second,,,,")


def test_many_small_files_are_all_read(project: Project) -> None:
    for number in range(120):
        project.land(
            DAY, f"shop_reviews_{number}.csv", HEADER + f"{number},text {number},,,,\n{number}-b,broken,,77,,\n"
        )
    project.land(DAY, "shop_reviews_5-none.csv", HEADER)
    read(project)
    assert texts(project) == sorted(f"text {number}" for number in range(120))
    letters = project.rows("quarantined_feedback", DAY)
    assert sorted(letters["raw"]) == sorted(f"{number}-b,broken,,77,," for number in range(120))
    assert letters["line_no"].unique().to_list() == [3]
    assert letters["file_uri"].n_unique() == 120


@pytest.mark.parametrize("name", ["helpdesk_1.jsonl.gz", "helpdesk_1.jsonl"])
def test_a_file_that_turns_out_unreadable_at_its_end_brings_nothing(project: Project, name: str) -> None:
    """Its first batches were staged by then."""
    record = json.dumps({"ticket": {"id": 1, "message": {"text": "x" * 1000}}})
    lines = "".join(record.replace(": 1,", f": {number},") + "\n" for number in range(40_000)).encode()
    content = gzip.compress(lines, 1)[:-20] if name.endswith(".gz") else lines + b"\xff"
    project.edit("sources", lambda text: text.replace('["helpdesk*.jsonl"]', '["helpdesk*"]'))
    landed = project.land(DAY, name, content)
    os.utime(project.path_of(landed), (1_700_000_000, 1_700_000_000))
    project.land(DAY, "helpdesk_2.jsonl", record + "\n")
    read(project)
    assert project.rows("raw_feedback", DAY)["file_uri"].to_list() == [f"{DAY}/helpdesk_2.jsonl"]
    letter = project.rows("quarantined_feedback", DAY).row(0, named=True)
    assert (letter["line_no"], letter["raw"]) == (0, "")
    assert letter["reason"] == ("incomplete_file" if name.endswith(".gz") else "unreadable_file")


@pytest.fixture
def cut_off(project: Project) -> Iterator[LandedFile]:
    """A Parquet file without its end, that landed just now; looked at again soon."""
    project.edit("platform", lambda text: text.replace("settle_s: 10 ", "settle_s: 1 "))
    whole = project.root / "whole.parquet"
    pl.DataFrame({"reviewId": ["1"], "body": ["x"], "at": [None], "score": [None], "userName": [None]}).write_parquet(
        whole
    )
    yield project.land(DAY, "app_store_1.parquet", whole.read_bytes()[:-8])


def test_a_young_file_that_ends_too_soon_is_looked_at_again_and_then_refused(
    project: Project, cut_off: LandedFile
) -> None:
    done = read(project)
    retries = [event for event in done.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]
    assert len(retries) == 2
    letter = project.rows("quarantined_feedback", DAY).row(0, named=True)
    assert (letter["file_uri"], letter["reason"]) == (cut_off.uri, "incomplete_file")


def test_an_old_file_that_ends_too_soon_is_refused_at_once(project: Project, cut_off: LandedFile) -> None:
    os.utime(project.path_of(cut_off), (1_700_000_000, 1_700_000_000))
    done = read(project)
    assert [event for event in done.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"] == []
    assert project.rows("quarantined_feedback", DAY)["reason"].to_list() == ["incomplete_file"]


def test_nothing_staged_is_left_of_a_day_that_failed(project: Project) -> None:
    for number in range(3):
        project.land(DAY, f"shop_reviews_{number}.csv", HEADER + f"{number},text,,,,\n")
    project.landing.write_text(f"{DAY}/survey/_source.yaml", "columns: {text: a}\nencoding: none-such\n")
    outside = project.root / "answers.csv"
    outside.write_text("a\nx\n")
    project.landing.land(outside, DAY, "survey")
    done = project.run(DAY, *INGESTION)
    assert "unknown encoding 'none-such'" in failure_line(done, "raw_feedback")
    assert list((project.root / "data").rglob("*.parquet")) == []


def test_a_replay_gives_the_same_table_byte_for_byte(project: Project) -> None:
    project.land(DAY, "shop_reviews_1.csv", ROWS + "2,again,,,,\n")
    project.land(DAY, "shop_reviews_2.csv", HEADER + "1,later,,,,\n")
    read(project)
    before = [project.lake.scan_partition(table, DAY).collect() for table in INGESTION]
    read(project)
    for table, rows in zip(INGESTION, before, strict=True):
        assert_frame_equal(project.lake.scan_partition(table, DAY).collect(), rows)
    assert before[2]["landed_at"].max() < datetime.now(UTC)
