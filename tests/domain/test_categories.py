import numpy as np
import pytest

from platform_assets.domain.categories import prototypes, sort_into_categories

EYE = np.eye(4, dtype=np.float32)


def test_a_text_gets_the_category_of_its_nearest_examples() -> None:
    known = prototypes(["a", "b"], [0, 0, 1], EYE[:3])
    found = sort_into_categories(EYE[:3], known, 20)
    assert found.keys == ["a", "a", "b"]


def test_the_confidence_is_the_softmax_of_the_mean_of_the_two_nearest() -> None:
    vectors = np.array([[0.6, 0.8, 0, 0]], dtype=np.float32)
    known = prototypes(["a", "b", "c"], [0, 0, 0, 1, 2], EYE[[0, 1, 2, 2, 3]])
    found = sort_into_categories(vectors, known, 2)
    logits = np.exp(2 * np.array([0.7, 0.0, 0.0]))
    assert found.keys == ["a"]
    assert found.confidence[0] == pytest.approx(logits[0] / logits.sum(), rel=1e-5)


def test_confidence_runs_from_an_equal_share_to_one() -> None:
    known = prototypes(["a", "b", "c"], [0, 1, 2], EYE[:3])
    nothing_near, near = sort_into_categories(EYE[[3, 0]], known, 100).confidence
    assert nothing_near == pytest.approx(1 / 3)
    assert near == pytest.approx(1)


def test_a_greater_temperature_is_surer_and_sorts_alike() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(50, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    known = prototypes(["a", "b", "c"], [0, 0, 1, 1, 2, 2], vectors[:6])
    low, high = (sort_into_categories(vectors, known, temperature) for temperature in (5, 50))
    assert low.keys == high.keys
    assert (high.confidence >= low.confidence).all()


def test_no_rows_give_no_rows() -> None:
    found = sort_into_categories(EYE[:0], prototypes(["a", "b"], [0, 1], EYE[:2]), 20)
    assert (found.keys, found.confidence.shape) == ([], (0,))
