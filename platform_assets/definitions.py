"""Assembles the code location: assets, checks, sensors, jobs and resources, and nothing else.

Loading it reads `config/thresholds.yaml`, which says what blocks, and `config/sources.yaml`, which says what is pulled;
nothing runs when the module is imported.
"""

from collections.abc import Mapping
from pathlib import Path

import dagster as dg

from platform_assets.assets.anomaly_model import anomaly_model
from platform_assets.assets.anomaly_scores import anomaly_scores
from platform_assets.assets.common import LAKE_IO
from platform_assets.assets.daily_summary import daily_summary
from platform_assets.assets.feedback_embeddings import feedback_embeddings
from platform_assets.assets.normalized_feedback import normalized_feedback
from platform_assets.assets.raw_feedback import raw_feedback
from platform_assets.assets.served_models import served_models
from platform_assets.checks import anomaly_scores as anomaly_scores_checks
from platform_assets.checks import daily_summary as daily_summary_checks
from platform_assets.checks import feedback_embeddings as feedback_embeddings_checks
from platform_assets.checks import normalized_feedback as normalized_feedback_checks
from platform_assets.checks import raw_feedback as raw_feedback_checks
from platform_assets.checks import served_models as served_models_checks
from platform_assets.checks.factory import checks_of
from platform_assets.domain.thresholds import CheckLimits
from platform_assets.jobs import feedback_day, fit_anomaly_model
from platform_assets.sensors.anomaly_model_sensor import anomaly_model_sensor
from platform_assets.sensors.landing_sensor import landing_sensor
from platform_assets.sensors.pull_sensors import pull_sensors
from platform_assets.settings import (
    Settings,
    SettingsResource,
    delta_io_from_settings,
    find_project,
    lake_from_settings,
    landing_from_settings,
    triton_from_settings,
)


def build_defs(settings: Settings, resource_overrides: Mapping[str, object] | None = None) -> dg.Definitions:
    """The definitions of one project.

    Args:
        settings: the project's configuration.
        resource_overrides: resources that replace the project's own, by key.

    Raises:
        ConfigurationError: `config/thresholds.yaml` or `config/sources.yaml` is not valid.
    """
    resources: dict[str, object] = {
        "settings": SettingsResource(project=str(settings.project)),
        "lake": lake_from_settings,
        "landing": landing_from_settings,
        "triton": triton_from_settings,
        LAKE_IO: delta_io_from_settings,
    }
    return dg.Definitions(
        assets=[
            raw_feedback,
            feedback_embeddings,
            anomaly_model,
            anomaly_scores,
            normalized_feedback,
            daily_summary,
            served_models,
        ],
        asset_checks=_checks(settings.thresholds.checks),
        sensors=[
            landing_sensor,
            anomaly_model_sensor,
            *pull_sensors(settings),
            dg.AutomationConditionSensorDefinition(
                "default_automation_condition_sensor",
                target=dg.AssetSelection.all(),
                default_status=dg.DefaultSensorStatus.RUNNING,
            ),
        ],
        jobs=[feedback_day, fit_anomaly_model],
        resources={**resources, **(resource_overrides or {})},
        # The steps of a day feed each other whole tables and start in milliseconds; a process for each would
        # cost more than the work. Days run side by side as runs.
        executor=dg.in_process_executor,
    )


def _checks(limits: CheckLimits) -> list[dg.AssetChecksDefinition]:
    return [
        checks_of("raw_feedback", raw_feedback_checks.checks(limits)),
        checks_of("feedback_embeddings", feedback_embeddings_checks.checks(limits)),
        checks_of("anomaly_scores", anomaly_scores_checks.checks(limits)),
        checks_of("normalized_feedback", normalized_feedback_checks.checks(limits)),
        checks_of("daily_summary", daily_summary_checks.checks()),
        *served_models_checks.checks(),
    ]


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions of the project at hand; called when the code location is loaded."""
    return build_defs(Settings(find_project(Path.cwd())))
