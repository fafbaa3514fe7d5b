"""The detector's graph computes what numpy does."""

import numpy as np
import onnxruntime
import pytest

from resources.anomaly_graph import anomaly_detector_graph


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def run(model: bytes, embeddings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    score, cell = session.run(["score", "cell"], {"embeddings": embeddings})
    return score, cell


@pytest.mark.parametrize(("cells", "dims", "rows"), [(1, 3, 1), (7, 8, 5), (64, 384, 128)])
def test_it_equals_numpy(cells: int, dims: int, rows: int) -> None:
    random = np.random.default_rng(cells)
    centroids, embeddings = unit(random.normal(size=(cells, dims))), unit(random.normal(size=(rows, dims)))

    score, cell = run(anomaly_detector_graph(centroids), embeddings)

    cosines = embeddings @ centroids.T
    assert (score.dtype, score.shape) == (np.float32, (rows, 1))
    assert (cell.dtype, cell.shape) == (np.int64, (rows, 1))
    np.testing.assert_allclose(score[:, 0], 1 - cosines.max(axis=1), atol=1e-6)
    np.testing.assert_array_equal(cell[:, 0], cosines.argmax(axis=1))


def test_a_centroid_scores_zero_and_its_opposite_two() -> None:
    centroids = np.eye(1, 4, dtype=np.float32)

    score, cell = run(
        anomaly_detector_graph(centroids), np.vstack([centroids, -centroids, np.eye(4)[1:2]]).astype("f4")
    )

    assert score[:, 0].tolist() == [0.0, 2.0, 1.0]
    assert cell[:, 0].tolist() == [0, 0, 0]


def test_equal_centroids_give_the_same_bytes() -> None:
    centroids = unit(np.random.default_rng(1).normal(size=(4, 6)))

    assert anomaly_detector_graph(centroids) == anomaly_detector_graph(centroids.copy(order="F"))


@pytest.mark.parametrize(
    "centroids",
    [
        np.zeros((0, 4), dtype=np.float32),
        np.ones(4, dtype=np.float32),
        np.eye(4),
        np.full((2, 4), 3, dtype=np.float32),
        np.full((2, 4), np.nan, dtype=np.float32),
    ],
    ids=["none", "one dimension", "float64", "not of length 1", "not a number"],
)
def test_other_centroids_are_refused(centroids: np.ndarray) -> None:
    with pytest.raises(ValueError, match="centroids must"):
        anomaly_detector_graph(centroids)
