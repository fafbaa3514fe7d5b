"""Which fitted anomaly model counts: scores are made with it and checked against it."""

import polars as pl

from resources.delta_lake import DeltaLakeResource


def current_model(lake: DeltaLakeResource) -> pl.DataFrame | None:
    """The rows of the newest fitted model, by cell, or None before the first fit."""
    if not lake.exists("anomaly_model"):
        return None
    cells = lake.scan("anomaly_model").collect()
    return cells.filter(pl.col("model_version") == pl.col("model_version").max()).sort("cell")
