"""Checks of `normalized_feedback`: one record for each row, in the words of the contract."""

from datetime import timedelta
from typing import Final

import polars as pl

from platform_assets.checks.factory import Check, Day, limited, schema_check, structure
from platform_assets.domain.drift import total_variation
from platform_assets.domain.measurement import Measurement, breaches, share
from platform_assets.domain.thresholds import CheckLimits

WORDS: Final = {
    "sentiment": ("negative", "neutral", "positive", "mixed"),
    "urgency": ("low", "medium", "high", "critical"),
    "normalizer": ("local", "llm", "rules", "none"),
    "status": ("ok", "deferred", "refused", "failed", "no_text"),
}
"""The values that a reader of the table may meet."""

_DAYS_BEFORE: Final = 7


def checks(limits: CheckLimits) -> list[Check]:
    """All checks of this asset."""
    return [
        structure(
            "one_record_per_row",
            "Each row of raw_feedback has one row here.",
            lambda day: one_record_each(day.rows("raw_feedback"), day.rows("normalized_feedback")),
        ),
        structure(
            "values_allowed",
            "Sentiment, urgency, normalizer and status are words of the contract; numbers lie in their ranges.",
            lambda day: values_allowed(day.rows("normalized_feedback")),
        ),
        schema_check("normalized_feedback"),
        limited(
            "share_deferred",
            "Share of readable records of which the local tier is not sure.",
            lambda day: share_deferred(day.rows("normalized_feedback")),
            limits.share_deferred,
        ),
        limited(
            "language_mix",
            "Total variation of the day's languages against those of the seven days before.",
            language_mix,
            limits.language_mix,
        ),
    ]


def one_record_each(raw: pl.DataFrame, normalized: pl.DataFrame) -> Measurement:
    """Compare the two tables row by row."""
    held = normalized.group_by("feedback_id").len("rows")
    wrong = (
        raw.select("feedback_id", pl.lit(1).alias("wanted"))
        .join(held, on="feedback_id", how="full", coalesce=True)
        .filter(pl.col("wanted").is_null() | pl.col("rows").fill_null(0).ne(1))
        .sort("feedback_id")
    )
    found = [f"{identity}: {rows or 0} rows" for identity, _, rows in wrong.iter_rows()]
    return breaches(found, rows=raw.height, what="records without exactly one normalized row")


def values_allowed(normalized: pl.DataFrame) -> Measurement:
    """Look for values outside the contract; null is allowed where nothing could be said."""
    found: list[str] = []
    for column, words in WORDS.items():
        odd = normalized[column].drop_nulls().filter(~normalized[column].drop_nulls().is_in(words))
        found += [f"{column} {value!r} is none of {', '.join(words)}" for value in odd.unique().sort()]
    for column, low, high in (("confidence", 0.0, 1.0), ("sentiment_score", -1.0, 1.0), ("cost_usd", 0.0, None)):
        numbers = normalized[column].drop_nulls()
        outside = numbers.filter(
            numbers.is_nan() | (numbers < low) | (numbers > (high if high is not None else numbers))
        )
        found += [f"{column} {value} is out of range" for value in outside.unique().sort()]
    found += [f"{column} is null" for column in ("status", "normalizer") if normalized[column].has_nulls()]
    return breaches(found, rows=normalized.height, what="values outside the contract")


def share_deferred(normalized: pl.DataFrame) -> Measurement:
    """Deferred ÷ readable."""
    readable = normalized.filter(pl.col("status") != "no_text")
    deferred = readable.filter(pl.col("status") == "deferred")
    reasons = deferred.group_by("route_reason").len().sort("len", descending=True)
    return share(
        deferred.height,
        readable.height,
        "share deferred",
        [f"{reason}: {count}" for reason, count in reasons.iter_rows()],
    )


def language_mix(day: Day) -> Measurement:
    """Compare with the days before; the first days have none to compare with."""
    before = (
        day.lake.scan("normalized_feedback")
        .filter(pl.col("partition_date").is_between(day.date - timedelta(days=_DAYS_BEFORE), day.date, closed="left"))
        .drop_nulls("language")
        .group_by("language")
        .len()
        .collect()
    )
    today = day.rows("normalized_feedback").drop_nulls("language")
    counts, earlier = dict(today.group_by("language").len().iter_rows()), dict(before.iter_rows())
    return Measurement(
        value=total_variation(counts, earlier) if counts and earlier else None,
        limit=1,
        # A share taken from few rows is as uncertain on either side.
        rows=min(today.height, sum(earlier.values())) if earlier else today.height,
        what="change of the language mix",
        reason="",
        examples=[f"{language}: {count}" for language, count in sorted(counts.items(), key=lambda item: -item[1])[:5]],
    )
