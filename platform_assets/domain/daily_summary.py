"""A day in numbers, for each source and category."""

import polars as pl

from platform_assets.domain.tables import DAILY_SUMMARY, conform

UNSORTED = "none"
"""The category of records that nobody could read."""


def summarize(raw: pl.DataFrame, normalized: pl.DataFrame, scores: pl.DataFrame) -> pl.DataFrame:
    """Count one day: each record falls into exactly one row, so `volume` adds up to the day's records.

    Args:
        raw: feedback_id, source of `raw_feedback`.
        normalized: the day's `normalized_feedback`.
        scores: the day's `anomaly_scores`.
    """
    records = (
        raw.select("feedback_id", "source")
        .join(normalized, on="feedback_id", how="left")
        .join(scores.select("feedback_id", "is_anomaly"), on="feedback_id", how="left")
    )
    return conform(
        records.group_by("partition_date", "source", pl.col("category").fill_null(UNSORTED))
        .agg(
            pl.len().alias("volume"),
            *((pl.col("sentiment") == side).sum().alias(side) for side in ("negative", "neutral", "positive", "mixed")),
            pl.col("sentiment_score").mean().alias("mean_sentiment_score"),
            pl.col("is_anomaly").sum().alias("anomalies"),
            pl.col("urgency").is_in(["high", "critical"]).sum().alias("urgent"),
            (pl.col("status") == "deferred").sum().alias("deferred"),
        )
        .sort("source", "category"),
        DAILY_SUMMARY,
    )
