"""The anomaly model: how far a vector lies from everything that the reference window held.

Score = 1 − greatest cosine to a centroid of k-means on unit vectors. On real queries this found foreign texts
better than Mahalanobis distance, neighbours, LOF or an isolation forest, at a fraction of their cost.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.thresholds import AnomalyModelLimits

Floats = NDArray[np.float32]

_HELD_OUT_EVERY = 4
"""One vector in four calibrates: a limit taken from fitted vectors gives far too many false alarms."""
_SEED = 20260901


@dataclass(frozen=True)
class AnomalyModel:
    """A fitted and calibrated model."""

    centroids: Floats
    """(cells, dims), unit length."""
    exemplars: NDArray[np.int64]
    """(cells,): index of the reference vector nearest to each centroid."""
    sizes: NDArray[np.int64]
    """(cells,): fitted vectors in each cell."""
    threshold: float
    """A score above it is an anomaly."""
    reference_mean: float
    """Mean score of held-out reference vectors."""
    reference_sd: float
    """Standard deviation of the scores of held-out reference vectors."""


def fit_anomaly_model(vectors: Floats, limits: AnomalyModelLimits) -> AnomalyModel:
    """Fit on distinct reference vectors (n, dims) of unit length, and calibrate on held-out ones.

    The threshold is the (1 − false_alarm_rate) quantile of the held-out scores.

    Raises:
        FeedbackError: there are fewer vectors than `limits.min_reference_vectors`.
    """
    from sklearn.cluster import KMeans

    if len(vectors) < limits.min_reference_vectors:
        raise FeedbackError(
            f"the reference window holds {len(vectors)} distinct vectors, {limits.min_reference_vectors} are needed: "
            "land more days, or lower anomaly_model.min_reference_vectors in config/thresholds.yaml"
        )
    held_out = np.random.default_rng(_SEED).permutation(len(vectors)) % _HELD_OUT_EVERY == 0
    fitted = vectors[~held_out]
    cells = max(2, min(limits.max_cells, len(fitted) // limits.vectors_per_cell))
    kmeans = KMeans(n_clusters=cells, n_init=4, random_state=_SEED).fit(fitted)
    centroids = _unit(kmeans.cluster_centers_.astype(np.float32))
    held_out_scores = novelty(vectors[held_out], centroids)
    return AnomalyModel(
        centroids=centroids,
        exemplars=(vectors @ centroids.T).argmax(axis=0).astype(np.int64),
        sizes=np.bincount(kmeans.labels_, minlength=cells).astype(np.int64),
        threshold=float(np.quantile(held_out_scores, 1 - limits.false_alarm_rate)),
        reference_mean=float(held_out_scores.mean()),
        reference_sd=float(held_out_scores.std(ddof=1)),
    )


def novelty(vectors: Floats, centroids: Floats) -> Floats:
    """1 − greatest cosine to a centroid, for unit vectors (n, dims): 0 is familiar, above 1 is opposite."""
    return np.asarray(1 - (vectors @ centroids.T).max(axis=1), dtype=np.float32)


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
