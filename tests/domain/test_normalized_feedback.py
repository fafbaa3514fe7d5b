from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pytest

from platform_assets.domain.categories import prototypes
from platform_assets.domain.normalized_feedback import normalize, summary_of
from platform_assets.domain.tables import NORMALIZED_FEEDBACK
from platform_assets.domain.thresholds import LocalTier

AXES = np.eye(3, dtype=np.float32)
KNOWN = prototypes(["delivery", "praise"], [0, 1], AXES[:2])
LIMITS = LocalTier(
    min_language_confidence=0.5,
    min_category_confidence=0.6,
    min_sentiment_confidence=0.6,
    category_temperature=20,
    reason="as in the shipped file",
)
SURE = {
    "text": "I love it, this was a wonderful and very quick delivery!",
    "language": "en",
    "rating": 5.0,
    "embedding": [1.0, 0.0, 0.0],
    "is_anomaly": False,
    "embedding_status": "ok",
    "source": "shop",
}
SCHEMA = {
    "feedback_id": pl.String,
    "partition_date": pl.Date,
    "source": pl.String,
    "text": pl.String,
    "language": pl.String,
    "rating": pl.Float64,
    "is_anomaly": pl.Boolean,
    "embedding": pl.List(pl.Float32),
    "embedding_status": pl.String,
}


def normalized(*records: dict[str, Any], limits: LocalTier = LIMITS, **ranges: tuple[float, float]) -> pl.DataFrame:
    rows = [
        {"feedback_id": str(index), "partition_date": date(2026, 9, 1), **SURE, **record}
        for index, record in enumerate(records)
    ]
    return normalize(pl.DataFrame(rows, schema=SCHEMA), KNOWN, limits, model="encoder:1", rating_ranges=ranges)


def test_a_sure_record_is_answered() -> None:
    row = normalized({}).row(0, named=True)
    assert row.pop("confidence") == pytest.approx(1, abs=0.05)
    assert row.pop("sentiment_score") > 0.9
    assert row == {
        "feedback_id": "0",
        "partition_date": date(2026, 9, 1),
        "language": "en",
        "sentiment": "positive",
        "category": "delivery",
        "urgency": "low",
        "summary": SURE["text"],
        "entities": [],
        "evidence": [],
        "normalizer": "local",
        "route_reason": None,
        "status": "ok",
        "model": "encoder:1",
        "prompt_version": None,
        "schema_version": "1",
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "cost_usd": 0.0,
    }


@pytest.mark.parametrize(
    ("record", "reason", "guess"),
    [
        ({"text": "😀😀", "language": None}, "language_unsure", {"language": "und", "category": "delivery"}),
        (
            {"text": "Die Lieferung war wunderbar und sehr schnell.", "language": "de"},
            "language_not_served",
            {"language": "de", "sentiment": "positive", "category": "delivery"},
        ),
        ({"is_anomaly": True}, "anomaly", {"sentiment": "positive", "category": "delivery"}),
        ({"embedding": [0.0, 0.0, 1.0]}, "category_unsure", {"sentiment": "positive"}),
        ({"text": "The delivery was on a Monday and then it was here.", "rating": None}, "sentiment_unsure", {}),
    ],
)
def test_an_unsure_record_keeps_its_guess_and_says_why(
    record: dict[str, Any], reason: str, guess: dict[str, str]
) -> None:
    row = normalized(record).row(0, named=True)
    assert (row["status"], row["route_reason"], row["normalizer"]) == ("deferred", reason, "local")
    assert row.items() >= guess.items()
    assert row["category"] in KNOWN.keys
    assert 0 <= row["confidence"] <= 1


def test_a_record_is_as_sure_as_its_weakest_part() -> None:
    halved = normalized({"text": "I hate it, this was a terrible and awful delivery!"}).row(0, named=True)
    assert halved["confidence"] == pytest.approx(0.5)
    assert halved["route_reason"] == "sentiment_unsure"


@pytest.mark.parametrize("status", ["no_text", "failed"])
def test_a_record_without_a_vector_has_no_answer(status: str) -> None:
    row = normalized({"embedding": None, "embedding_status": status, "is_anomaly": None}).row(0, named=True)
    assert (row["status"], row["route_reason"], row["normalizer"], row["model"]) == (status, status, "none", None)
    assert [row[name] for name in ("language", "sentiment", "category", "urgency", "confidence")] == [None] * 5


def test_there_is_one_row_for_each_in_order() -> None:
    table = normalized({}, {"embedding": None, "embedding_status": "no_text", "text": ""}, {"is_anomaly": True}, {})
    assert table["feedback_id"].to_list() == ["0", "1", "2", "3"]
    assert table["status"].to_list() == ["ok", "no_text", "deferred", "ok"]
    assert dict(table.schema) == NORMALIZED_FEEDBACK
    assert dict(normalized().schema) == NORMALIZED_FEEDBACK


def test_a_day_without_a_model_for_anomalies_is_normalized() -> None:
    assert normalized({"is_anomaly": None})["status"].to_list() == ["ok"]


def test_each_source_has_its_own_stars() -> None:
    plain = {"text": "The delivery was on a Monday and then it was here.", "rating": 5.0}
    table = normalized(plain, {**plain, "source": "survey"}, survey=(0.0, 10.0))
    assert table["sentiment"].to_list() == ["positive", "neutral"]


def test_urgent_words_stand_as_evidence() -> None:
    row = normalized({"text": "I love the shop, but the charger caught fire, that was terrible!"}).row(0, named=True)
    assert (row["urgency"], row["evidence"]) == ("critical", ["caught fire"])


LONG = "word " * 50


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("One. Two.", "One."),
        ("  Really?  Yes.", "Really?"),
        ("第一句。第二句。", "第一句。"),
        ("first line\nsecond line", "first line"),
        ("\n\n", ""),
        ("", ""),
        ("Version 3.5 is out", "Version 3.5 is out"),
        ("a" * 160, "a" * 160),
        ("a" * 161, "a" * 159 + "…"),
        (LONG, ("word " * 31).strip() + "…"),
    ],
)
def test_the_summary_is_the_first_sentence(text: str, summary: str) -> None:
    assert summary_of(text) == summary
    assert len(summary) <= 160
