"""`anomaly_model`: fitted on a reference window, served by Triton as a new version."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import polars as pl

from platform_assets.assets.common import SERVER_RETRIES, table_metadata
from platform_assets.current_model import DETECTOR, current_model, model_hash
from platform_assets.domain.anomaly_model import AnomalyModel, fit_anomaly_model, novelty
from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.promotions import Action
from platform_assets.domain.tables import ANOMALY_MODEL, conform
from platform_assets.domain.thresholds import AnomalyModelLimits
from platform_assets.domain.vectors import matrix
from platform_assets.failures import clear_failures
from platform_assets.promotions import ENCODER, Promotion, newest, record
from platform_assets.settings import SettingsResource
from resources.delta_lake import DeltaLakeResource
from resources.model_promotion import loaded_together
from resources.model_repository import ModelCard, ModelRepository
from resources.triton import ModelContractError, TritonResource

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SERVED_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Reference:
    """The vectors that a model is fitted on: those of the first days, of one encoder."""

    rows: pl.DataFrame
    embedder_version: str
    embedder_hash: str

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
    retry_policy=SERVER_RETRIES,
)
def anomaly_model(
    context: dg.AssetExecutionContext,
    settings: SettingsResource,
    lake: dg.ResourceParam[DeltaLakeResource],
    triton: dg.ResourceParam[TritonResource],
) -> dg.MaterializeResult[None]:
    """Fit k-means on the reference window, calibrate its threshold, and serve it as a new version.

    The window is the first days with vectors: `anomaly_model.reference_days` of thresholds.yaml, and as many more
    as it takes to hold `min_reference_vectors` different texts. Fitting the same vectors again gives the same file,
    so no new version.
    """
    from resources.anomaly_graph import anomaly_detector_graph

    limits = settings.get().thresholds.anomaly_model
    with clear_failures():
        reference = reference_window(lake, limits)
        vectors = reference.vectors
        model = fit_anomaly_model(vectors, reference.contents, reference.days, limits)
        repository = Path(triton.repository)
        before = current_model(lake)
        models = ModelRepository(repository)
        version = models.add_version(
            DETECTOR,
            {"model.onnx": anomaly_detector_graph(model.centroids)},
            ModelCard(
                source=f"fitted on {len(vectors)} vectors of text_embedder {reference.embedder_version}",
                created_at=datetime.now(UTC),
                dims=vectors.shape[1],
                details={"cells": len(model.centroids), "threshold": model.threshold},
            ),
            above=_last_version(lake),
        )
        former = int(before["model_version"][0]) if before is not None else None
        # The former may be lost, after which nobody can ask for it.
        wanted = {former, version} & set(models.versions(DETECTOR))
        with loaded_together(models, triton, DETECTOR, sorted(one for one in wanted if one)) as keep:
            _prove_served(triton, version, vectors[:32], model)
            table = model_table(model, version, reference, model_hash(repository, DETECTOR, str(version)))
            lake.replace("anomaly_model", table, {"model_version": version})
            _record(lake, models, table, former)
            keep()
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


def _last_version(lake: DeltaLakeResource) -> int:
    """The greatest version that was ever fitted, whether it serves or not; 0 before the first."""
    if not lake.exists("anomaly_model"):
        return 0
    return int(lake.scan("anomaly_model").select(pl.col("model_version").max()).collect().item() or 0)


def _record(lake: DeltaLakeResource, models: ModelRepository, table: pl.DataFrame, former: int | None) -> None:
    """A fit is a decision to serve it: note it, unless it serves already."""
    version = int(table["model_version"][0])
    if version == former and newest(lake, DETECTOR):
        return
    record(
        lake,
        Promotion(
            model=DETECTOR,
            version=version,
            former=former if former != version else None,
            action=Action.FITTED,
            promoted_at=datetime.now(UTC),
            source=models.card(DETECTOR, version).source,
            model_hash=table["model_hash"][0],
            embedder_version=table["embedder_version"][0],
        ),
    )


def reference_window(lake: DeltaLakeResource, limits: AnomalyModelLimits) -> Reference:
    """Read the reference.

    Raises:
        FeedbackError: there are no vectors yet.
    """
    found = reference_days(lake, limits)
    if found is None:
        raise FeedbackError("there are no vectors yet: materialize feedback_embeddings first")
    encoder = found.encoder
    rows = (
        _vectors(lake)
        .filter(
            pl.col("partition_date").is_in(found.days),
            pl.col("model_version") == encoder[0],
            pl.col("model_hash") == encoder[1],
        )
        .select("feedback_id", "partition_date", "content_hash", "embedding")
        .collect()
        .sort("partition_date", "feedback_id")
    )
    return Reference(rows, *encoder)


@dataclass(frozen=True)
class ReferenceDays:
    """Which days a reference window is made of."""

    days: list[date]
    distinct: int
    """Number of different texts on them."""
    encoder: tuple[str, str]
    """Version and hash of the encoder that serves; vectors of another lie in another space."""


def reference_days(lake: DeltaLakeResource, limits: AnomalyModelLimits) -> ReferenceDays | None:
    """The window as it would be now, or None while there are no vectors; it may still hold too few texts.

    Its vectors are those of the encoder that was promoted last; in a lake without a promotion, of the newest.
    """
    if not lake.exists("feedback_embeddings"):
        return None
    held = (
        _vectors(lake)
        .select("partition_date", "content_hash", "model_version", "model_hash")
        .unique()
        .collect()
        .sort("partition_date")
    )
    if held.is_empty():
        return None
    if promoted := newest(lake, ENCODER):
        encoder = (promoted.embedder_version, promoted.model_hash)
    else:
        last = held.filter(pl.col("model_version").cast(pl.Int64) == pl.col("model_version").cast(pl.Int64).max())
        encoder = (last["model_version"][0], last["model_hash"][-1])
    held = held.filter(pl.col("model_version") == encoder[0], pl.col("model_hash") == encoder[1])
    if held.is_empty():
        return None
    texts: set[str] = set()
    days: list[date] = []
    for (day,), rows in held.group_by("partition_date", maintain_order=True):
        if len(days) >= limits.reference_days and len(texts) >= limits.min_reference_vectors:
            break
        assert isinstance(day, date)  # noqa: S101
        days.append(day)
        texts.update(rows["content_hash"])
    return ReferenceDays(days, len(texts), encoder)


def _vectors(lake: DeltaLakeResource) -> pl.LazyFrame:
    return lake.scan("feedback_embeddings").filter(pl.col("status") == "ok")


def model_table(model: AnomalyModel, version: int, reference: Reference, file_hash: str) -> pl.DataFrame:
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
            model_hash=pl.lit(file_hash),
            embedder_version=pl.lit(reference.embedder_version),
            embedder_hash=pl.lit(reference.embedder_hash),
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
