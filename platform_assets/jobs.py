"""The jobs that sensors and people start: one day, and the anomaly model."""

from typing import Final

import dagster as dg

DAY_ASSETS: Final = (
    "raw_feedback",
    "quarantined_feedback",
    "landed_files",
    "feedback_embeddings",
    "anomaly_scores",
    "normalized_feedback",
    "daily_summary",
)
"""Everything that one day of arrival goes through, in order."""

feedback_day: Final = dg.define_asset_job(
    "feedback_day",
    selection=dg.AssetSelection.assets(*DAY_ASSETS),
    description="One day from its landed files to its summary, with all checks.",
)

fit_anomaly_model: Final = dg.define_asset_job(
    "fit_anomaly_model",
    selection=dg.AssetSelection.assets("anomaly_model"),
    description="Fit the anomaly model on the reference window and serve it.",
)
