import numpy as np
import pytest
from numpy.typing import NDArray

from platform_assets.domain.anomaly_model import AnomalyModel, fit_anomaly_model, novelty
from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.thresholds import AnomalyModelLimits

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

TOPICS = 30
DIMS = 48
LIMITS = AnomalyModelLimits(
    reference_days=7,
    min_reference_vectors=100,
    vectors_per_cell=10,
    max_cells=60,
    false_alarm_rate=0.05,
    reason="for a small synthetic world",
)


def unit(vectors: NDArray[np.float64]) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


TOPIC_DIRECTIONS = unit(np.random.default_rng(0).normal(size=(TOPICS, DIMS)))


def texts(count: int, seed: int) -> Floats:
    """Vectors of `count` texts, each near one of the topics."""
    rng = np.random.default_rng(seed)
    return unit(TOPIC_DIRECTIONS[rng.integers(TOPICS, size=count)] + rng.normal(scale=0.08, size=(count, DIMS)))


def strangers(count: int, seed: int) -> Floats:
    return unit(np.random.default_rng(seed).normal(size=(count, DIMS)))


def numbers(count: int) -> Integers:
    return np.arange(count, dtype=np.int64)


@pytest.fixture(scope="module")
def fitted() -> AnomalyModel:
    reference = texts(1400, seed=1)
    return fit_anomaly_model(reference, numbers(1400), numbers(1400) % 7, LIMITS)


def test_the_model_has_the_shape_that_its_limits_say(fitted: AnomalyModel) -> None:
    assert fitted.centroids.shape == (60, DIMS)
    assert fitted.centroids.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(fitted.centroids, axis=1), 1, atol=1e-5)
    assert fitted.sizes.sum() == 1400
    assert fitted.reference_sd > 0


def test_exemplars_are_the_reference_vectors_nearest_to_each_cell(fitted: AnomalyModel) -> None:
    cosines = texts(1400, seed=1) @ fitted.centroids.T
    np.testing.assert_allclose(cosines[fitted.exemplars, np.arange(60)], cosines.max(axis=0))


def test_strangers_score_above_texts_of_known_topics(fitted: AnomalyModel) -> None:
    known, strange = novelty(texts(500, seed=2), fitted.centroids), novelty(strangers(50, seed=3), fitted.centroids)
    assert strange.min() > known.max()
    assert (strange > fitted.threshold).all()


@pytest.mark.parametrize("days", [7, 1, 3, 20])
def test_new_texts_of_known_topics_alarm_about_as_often_as_promised(days: int) -> None:
    reference = texts(1400, seed=1)
    model = fit_anomaly_model(reference, numbers(1400), numbers(1400) % days, LIMITS)
    scores = novelty(texts(4000, seed=4), model.centroids)
    alarms = float((scores > model.threshold).mean())
    # A quantile of 1,400 scores is itself uncertain by about ±0.006, and the served model saw a seventh more.
    assert 0.02 <= alarms <= 0.09, f"{alarms:.3f} of new texts alarm, 0.05 were promised"
    assert scores.mean() == pytest.approx(model.reference_mean, abs=3 * model.reference_sd / np.sqrt(1400))


def test_fitting_is_deterministic(fitted: AnomalyModel) -> None:
    again = fit_anomaly_model(texts(1400, seed=1), numbers(1400), numbers(1400) % 7, LIMITS)
    np.testing.assert_array_equal(again.centroids, fitted.centroids)
    assert (again.threshold, again.reference_mean, again.reference_sd) == (
        fitted.threshold,
        fitted.reference_mean,
        fitted.reference_sd,
    )


def test_a_text_that_stands_twice_is_not_scored_by_a_model_that_has_seen_it() -> None:
    # Cells of two texts: a model that has seen a text puts it near a centroid of its own.
    limits = LIMITS.model_copy(update={"vectors_per_cell": 2, "max_cells": 300})
    once = texts(300, seed=5)
    alone = fit_anomaly_model(once, numbers(300), np.zeros(300, np.int64), limits)
    doubled = fit_anomaly_model(
        np.concatenate([once, once]), np.concatenate([numbers(300)] * 2), np.zeros(600, np.int64), limits
    )
    assert doubled.reference_mean == pytest.approx(alone.reference_mean, rel=0.02)
    assert doubled.threshold == pytest.approx(alone.threshold, rel=0.1)


@pytest.mark.parametrize(("distinct", "copies"), [(99, 1), (99, 5), (1, 300)])
def test_too_few_distinct_texts_are_refused_with_what_to_do(distinct: int, copies: int) -> None:
    vectors, contents = np.repeat(texts(distinct, seed=6), copies, axis=0), np.repeat(numbers(distinct), copies)
    with pytest.raises(FeedbackError, match=f"holds {distinct} distinct vectors, 100 are needed: land more days"):
        fit_anomaly_model(vectors, contents, numbers(len(contents)) % 7, LIMITS)


def test_just_enough_distinct_texts_are_enough() -> None:
    assert fit_anomaly_model(texts(100, seed=6), numbers(100), numbers(100) % 7, LIMITS).sizes.sum() == 100


def test_novelty_runs_from_familiar_to_opposite() -> None:
    axes = np.eye(3, dtype=np.float32)
    np.testing.assert_allclose(novelty(np.stack([axes[0], axes[2], -axes[0]]), axes[:1]), [0, 1, 2], atol=1e-6)
