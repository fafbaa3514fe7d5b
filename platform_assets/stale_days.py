"""Days that hold what another version of a model made than the one that serves: what a backfill would renew."""

from datetime import date

import polars as pl

from platform_assets.current_model import current_model
from resources.delta_lake import DeltaLakeResource


def days_of_other_encoders(lake: DeltaLakeResource, embedder_version: str, embedder_hash: str) -> list[date]:
    """The days with a vector that this embedder has not made, ascending.

    An empty hash, as of a server elsewhere, is not compared.
    """
    if not lake.exists("feedback_embeddings"):
        return []
    other = pl.col("model_version") != embedder_version
    if embedder_hash:
        other |= pl.col("model_hash") != embedder_hash
    return _days(lake.scan("feedback_embeddings").filter(pl.col("status") == "ok", other))


def days_of_other_detectors(lake: DeltaLakeResource) -> list[date]:
    """The days with a score that the current anomaly model has not given, ascending."""
    cells = current_model(lake)
    if cells is None or not lake.exists("anomaly_scores"):
        return []
    other = (pl.col("model_version") != str(cells["model_version"][0])) | (
        pl.col("model_hash") != cells["model_hash"][0]
    )
    return _days(lake.scan("anomaly_scores").filter(pl.col("score").is_not_null(), other))


def detector_fits(lake: DeltaLakeResource, embedder_version: str, embedder_hash: str) -> bool:
    """Whether the current anomaly model, if there is one, was fitted on this embedder's vectors."""
    cells = current_model(lake)
    return cells is None or (cells["embedder_version"][0], cells["embedder_hash"][0]) == (
        embedder_version,
        embedder_hash,
    )


def _days(rows: pl.LazyFrame) -> list[date]:
    return sorted(rows.select("partition_date").unique().collect()["partition_date"])
