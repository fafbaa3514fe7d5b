from datetime import date

import polars as pl

from platform_assets.domain.daily_summary import UNSORTED, summarize
from platform_assets.domain.tables import DAILY_SUMMARY

DAY = date(2026, 9, 1)
COLUMNS = ("feedback_id", "category", "sentiment", "sentiment_score", "urgency", "status", "is_anomaly", "source")
ROWS = [
    ("1", "delivery", "negative", -0.8, "high", "ok", True, "shop"),
    ("2", "delivery", "mixed", 0.2, "medium", "deferred", False, "shop"),
    ("3", "delivery", "positive", 0.9, "low", "ok", None, "desk"),
    ("4", "praise", "positive", 0.7, "low", "ok", False, "shop"),
    ("5", "praise", "neutral", None, "critical", "deferred", True, "shop"),
    ("6", None, None, None, None, "no_text", None, "shop"),
]


def tables() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    whole = pl.DataFrame(ROWS, schema=COLUMNS, orient="row").with_columns(partition_date=pl.lit(DAY))
    return (
        whole.select("feedback_id", "source"),
        whole.drop("source", "is_anomaly"),
        whole.select("feedback_id", "is_anomaly"),
    )


def test_each_record_is_counted_once() -> None:
    summary = summarize(*tables())
    assert dict(summary.schema) == DAILY_SUMMARY
    assert summary.select("source", "category", "volume", "anomalies", "urgent", "deferred").rows() == [
        ("desk", "delivery", 1, 0, 0, 0),
        ("shop", "delivery", 2, 1, 1, 1),
        ("shop", UNSORTED, 1, 0, 0, 0),
        ("shop", "praise", 2, 1, 1, 1),
    ]
    assert summary.select("negative", "neutral", "positive", "mixed").sum().row(0) == (1, 1, 2, 1)
    assert summary.filter(source="shop", category="delivery")["mean_sentiment_score"].round(9).to_list() == [-0.3]


def test_an_empty_day_has_an_empty_summary() -> None:
    summary = summarize(*(table.clear() for table in tables()))
    assert summary.is_empty()
    assert dict(summary.schema) == DAILY_SUMMARY
