from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from platform_assets.domain.thresholds import CheckLimits, Limit, Thresholds


@pytest.fixture
def shipped(project_root: Path) -> dict[str, Any]:
    return yaml.safe_load((project_root / "config/thresholds.yaml").read_text())


def test_the_shipped_file_is_valid_and_gives_every_limit(shipped: dict[str, Any]) -> None:
    assert set(shipped["checks"]) == set(CheckLimits.model_fields)
    assert all(limit.severity == "warn" for _, limit in Thresholds.model_validate(shipped).checks)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("checks", "share_quarantined", {"limit": 1.1, "reason": "long enough reason"}),
        ("checks", "share_anomalous", {"limit": -0.1, "reason": "long enough reason"}),
        ("checks", "novelty_drift", {"limit": float("nan"), "reason": "long enough reason"}),
        ("checks", "novelty_drift", {"limit": 2, "reason": "short"}),
        ("checks", "novelty_drift", {"limit": 2}),
        ("checks", "novelty_drift", {"limit": 2, "reason": "long enough reason", "severity": "stop"}),
        ("checks", "novelty_drift", {"limit": 2, "reason": "long enough reason", "min_rows": 0}),
        ("checks", "unknown_check", {"limit": 2, "reason": "long enough reason"}),
        ("local_tier", "min_language_confidence", 1.5),
        ("local_tier", "category_temperature", 0),
        ("anomaly_model", "false_alarm_rate", 0.5),
        ("anomaly_model", "false_alarm_rate", 0),
        ("anomaly_model", "min_reference_vectors", 19),
        ("anomaly_model", "reference_days", 0),
        ("anomaly_model", "max_cells", 1),
    ],
)
def test_a_bad_value_is_refused(shipped: dict[str, Any], section: str, key: str, value: Any) -> None:
    shipped[section][key] = value
    with pytest.raises(ValidationError):
        Thresholds.model_validate(shipped)


def test_novelty_drift_is_no_share() -> None:
    assert Limit(limit=2, reason="long enough reason").limit == 2
