"""The local tier: what can be said of a record without sending it anywhere, and how sure that is.

A record of which the tier is not sure keeps its guess under the status `deferred`, with the reason.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from platform_assets.domain.categories import Prototypes, sort_into_categories
from platform_assets.domain.language import Detected, detect_languages
from platform_assets.domain.sentiment import SERVED_LANGUAGES, Feeling, feeling_of
from platform_assets.domain.tables import NORMALIZED_FEEDBACK, conform
from platform_assets.domain.thresholds import LocalTier
from platform_assets.domain.urgency import urgency_of
from platform_assets.domain.vectors import matrix

SCHEMA_VERSION: Final = "1"
"""Changes with the meaning of a column of `normalized_feedback`."""

DEFAULT_RATING_RANGE: Final = (1.0, 5.0)

_SUMMARY_CHARACTERS: Final = 160
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")


@dataclass(frozen=True)
class Judged:
    """What the tier says of one readable record."""

    language: Detected
    feeling: Feeling | None
    category: str
    category_confidence: float
    confidence: float
    """The least of the three confidences: a record is as sure as its weakest part."""
    route_reason: str | None
    """Why the record should go to the next tier; None where the tier is sure."""


def normalize(
    feedback: pl.DataFrame,
    known: Prototypes,
    limits: LocalTier,
    *,
    model: str,
    rating_ranges: Mapping[str, tuple[float, float]],
) -> pl.DataFrame:
    """Normalize one day.

    Args:
        feedback: `raw_feedback` joined with `feedback_embeddings`: feedback_id, partition_date, source, text,
            language, rating, is_anomaly, embedding, and the embedding's status as `embedding_status`.
        known: the categories' prototypes, in the embeddings' own space.
        limits: when the tier counts as sure.
        model: what computed it, for the `model` column.
        rating_ranges: lowest and highest rating of each source that has its own.

    Returns:
        One row of `normalized_feedback` for each row of `feedback`, in order.
    """
    readable = feedback.filter(pl.col("embedding_status") == "ok")
    judged = _judge(readable, known, limits, rating_ranges) if readable.height else []
    rows = [_answer(record, verdict) for record, verdict in zip(readable.iter_rows(named=True), judged, strict=True)]
    unread = [
        _without_answer(record) for record in feedback.filter(pl.col("embedding_status") != "ok").iter_rows(named=True)
    ]
    answers = pl.DataFrame(rows + unread, schema=_ANSWER)
    return conform(
        feedback.select("feedback_id", "partition_date")
        .join(answers, on="feedback_id", how="left", maintain_order="left")
        .with_columns(
            model=pl.when(pl.col("normalizer") == "local").then(pl.lit(model)),
            prompt_version=pl.lit(None),
            schema_version=pl.lit(SCHEMA_VERSION),
            prompt_tokens=pl.lit(0),
            completion_tokens=pl.lit(0),
            cost_usd=pl.lit(0.0),
        ),
        NORMALIZED_FEEDBACK,
    )


_ANSWER: Final = {
    name: NORMALIZED_FEEDBACK[name]
    for name in (
        "feedback_id", "language", "sentiment", "sentiment_score", "category", "urgency", "summary", "entities",
        "evidence", "confidence", "normalizer", "route_reason", "status",
    )
}  # fmt: skip


def _judge(
    readable: pl.DataFrame,
    known: Prototypes,
    limits: LocalTier,
    rating_ranges: Mapping[str, tuple[float, float]],
) -> list[Judged]:
    languages = detect_languages(readable["text"].to_list(), readable["language"].to_list())
    categories = sort_into_categories(matrix(readable["embedding"]), known, limits.category_temperature)
    judged: list[Judged] = []
    for record, language, category, sureness in zip(
        readable.select("source", "text", "rating", "is_anomaly").iter_rows(named=True),
        languages,
        categories.keys,
        categories.confidence.tolist(),
        strict=True,
    ):
        rating_range = rating_ranges.get(record["source"], DEFAULT_RATING_RANGE)
        feeling = feeling_of(record["text"], language.language, record["rating"], rating_range)
        feeling_confidence = feeling.confidence if feeling else 0.0
        judged.append(
            Judged(
                language=language,
                feeling=feeling,
                category=category,
                category_confidence=sureness,
                confidence=min(language.confidence, sureness, feeling_confidence),
                route_reason=_route_reason(record["is_anomaly"], language, sureness, feeling_confidence, limits),
            )
        )
    return judged


def _route_reason(
    is_anomaly: bool | None,
    language: Detected,
    category_confidence: float,
    feeling_confidence: float,
    limits: LocalTier,
) -> str | None:
    if language.confidence < limits.min_language_confidence:
        return "language_unsure"
    if language.language not in SERVED_LANGUAGES:
        return "language_not_served"
    if is_anomaly:
        return "anomaly"
    if category_confidence < limits.min_category_confidence:
        return "category_unsure"
    if feeling_confidence < limits.min_sentiment_confidence:
        return "sentiment_unsure"
    return None


def _answer(record: Mapping[str, str], judged: Judged) -> dict[str, object]:
    sentiment = judged.feeling.sentiment if judged.feeling else None
    urgency = urgency_of(record["text"], sentiment)
    return {
        "feedback_id": record["feedback_id"],
        "language": judged.language.language,
        "sentiment": sentiment,
        "sentiment_score": judged.feeling.score if judged.feeling else None,
        "category": judged.category,
        "urgency": urgency.urgency,
        "summary": summary_of(record["text"]),
        "entities": [],
        "evidence": [urgency.evidence] if urgency.evidence else [],
        "confidence": judged.confidence,
        "normalizer": "local",
        "route_reason": judged.route_reason,
        "status": "ok" if judged.route_reason is None else "deferred",
    }


def _without_answer(record: Mapping[str, str]) -> dict[str, object]:
    return {
        "feedback_id": record["feedback_id"],
        "entities": [],
        "evidence": [],
        "normalizer": "none",
        "route_reason": record["embedding_status"],
        "status": record["embedding_status"],
    }


def summary_of(text: str) -> str:
    """The first sentence, cut to 160 characters at a word where there is one: an extract, not an abstract."""
    sentence = next((part for part in _SENTENCE_END.split(text.strip()) if part.strip()), "").strip()
    if len(sentence) <= _SUMMARY_CHARACTERS:
        return sentence
    cut = sentence[: _SUMMARY_CHARACTERS - 1]
    return f"{cut.rsplit(' ', 1)[0]}…"
