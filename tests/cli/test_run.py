"""`feedback run` as far as it needs no server: which days and assets, and how it refuses."""

import json
from pathlib import Path

import dagster as dg
import pytest


def run_json(feedback, *arguments: str) -> dict:
    result = feedback("run", *arguments, "--format", "json")
    return {"exit_code": result.exit_code, **json.loads(result.stdout)}


def test_nothing_waits(feedback) -> None:
    result = feedback("run")
    assert result.exit_code == 0
    assert "nothing waits" in result.stdout


def test_loads_a_day_and_counts_it(feedback, reviews: Path) -> None:
    feedback("ingest", reviews, "--partition", "2026-09-01")
    found = run_json(feedback, "--select", "raw_feedback")
    assert found["exit_code"] == 0
    [day] = found["days"]
    assert (day["day"], day["records"], day["loaded"], day["quarantined"]) == ("2026-09-01", 3, 2, 1)
    assert day["embedded"] is None
    assert day["checks"]["passed"] == 4
    assert found["totals"]["records"] == 3


def test_assets_of_one_step_are_made_together(loaded, project: Path) -> None:
    tables = json.loads(loaded("query", "select count(*) n from landed_files", "--format", "json").stdout)
    assert tables == [{"n": 1}]


def test_a_day_that_was_loaded_but_not_finished_waits(loaded) -> None:
    assert "shop_reviews" in loaded("query", "select source from raw_feedback").stdout
    assert [day["day"] for day in run_json(loaded, "--select", "landed_files")["days"]] == ["2026-09-01"]


def test_explicit_days(loaded, reviews: Path) -> None:
    loaded("ingest", reviews, "--partition", "2026-09-03")
    span = run_json(loaded, "--from", "2026-09-01", "--to", "2026-09-30", "--select", "raw_feedback")
    assert [day["day"] for day in span["days"]] == ["2026-09-01", "2026-09-03"]
    one = run_json(loaded, "--partition", "2026-09-03", "--select", "raw_feedback", "landed_files")
    assert [day["day"] for day in one["days"]] == ["2026-09-03"]
    none = loaded("run", "--partition", "2026-09-20", "--select", "raw_feedback")
    assert none.exit_code == 0
    assert "nothing has landed for 2026-09-20" in none.stdout


def test_a_failed_blocking_check_fails_the_day_and_no_other(project: Path, feedback, reviews: Path) -> None:
    for day in ("2026-09-01", "2026-09-02"):
        feedback("ingest", reviews, "--partition", day)
    (project / "landing/2026-09-01/stranger.csv").write_text("a\n1\n")
    result = feedback("run", "--select", "raw_feedback")
    assert result.exit_code == 1
    assert "Traceback" not in result.stderr
    assert "2026-09-01 raw_feedback: check files_match_contract failed" in result.stdout
    assert "stranger.csv" in result.stdout
    assert "✓ 2026-09-02" in result.stderr


def test_a_step_that_fails_gives_its_reason_in_one_line(project: Path, feedback, reviews: Path) -> None:
    feedback("ingest", reviews, "--source", "shop_reviews", "--partition", "2026-09-01")
    (project / "landing/2026-09-01/shop_reviews/_source.yaml").write_text("columns: {}\n")
    refused = run_json(feedback, "--select", "raw_feedback")
    assert refused["exit_code"] == 1
    assert "_source.yaml:1: columns.text: is missing" in refused["days"][0]["problems"][0]
    found = run_json(feedback, "--partition", "2026-09-01", "--select", "raw_feedback")
    assert found["exit_code"] == 1
    [problem] = found["days"][0]["problems"]
    assert problem.startswith("raw_feedback: ")
    assert "_source.yaml:1: columns.text: is missing" in problem
    assert found["days"][0]["checks"]["not evaluated"] == 5


def test_runs_are_recorded_with_their_day(loaded, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(project))
    with dg.DagsterInstance.get() as instance:
        [run] = instance.get_runs()
        assert run.status is dg.DagsterRunStatus.SUCCESS
        assert run.tags["dagster/partition"] == "2026-09-01"


def test_a_folder_of_a_day_that_is_no_partition_is_told_and_fails(project: Path, feedback, reviews: Path) -> None:
    feedback("ingest", reviews, "--partition", "2026-09-01")
    (project / "landing/2026-09-01").rename(project / "landing/2001-01-01")
    found = run_json(feedback, "--select", "raw_feedback")
    assert found["exit_code"] == 1
    assert "unknown partition 2001-01-01" in found["days"][0]["problems"][0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--partition", "2024-12-31"), ("unknown partition 2024-12-31", "2025-01-01")),
        (("--partition", "2026-9-1"), ("2026-9-1", "YYYY-MM-DD")),
        (("--from", "2026-09-01"), ("--to",)),
        (("--from", "2026-09-02", "--to", "2026-09-01"), ("lies after",)),
        (("--partition", "2026-09-01", "--to", "2026-09-01"), ("leave out",)),
        (("--select", "raw"), ("'raw'", "raw_feedback")),
        (("raw_feedback",), ("'raw_feedback'", "--select")),
    ],
)
def test_usage(feedback, one_line, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    one_line(feedback("run", *arguments), *words)


def test_without_the_servers_environment_nothing_is_begun(
    project: Path, feedback, reviews: Path, built_repository: Path, one_line
) -> None:
    (project / "model_repository").symlink_to(built_repository)
    feedback("ingest", reviews, "--partition", "2026-09-01")
    one_line(feedback("run"), ".triton-venv", "make setup")
    assert not (project / "data").exists()


def test_with_a_server_that_does_not_answer_nothing_is_begun(
    project: Path, feedback, reviews: Path, one_line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_URL", "127.0.0.1:9")
    feedback("ingest", reviews, "--partition", "2026-09-01")
    one_line(feedback("run"), "127.0.0.1:9", "TRITON_URL", code=1)
    assert not (project / "data").exists()


def test_tables_that_cannot_be_written(project: Path, feedback, reviews: Path) -> None:
    (project / "data").write_text("a file in the way")
    feedback("ingest", reviews, "--partition", "2026-09-01")
    result = feedback("run", "--select", "raw_feedback")
    assert result.exit_code == 1
    assert "Traceback" not in result.stderr
