"""A day in numbers, as the tables hold it: what commands tell beside the checks."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from datetime import date

import polars as pl

from resources.delta_lake import PARTITION_COLUMN, DeltaLakeResource


@dataclass
class DayCounts:
    """Numbers of records; None where the table has not been written."""

    files: int | None = None
    records: int | None = None
    """In the landed files."""
    loaded: int | None = None
    quarantined: int | None = None
    embedded: int | None = None
    normalized: int | None = None
    """With an answer (status `ok`)."""
    deferred: int | None = None
    anomalies: int | None = None
    failed: int | None = None
    """For which a model gave no usable answer."""

    def __add__(self, other: "DayCounts") -> "DayCounts":
        mine, others = asdict(self), asdict(other)
        return DayCounts(**{name: _sum(mine[name], others[name]) for name in mine})


COLUMNS = [field.name for field in fields(DayCounts)]
"""The names of the numbers, in the order in which a record meets them."""


def day_counts(
    lake: DeltaLakeResource, days: Collection[date], tables: Collection[str] | None = None
) -> dict[date, DayCounts]:
    """Count each of `days`.

    Args:
        lake: the tables.
        days: the days to count.
        tables: only count from these tables, which were written for all of `days`; None for all tables, where a
            day without rows counts as not written.
    """
    absent: list[int | None] = [None if tables is None else 0]
    counts = {day: DayCounts() for day in days}
    failed: list[pl.LazyFrame] = []

    def scan(table: str) -> pl.LazyFrame | None:
        if not days or not lake.exists(table) or (tables is not None and table not in tables):
            return None
        return lake.scan(table).filter(pl.col(PARTITION_COLUMN).is_in(list(days)))

    def fill(frame: pl.LazyFrame, **numbers: pl.Expr) -> None:
        named = [number.cast(pl.Int64).alias(name) for name, number in numbers.items()]
        found = {row[0]: row[1:] for row in frame.group_by(PARTITION_COLUMN).agg(named).collect().iter_rows()}
        for day, counted in counts.items():
            for name, number in zip(numbers, found.get(day, absent * len(named)), strict=True):
                setattr(counted, name, number)

    if (ledger := scan("landed_files")) is not None:
        fill(
            ledger,
            files=pl.len(),
            records=pl.sum("records"),
            loaded=pl.sum("loaded"),
            quarantined=pl.sum("quarantined"),
        )
    if (vectors := scan("feedback_embeddings")) is not None:
        fill(vectors, embedded=(pl.col("status") == "ok").sum())
        failed.append(_failed(vectors))
    if (scores := scan("anomaly_scores")) is not None:
        fill(scores, anomalies=pl.col("is_anomaly").sum())
    if (normalized := scan("normalized_feedback")) is not None:
        fill(
            normalized,
            normalized=(pl.col("status") == "ok").sum(),
            deferred=(pl.col("status") == "deferred").sum(),
        )
        failed.append(_failed(normalized))
    if failed:
        fill(pl.concat(failed), failed=pl.col("feedback_id").filter(pl.col("failed")).n_unique())
    return counts


def _failed(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select(PARTITION_COLUMN, "feedback_id", (pl.col("status") == "failed").alias("failed"))


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else one + other
