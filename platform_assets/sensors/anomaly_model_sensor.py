"""`anomaly_model_sensor`: has the first anomaly model fitted as soon as the reference window holds enough."""

from datetime import date

import dagster as dg
import polars as pl

from platform_assets.jobs import fit_anomaly_model
from platform_assets.settings import SettingsResource
from resources.delta_lake import DeltaLakeResource


@dg.sensor(
    job=fit_anomaly_model,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts the first fit; later ones are a person's decision.",
)
def anomaly_model_sensor(
    context: dg.SensorEvaluationContext, settings: SettingsResource
) -> dg.RunRequest | dg.SkipReason:
    """Request the fit once there is no model and enough distinct vectors are stored."""
    lake = settings.get().lake()
    if lake.exists("anomaly_model"):
        return dg.SkipReason("the anomaly model is fitted")
    needed = settings.get().thresholds.anomaly_model.min_reference_vectors
    held, days = _distinct_vectors(lake)
    if held < needed:
        return dg.SkipReason(f"{held} of {needed} vectors for the reference window")
    return dg.RunRequest(run_key=f"first-fit:{days}")


def _distinct_vectors(lake: DeltaLakeResource) -> tuple[int, date | None]:
    if not lake.exists("feedback_embeddings"):
        return 0, None
    counted = (
        lake.scan("feedback_embeddings")
        .filter(pl.col("status") == "ok")
        .select(pl.col("content_hash").n_unique(), pl.col("partition_date").max())
        .collect()
    )
    return counted.row(0)
