"""`feedback quarantine list` and `show`."""

import json


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
