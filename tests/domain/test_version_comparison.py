import numpy as np
import pytest

from platform_assets.domain.version_comparison import cosine_losses, neighbours_changed, rank_loss


def units(rows: int, dims: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(rows, dims)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_neighbours_stay_in_a_space_that_was_turned_and_widened() -> None:
    vectors = units(60, 8, 1)
    turned = np.linalg.qr(units(8, 8, 2))[0].astype(np.float32)
    wider = np.concatenate([vectors @ turned, np.zeros((60, 4), np.float32)], axis=1)
    assert neighbours_changed(vectors, wider, 10) == pytest.approx(0, abs=0.01)


def test_encoders_that_have_nothing_in_common_share_neighbours_by_chance_only() -> None:
    assert neighbours_changed(units(400, 8, 1), units(400, 16, 2), 10) == pytest.approx(1 - 10 / 399, abs=0.01)


def test_a_changed_neighbour_counts_as_its_share() -> None:
    angles = np.deg2rad(np.array([0, 10, 90, 100, 180, 190, 270], dtype=np.float32))
    moved = angles.copy()
    moved[1] = np.deg2rad(92.0)  # from the first's side to the third's
    circle, other = (np.stack([np.cos(a), np.sin(a)], axis=1).astype(np.float32) for a in (angles, moved))
    # The first four have another nearest, the last three the same.
    assert neighbours_changed(circle, other, 1) == pytest.approx(4 / 7)


def test_too_few_texts_say_nothing() -> None:
    assert neighbours_changed(units(20, 4, 1), units(20, 4, 2), 10) is None


def test_cosine_losses() -> None:
    served = np.array([[1, 0], [0, 1]], dtype=np.float32)
    new = np.array([[1, 0], [0.6, 0.8]], dtype=np.float32)
    assert cosine_losses(served, served) == (0, 0)
    assert cosine_losses(served, new) == (pytest.approx(0.1), pytest.approx(0.2))


@pytest.mark.parametrize(
    ("new", "loss"), [([1, 2, 3, 4], 0), ([10, 20, 30, 99], 0), ([4, 3, 2, 1], 2), ([1, 1, 1, 1], None)]
)
def test_rank_loss(new: list[float], loss: float | None) -> None:
    found = rank_loss(np.array([1, 2, 3, 4], np.float32), np.array(new, np.float32))
    assert found == (None if loss is None else pytest.approx(loss))


def test_scores_of_no_row_have_no_ranks() -> None:
    assert rank_loss(np.empty(0, np.float32), np.empty(0, np.float32)) is None
