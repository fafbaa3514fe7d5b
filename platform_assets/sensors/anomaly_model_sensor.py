"""`anomaly_model_sensor`: has the first anomaly model fitted as soon as the reference window holds enough."""

import dagster as dg

from platform_assets.assets.anomaly_model import distinct_vectors
from platform_assets.jobs import fit_anomaly_model
from platform_assets.settings import SettingsResource


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
    held = distinct_vectors(lake)
    if held < needed:
        return dg.SkipReason(f"{held} of {needed} different texts for the reference window")
    # A failed fit is tried again when more is there.
    return dg.RunRequest(run_key=f"first-fit:{held}")
