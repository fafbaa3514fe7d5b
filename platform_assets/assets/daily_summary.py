"""`daily_summary`: the day in numbers, for each source and category."""

import dagster as dg
import polars as pl

from platform_assets.assets.common import LAKE_IO, WHEN_UPSTREAM_CHANGES, table_metadata
from platform_assets.domain.daily_summary import summarize
from platform_assets.partitions import ARRIVAL_DAYS


@dg.asset(
    partitions_def=ARRIVAL_DAYS,
    io_manager_key=LAKE_IO,
    group_name="published",
    kinds={"polars", "deltalake"},
    metadata=table_metadata("daily_summary"),
    automation_condition=WHEN_UPSTREAM_CHANGES,
)
def daily_summary(
    raw_feedback: pl.LazyFrame, normalized_feedback: pl.LazyFrame, anomaly_scores: pl.LazyFrame
) -> dg.Output[pl.DataFrame]:
    """Volume, sentiment, anomalies and urgent records by source and category."""
    table = summarize(raw_feedback.collect(), normalized_feedback.collect(), anomaly_scores.collect())
    return dg.Output(
        table, metadata={"records": int(table["volume"].sum()), "anomalies": int(table["anomalies"].sum())}
    )
