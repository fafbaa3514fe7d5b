"""`anomaly_model_sensor`: has the first anomaly model fitted as soon as the reference window holds enough."""

from pathlib import Path
from typing import Final

import dagster as dg

from platform_assets.assets.anomaly_model import reference_days
from platform_assets.current_model import is_fitted
from platform_assets.jobs import fit_anomaly_model
from platform_assets.settings import SettingsResource

SIZE_TAG: Final = "feedback/reference_texts"
"""Run tag: how many different texts the window held, so that the next look knows what was tried already."""

ATTEMPTS: Final = 3


@dg.sensor(
    job=fit_anomaly_model,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts the first fit; later ones are a person's decision.",
)
def anomaly_model_sensor(
    context: dg.SensorEvaluationContext, settings: SettingsResource
) -> dg.RunRequest | dg.SkipReason:
    """Request the fit while there is no model to score with and enough different texts have vectors."""
    config = settings.get()
    lake, limits = config.lake(), config.thresholds.anomaly_model
    if is_fitted(lake, Path(config.triton().repository)):
        return dg.SkipReason("the anomaly model is fitted")
    window = reference_days(lake, limits)
    held = window.distinct if window else 0
    if held < limits.min_reference_vectors:
        return dg.SkipReason(f"{held} of {limits.min_reference_vectors} different texts for the reference window")
    tried = context.instance.get_runs(dg.RunsFilter(job_name=fit_anomaly_model.name, tags={SIZE_TAG: str(held)}))
    if any(not run.is_finished for run in tried):
        return dg.SkipReason("a fit is under way")
    if len(tried) >= ATTEMPTS:
        return dg.SkipReason(f"tried {ATTEMPTS} times without success: see its failed run, then `feedback run`")
    return dg.RunRequest(run_key=f"first-fit:{held}:{len(tried) + 1}", tags={SIZE_TAG: str(held)})
