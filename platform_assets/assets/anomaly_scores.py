"""`anomaly_scores`: how unlike the reference each record of the day is, from Triton."""

import dagster as dg
import polars as pl

from platform_assets.assets.common import (
    LAKE_IO,
    SERVER_RETRIES,
    WHEN_UPSTREAM_CHANGES,
    table_metadata,
)
from platform_assets.current_model import DETECTOR, current_model
from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.tables import ANOMALY_SCORES, conform
from platform_assets.domain.vectors import matrix
from platform_assets.failures import clear_failures
from platform_assets.partitions import ARRIVAL_DAYS
from resources.delta_lake import DeltaLakeResource
from resources.triton import TritonResource


@dg.asset(
    partitions_def=ARRIVAL_DAYS,
    io_manager_key=LAKE_IO,
    deps=["anomaly_model"],
    group_name="models",
    kinds={"triton", "deltalake"},
    metadata=table_metadata("anomaly_scores"),
    retry_policy=SERVER_RETRIES,
    automation_condition=WHEN_UPSTREAM_CHANGES,
)
def anomaly_scores(
    context: dg.AssetExecutionContext,
    feedback_embeddings: pl.LazyFrame,
    lake: dg.ResourceParam[DeltaLakeResource],
    triton: dg.ResourceParam[TritonResource],
) -> dg.Output[pl.DataFrame]:
    """One row for each row of feedback_embeddings; score and verdict are null without a vector or a model.

    `nearest_feedback_id` is the reference record nearest to the record's cell: what it is most like.
    """
    vectors = feedback_embeddings.select(
        "feedback_id", "partition_date", "embedding", "status", "model_version", "model_hash"
    ).collect()
    usable = vectors.filter(pl.col("status") == "ok")
    with clear_failures():
        cells = current_model(lake)
        if cells is None:
            context.log.warning("no anomaly model yet: the scores stay empty until it is fitted")
            scored = pl.DataFrame(schema=_SCORED)
        else:
            scored = _score(usable, cells, triton)
    # A row without a vector names the model, too: it was looked at, and nothing could be scored.
    table = (
        vectors.select("feedback_id", "partition_date")
        .join(scored, on="feedback_id", how="left", maintain_order="left")
        .with_columns(
            model_name=pl.lit(None if cells is None else DETECTOR),
            model_version=pl.lit(None if cells is None else str(cells["model_version"][0])),
            model_hash=pl.lit(None if cells is None else cells["model_hash"][0]),
        )
    )
    return dg.Output(
        conform(table, ANOMALY_SCORES),
        metadata={"scored": scored.height, "anomalies": int(table["is_anomaly"].sum())},
    )


_SCORED = {
    name: ANOMALY_SCORES[name] for name in ("feedback_id", "score", "threshold", "is_anomaly", "nearest_feedback_id")
}


def _score(usable: pl.DataFrame, cells: pl.DataFrame, triton: TritonResource) -> pl.DataFrame:
    version = str(cells["model_version"][0])
    fitted_on = (cells["embedder_version"][0], cells["embedder_hash"][0])
    encoders = usable.select("model_version", "model_hash").unique().rows()
    if other := [encoder for encoder in encoders if encoder != fitted_on]:
        raise FeedbackError(
            f"the vectors come from text_embedder {' '.join(other[0]).strip()}, the anomaly model was fitted on "
            f"{' '.join(fitted_on).strip()}: run `feedback run --select anomaly_model`"
        )
    if usable.is_empty():
        return pl.DataFrame(schema=_SCORED)
    answer = triton.infer(DETECTOR, {"embeddings": matrix(usable["embedding"])}, version=version)
    return (
        usable.select("feedback_id")
        .with_columns(
            score=pl.Series(answer["score"].reshape(-1), dtype=pl.Float64),
            cell=pl.Series(answer["cell"].reshape(-1), dtype=pl.Int64),
            threshold=pl.lit(cells["threshold"][0]),
        )
        .with_columns(is_anomaly=pl.col("score") > pl.col("threshold"))
        .join(cells.select("cell", "nearest_feedback_id"), on="cell", how="left", maintain_order="left")
        .select(*_SCORED)
    )
