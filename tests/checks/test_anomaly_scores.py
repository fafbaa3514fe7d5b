import math
from datetime import date
from typing import Any

import pytest

from platform_assets.checks.anomaly_scores import anomalous, novelty_drift, one_score_each, share_anomalous
from platform_assets.domain.measurement import Verdict
from tests.checks.conftest import Store, frame

VECTORS = frame(
    "feedback_embeddings", [{"feedback_id": "a", "status": "ok"}, {"feedback_id": "b", "status": "no_text"}]
)
MODEL = {
    "model_version": 1,
    "cell": 0,
    "reference_mean": 0.4,
    "reference_sd": 0.1,
    "reference_from": date(2026, 1, 1),
    "reference_to": date(2026, 1, 7),
}


def scores(*rows: tuple[str, float | None], version: str | None = "1") -> Any:
    named = [
        {"feedback_id": identity, "score": score, "is_anomaly": score and score > 0.5, "model_version": version}
        for identity, score in rows
    ]
    return frame("anomaly_scores", named)


@pytest.mark.parametrize(
    ("rows", "has_model", "found"),
    [
        ([("a", 0.3), ("b", None)], True, []),
        ([("a", None), ("b", None)], False, []),
        ([("a", None), ("b", None)], True, ["a: 1 rows, scored: False"]),
        ([("a", math.nan), ("b", None)], True, ["a: 1 rows, scored: False"]),
        ([("a", 0.3)], True, ["b: 0 rows, scored: None"]),
        ([("a", 0.3), ("a", 0.3), ("b", None)], True, ["a: 2 rows, scored: True"]),
        ([("a", 0.3), ("b", None), ("c", 0.3)], True, ["c: 1 rows, scored: True"]),
    ],
)
def test_one_score_each(rows: list, has_model: bool, found: list[str]) -> None:
    measured = one_score_each(VECTORS, scores(*rows, version="1" if has_model else None))
    assert (measured.examples, measured.value, measured.rows) == (found, len(found), 2)


@pytest.mark.parametrize(
    ("rows", "value"),
    [([("a", 0.1), ("b", 0.2), ("c", 0.9), ("d", None)], 1 / 3), ([("a", None)], None), ([], None), ([("a", 0.1)], 0)],
)
def test_share_anomalous(rows: list, value: float | None) -> None:
    assert share_anomalous(scores(*rows)).value == value


def stored(values: list[float | None], version: str | None = "2") -> list[dict[str, Any]]:
    return [{"feedback_id": str(index), "score": value, "model_version": version} for index, value in enumerate(values)]


def texts(count: int) -> list[dict[str, Any]]:
    return [{"feedback_id": str(index), "text": f"text {index}."} for index in range(count)]


@pytest.mark.parametrize(
    ("values", "z"), [([0.5] * 25, 5.0), ([0.4] * 25 + [None], 0.0), ([0.3] * 4, -2.0), ([None], None), ([], None)]
)
def test_novelty_drift_is_held_against_the_model_that_made_the_scores(
    store: Store, values: list, z: float | None
) -> None:
    store(anomaly_model=[{**MODEL, "reference_mean": 0.0}])
    store(anomaly_model=[{**MODEL, "model_version": 2}])
    store(anomaly_model=[{**MODEL, "model_version": 3, "reference_mean": 9.0}])
    measured = novelty_drift(store(anomaly_scores=stored(values), raw_feedback=texts(len(values))))
    assert measured.value == (None if z is None else pytest.approx(z))
    assert measured.rows == len([value for value in values if value is not None])


def test_novelty_drift_without_a_model_has_nothing_to_compare_with(store: Store) -> None:
    measured = novelty_drift(store(anomaly_scores=stored([None, None], None), raw_feedback=texts(2)))
    assert measured.verdict is Verdict.NOT_ENOUGH_DATA


def test_novelty_drift_shows_what_is_least_like_the_reference(store: Store) -> None:
    store(anomaly_model=[MODEL])
    measured = novelty_drift(store(anomaly_scores=stored([0.1, 0.9, 0.5], "1"), raw_feedback=texts(3)))
    assert [example.split(":")[0] for example in measured.examples] == ["0.900", "0.500", "0.100"]
    assert "text 1." in measured.examples[0]


@pytest.mark.parametrize("measure", [novelty_drift, anomalous])
def test_a_day_of_the_reference_window_is_not_judged_by_its_own_model(store: Store, measure: Any) -> None:
    day = store(anomaly_scores=stored([0.1] * 30, "1"), raw_feedback=texts(30))
    store(anomaly_model=[{**MODEL, "reference_from": day.date, "reference_to": day.date}])
    measured = measure(day)
    assert measured.verdict is Verdict.NOT_ENOUGH_DATA
    assert "reference window" in measured.sentence


def test_a_reference_without_any_spread_is_nothing_to_compare_with(store: Store) -> None:
    store(anomaly_model=[{**MODEL, "reference_sd": 0.0}])
    assert novelty_drift(store(anomaly_scores=stored([0.5] * 30, "1"), raw_feedback=texts(30))).value is None
