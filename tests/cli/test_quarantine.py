"""`feedback quarantine list`, `show` and, as far as it needs no server, `replay`."""

import json
from pathlib import Path


def test_nothing_is_quarantined(feedback) -> None:
    assert feedback("quarantine", "list").stdout == "nothing is quarantined\n"
    assert json.loads(feedback("quarantine", "show", "--format", "json").stdout) == []


def test_list_counts(loaded) -> None:
    assert json.loads(loaded("quarantine", "list", "--format", "json").stdout) == [
        {
            "partition_date": "2026-09-01",
            "source": "shop_reviews",
            "reason": "bad_rating",
            "records": 1,
            "files": 1,
        }
    ]
    assert "bad_rating" in loaded("quarantine", "list").stdout


def test_show_gives_the_record_as_it_stood(loaded) -> None:
    [letter] = json.loads(loaded("quarantine", "show", "--format", "json").stdout)
    assert letter == {
        "partition_date": "2026-09-01",
        "source": "shop_reviews",
        "file_uri": "2026-09-01/shop_reviews_1.csv",
        "line_no": 4,
        "reason": "bad_rating",
        "detail": "9 is no rating from 1 to 5",
        "raw": "A-3,It is a lamp,2026-09-01 12:00,9,C-3,en",
    }


def test_filters(loaded) -> None:
    def rows(*arguments: str) -> int:
        return len(json.loads(loaded("quarantine", "show", *arguments, "--format", "json").stdout))

    assert rows("--reason", "bad_rating", "--source", "shop_reviews", "--partition", "2026-09-01") == 1
    assert rows("--reason", "bad_time") == 0
    assert rows("--source", "helpdesk") == 0
    assert rows("--partition", "2026-09-02") == 0


def test_unknown_reason(feedback, one_line) -> None:
    one_line(feedback("quarantine", "list", "--reason", "bored"), "bored", "bad_rating")


def correct_the_rating(project: Path) -> None:
    sources = project / "config/sources.yaml"
    sources.write_text(
        sources.read_text().replace("    channel: web_review\n", "    channel: web_review\n    rating_range: [2, 10]\n")
    )


def test_replay_says_what_would_come_back_and_what_would_go(loaded, project: Path) -> None:
    def replay() -> dict[str, object]:
        return json.loads(loaded("quarantine", "replay", "--dry-run", "--format", "json").stdout)

    nothing = {"day": "2026-09-01", "letters": 1, "brought_back": 0, "lost": 0}
    assert replay() == {"days": [nothing], "run": None}
    correct_the_rating(project)
    assert replay() == {"days": [{**nothing, "brought_back": 1, "lost": 1}], "run": None}
    told = loaded("quarantine", "replay", "--dry-run").output
    assert "1 rows of these days do not keep their sources' contracts" in told
    assert "without --dry-run" in told
    assert len(json.loads(loaded("quarantine", "show", "--format", "json").stdout)) == 1, "nothing was written"
    left = [path.name for path in (project / "data/lake/quarantined_feedback").rglob("*.parquet")]
    assert len(left) == 1


def test_a_replay_that_brings_nothing_back_runs_nothing(loaded, feedback) -> None:
    told = loaded("quarantine", "replay")
    assert (told.exit_code, "none would be a row now" in told.output) == (0, True)
    assert feedback("quarantine", "replay", "--reason", "bad_time").stdout == "nothing is quarantined\n"


def test_a_replay_counts_the_rows_of_a_file_that_was_refused(feedback, reviews: Path, project: Path) -> None:
    target = project / "landing/2026-09-01/unclaimed.csv"
    target.parent.mkdir(parents=True)
    target.write_bytes(reviews.read_bytes())
    assert feedback("run", "--select", "raw_feedback").exit_code == 1
    sources = project / "config/sources.yaml"
    sources.write_text(sources.read_text().replace('["shop_reviews*.csv"]', '["shop_reviews*.csv", "unclaimed*"]'))
    [day] = json.loads(feedback("quarantine", "replay", "--dry-run", "--format", "json").stdout)["days"]
    assert day == {"day": "2026-09-01", "letters": 1, "brought_back": 2, "lost": 0}
