"""`anomaly_model`: fitted on a reference window, served by Triton as a new version."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import polars as pl

from platform_assets.assets.common import TRITON_RETRIES, table_metadata
from platform_assets.domain.anomaly_model import AnomalyModel, fit_anomaly_model, novelty
from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.tables import ANOMALY_MODEL, conform
from platform_assets.domain.vectors import matrix
from platform_assets.failures import clear_failures
from platform_assets.settings import SettingsResource
from resources.delta_lake import DeltaLakeResource
from resources.model_repository import ModelCard, ModelRepository
from resources.triton import ModelContractError, TritonResource

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DETECTOR = "anomaly_detector"
"""The model's name in Triton."""

_SERVED_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Reference:
    """The vectors that a model is fitted on: those of the first days, of one encoder version."""

    rows: pl.DataFrame
    embedder_version: str

    @property
    def vectors(self) -> "NDArray[np.float32]":
        """(n, dims)."""
        return matrix(self.rows["embedding"])

    @property
    def contents(self) -> "NDArray[np.int64]":
        """(n,), equal for equal texts."""
        return self.rows["content_hash"].rank("dense").cast(pl.Int64).to_numpy()

    @property
    def days(self) -> "NDArray[np.int64]":
        """(n,), days since 1970."""
        return self.rows["partition_date"].to_physical().cast(pl.Int64).to_numpy()


@dg.asset(
    deps=["feedback_embeddings"],
    group_name="models",
    kinds={"scikitlearn", "onnx", "triton"},
    metadata=table_metadata("anomaly_model"),
    retry_policy=TRITON_RETRIES,
)
def anomaly_model(
    context: dg.AssetExecutionContext,
    settings: SettingsResource,
    lake: dg.ResourceParam[DeltaLakeResource],
    triton: dg.ResourceParam[TritonResource],
) -> dg.MaterializeResult[None]:
    """Fit k-means on the reference window, calibrate its threshold, and serve it as a new version.

    The window is the first days with vectors, as many as `anomaly_model.reference_days` in thresholds.yaml says.
    Fitting the same vectors again gives the same file, so no new version.
    """
    from resources.anomaly_graph import anomaly_detector_graph

    limits = settings.get().thresholds.anomaly_model
    with clear_failures():
        reference = reference_window(lake, limits.reference_days)
        vectors = reference.vectors
        model = fit_anomaly_model(vectors, reference.contents, reference.days, limits)
        repository = ModelRepository(Path(settings.get().path(settings.get().platform.triton.repository)))
        version = repository.add_version(
            DETECTOR,
            {"model.onnx": anomaly_detector_graph(model.centroids)},
            ModelCard(
                source=f"fitted on {len(vectors)} vectors of text_embedder {reference.embedder_version}",
                created_at=datetime.now(UTC),
                dims=vectors.shape[1],
                details={"cells": len(model.centroids), "threshold": model.threshold},
            ),
        )
        triton.load_model(DETECTOR)
        _prove_served(triton, version, vectors[:32], model)
        table = model_table(model, version, reference)
        lake.replace("anomaly_model", table, {"model_version": version})
    context.log.info(f"{DETECTOR} version {version} serves, threshold {model.threshold:.3f}")
    return dg.MaterializeResult(
        metadata={
            "version": version,
            "threshold": model.threshold,
            "cells": len(model.centroids),
            "reference_vectors": len(vectors),
            "reference_days": f"{table['reference_from'][0]} to {table['reference_to'][0]}",
        }
    )


def reference_window(lake: DeltaLakeResource, days: int) -> Reference:
    """Read the reference: of the first `days` days with vectors, those of the newest encoder version.

    Raises:
        FeedbackError: there are no vectors yet.
    """
    if not lake.exists("feedback_embeddings"):
        raise FeedbackError("there are no vectors yet: materialize feedback_embeddings first")
    usable = lake.scan("feedback_embeddings").filter(pl.col("status") == "ok")
    versions = usable.select("model_version").unique().collect()["model_version"].to_list()
    if not versions:
        raise FeedbackError("there are no vectors yet: materialize feedback_embeddings first")
    newest = max(versions, key=int)
    usable = usable.filter(pl.col("model_version") == newest)
    window = usable.select("partition_date").unique().sort("partition_date").head(days).collect()["partition_date"]
    rows = (
        usable.filter(pl.col("partition_date").is_in(window.implode()))
        .select("feedback_id", "partition_date", "content_hash", "embedding")
        .collect()
        .sort("partition_date", "feedback_id")
    )
    return Reference(rows, newest)


def distinct_vectors(lake: DeltaLakeResource) -> int:
    """Number of different texts that have a vector: what a reference window can be made of."""
    if not lake.exists("feedback_embeddings"):
        return 0
    usable = lake.scan("feedback_embeddings").filter(pl.col("status") == "ok")
    return int(usable.select(pl.col("content_hash").n_unique()).collect().item())


def model_table(model: AnomalyModel, version: int, reference: Reference) -> pl.DataFrame:
    """The model as rows of the table, one a cell."""
    days = reference.rows["partition_date"]
    return conform(
        pl.DataFrame(
            {
                "cell": range(len(model.centroids)),
                "cell_size": model.sizes,
                "nearest_feedback_id": reference.rows["feedback_id"].gather(model.exemplars),
            }
        ).with_columns(
            model_version=pl.lit(version),
            embedder_version=pl.lit(reference.embedder_version),
            threshold=pl.lit(model.threshold),
            reference_mean=pl.lit(model.reference_mean),
            reference_sd=pl.lit(model.reference_sd),
            reference_rows=pl.lit(reference.rows.height),
            reference_from=pl.lit(days.min()),
            reference_to=pl.lit(days.max()),
        ),
        ANOMALY_MODEL,
    )


def _prove_served(triton: TritonResource, version: int, vectors: "NDArray[np.float32]", model: AnomalyModel) -> None:
    served = triton.infer(DETECTOR, {"embeddings": vectors}, version=str(version))["score"].reshape(-1)
    worst = max(abs(a - b) for a, b in zip(served.tolist(), novelty(vectors, model.centroids).tolist(), strict=True))
    if worst > _SERVED_TOLERANCE:
        raise ModelContractError(
            f"{DETECTOR} version {version} serves scores that differ by {worst:.1e} from the fitted model: "
            "rebuild it with `feedback run --select anomaly_model`"
        )
