"""`feedback report`: what is told of checks that passed, failed, and never ran."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest


@pytest.fixture
def failed(project: Path, feedback, reviews: Path):
    """A day with a file that no source claims; its name would be a tag if a page let it."""
    feedback("ingest", reviews, "--partition", "2026-09-01")
    (project / "landing/2026-09-01/<script>alert(1)<.csv").write_text("a\n1\n")
    assert feedback("run", "--select", "raw_feedback").exit_code == 1
    return feedback


def checks(feedback, *arguments: str) -> dict[tuple[str, str], dict]:
    result = feedback("report", *arguments, "--format", "json")
    return {(entry["asset"], entry["check"]): entry for entry in json.loads(result.stdout)["checks"]}


def test_before_the_first_run(feedback) -> None:
    result = feedback("report")
    assert result.exit_code == 0
    assert "feedback ingest" in result.stdout


def test_entry_of_a_passed_check(loaded) -> None:
    entry = checks(loaded)["raw_feedback", "records_conserved"]
    assert entry == {
        "day": "2026-09-01",
        "asset": "raw_feedback",
        "check": "records_conserved",
        "outcome": "passed",
        "blocking": True,
        "value": 0.0,
        "limit": 0.0,
        "rows": 3,
        "min_rows": 1,
        "sentence": "files whose records were lost or doubled: none (3 looked at)",
        "reason": entry["reason"],
        "examples": [],
    }
    assert entry["reason"]


def test_too_few_rows_are_neither_passed_nor_failed(loaded) -> None:
    assert checks(loaded)["raw_feedback", "share_quarantined"]["outcome"] == "not enough data"


def test_checks_of_assets_that_were_not_made_are_not_evaluated(loaded) -> None:
    entry = checks(loaded)["daily_summary", "volumes_add_up"]
    assert entry["outcome"] == "not evaluated"
    assert entry["value"] is None
    report = loaded("report", "--format", "json")
    assert (json.loads(report.stdout)["blocked"], report.exit_code) == (False, 0)


def test_counts_of_records_go_with_the_days(loaded) -> None:
    [day] = json.loads(loaded("report", "--format", "json").stdout)["days"]
    assert day["day"] == "2026-09-01"
    assert day["records"]["loaded"] == 2
    assert day["records"]["embedded"] is None
    assert sum(day["counts"].values()) == len(checks(loaded))


def test_failed_blocking_check_gives_one(failed) -> None:
    result = failed("report")
    assert result.exit_code == 1
    assert "files_match_contract" in result.stdout
    assert "records_conserved" not in result.stdout
    entry = checks(failed)["raw_feedback", "files_match_contract"]
    assert entry["outcome"] == "failed"
    assert len(entry["examples"]) == 1
    assert "<script>alert(1)<.csv: unknown_source" in entry["examples"][0]


def test_only_the_newest_result_counts(failed, project: Path) -> None:
    (project / "landing/2026-09-01/<script>alert(1)<.csv").unlink()
    assert failed("run", "--partition", "2026-09-01", "--select", "raw_feedback").exit_code == 0
    assert failed("report").exit_code == 0
    assert checks(failed)["raw_feedback", "files_match_contract"]["outcome"] == "passed"


def test_a_check_that_crashed_is_not_evaluated_even_if_it_passed_before(loaded, project: Path) -> None:
    (project / "landing/2026-09-01/shop_reviews").mkdir()
    (project / "landing/2026-09-01/shop_reviews/x.csv").write_text("a\n")
    (project / "landing/2026-09-01/shop_reviews/_source.yaml").write_text("columns: {}\n")
    assert loaded("run", "--partition", "2026-09-01", "--select", "raw_feedback").exit_code == 1
    assert checks(loaded)["raw_feedback", "records_conserved"]["outcome"] == "not evaluated"
    report = loaded("report", "--format", "json")
    assert (json.loads(report.stdout)["blocked"], report.exit_code) == (True, 1)


def test_one_day(loaded, reviews: Path) -> None:
    loaded("ingest", reviews, "--partition", "2026-09-02")
    loaded("run", "--partition", "2026-09-02", "--select", "raw_feedback")
    assert {entry["day"] for entry in checks(loaded, "--partition", "2026-09-02").values()} == {"2026-09-02"}
    assert len(json.loads(loaded("report", "--format", "json").stdout)["days"]) == 2


class Page(HTMLParser):
    """The addresses that a page would load, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href", "action", "data"}]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_needs_nothing_and_escapes_what_users_wrote(failed) -> None:
    result = failed("report", "--format", "html", "--out", "-")
    assert result.exit_code == 1
    page = Page()
    page.feed(result.stdout)
    assert page.addresses
    assert all(address.startswith("data:image/svg+xml;base64,") for address in page.addresses)
    assert "script" not in page.tags
    assert "<script>alert(1)<.csv" in page.text
    assert not re.search(r"url\(|@import", result.stdout)
    assert "2026-09-01" in page.text


def test_page_goes_to_a_file_relative_to_where_it_was_asked_for(
    loaded, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("FEEDBACK_PROJECT", str(project))
    monkeypatch.chdir(tmp_path / "elsewhere")
    result = loaded("report", "--format", "html", "--out", "page.html")
    assert result.exit_code == 0
    assert (tmp_path / "elsewhere/page.html").read_text().startswith("<!doctype html>")


def test_page_goes_to_reports_by_default(loaded, project: Path) -> None:
    result = loaded("report", "--format", "html")
    [page] = (project / "reports").iterdir()
    assert result.stdout.strip() == str(page)


def test_page_that_cannot_be_written(loaded, project: Path, one_line) -> None:
    (project / "reports").write_text("a file in the way")
    one_line(loaded("report", "--format", "html"), "cannot be written", "choose another place")


@pytest.mark.parametrize("form", ["table", "json", "html"])
def test_out_takes_what_stdout_would_get(loaded, project: Path, form: str) -> None:
    target = project / "deeper" / "report"
    printed = loaded("report", "--format", form, "--out", "-").stdout
    assert loaded("report", "--format", form, "--out", str(target)).stdout.strip() == str(target)
    # A page says to the minute when it was made.
    moment = re.compile(r"\d\d:\d\d UTC")
    assert moment.sub("", target.read_text()) == moment.sub("", printed)
    assert printed


def test_unknown_partition(feedback, one_line) -> None:
    one_line(feedback("report", "--partition", "2024-01-01"), "unknown partition 2024-01-01")
