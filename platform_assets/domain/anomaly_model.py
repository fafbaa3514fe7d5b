"""The anomaly model: how far a vector lies from everything that the reference window held.

Score = 1 − greatest cosine to a centroid of k-means on unit vectors. On real queries this found foreign texts
better than Mahalanobis distance, neighbours, LOF or an isolation forest, at a fraction of their cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.thresholds import AnomalyModelLimits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_FOLDS = 7
"""Parts that calibration leaves out in turn; a week of reference days gives one part a day."""
_SEED = 20260901
_STARTS = 2


@dataclass(frozen=True)
class AnomalyModel:
    """A fitted and calibrated model."""

    centroids: Floats
    """(cells, dims), unit length."""
    exemplars: NDArray[np.int64]
    """(cells,): index of the reference vector nearest to each centroid."""
    sizes: NDArray[np.int64]
    """(cells,): distinct contents in each cell."""
    threshold: float
    """A score above it is an anomaly."""
    reference_mean: float
    """Mean score of reference records by models that have not seen them."""
    reference_sd: float
    """Standard deviation of these scores."""


def fit_anomaly_model(
    vectors: Floats, contents: NDArray[np.int64], days: NDArray[np.int64], limits: AnomalyModelLimits
) -> AnomalyModel:
    """Fit on the distinct contents of the reference, and calibrate on what each fit has not seen.

    Calibration is cross-fitted: each part of the reference (a day, or a random fold of texts where there are fewer
    days than folds) is scored by a model of the others. The threshold is the (1 − false_alarm_rate) quantile of these
    scores; taken from fitted vectors it would give far too many false alarms. The served model is fitted on all.

    Args:
        vectors: (n, dims), unit length; one for each record of the window, repeated texts included, because
            common texts recur on later days too.
        contents: (n,), equal for equal texts.
        days: (n,), the record's day as any number that orders.
        limits: sizes and rates.

    Raises:
        FeedbackError: there are fewer distinct contents than `limits.min_reference_vectors`.
    """
    import numpy as np

    distinct = len(np.unique(contents))
    if distinct < limits.min_reference_vectors:
        raise FeedbackError(
            f"the reference window holds {distinct} distinct vectors, {limits.min_reference_vectors} are needed: "
            "land more days, or lower anomaly_model.min_reference_vectors in config/thresholds.yaml"
        )
    parts = _parts(days, contents)
    unseen = np.empty(len(vectors), dtype=np.float32)
    for part in np.unique(parts):
        left_out = parts == part
        centroids, _ = _fit(_distinct(vectors, contents, ~left_out), limits)
        unseen[left_out] = novelty(vectors[left_out], centroids)
    centroids, sizes = _fit(_distinct(vectors, contents, np.full(len(vectors), fill_value=True)), limits)
    return AnomalyModel(
        centroids=centroids,
        exemplars=(vectors @ centroids.T).argmax(axis=0).astype(np.int64),
        sizes=sizes,
        threshold=float(np.quantile(unseen, 1 - limits.false_alarm_rate)),
        reference_mean=float(unseen.mean()),
        reference_sd=float(unseen.std(ddof=1)),
    )


def novelty(vectors: Floats, centroids: Floats) -> Floats:
    """1 − greatest cosine to a centroid, for unit vectors (n, dims): 0 is familiar, above 1 is opposite."""
    import numpy as np

    return np.asarray(1 - (vectors @ centroids.T).max(axis=1), dtype=np.float32)


def _parts(days: NDArray[np.int64], contents: NDArray[np.int64]) -> NDArray[np.int64]:
    import numpy as np

    ordinal = np.unique(days, return_inverse=True)[1]
    if ordinal.max() + 1 >= _FOLDS:
        return np.asarray(ordinal % _FOLDS, dtype=np.int64)
    distinct, content = np.unique(contents, return_inverse=True)
    folds = np.random.default_rng(_SEED).permutation(len(distinct)) % _FOLDS
    return np.asarray(folds[content], dtype=np.int64)


def _distinct(vectors: Floats, contents: NDArray[np.int64], kept: NDArray[np.bool_]) -> Floats:
    import numpy as np

    return vectors[kept][np.unique(contents[kept], return_index=True)[1]]


def _fit(vectors: Floats, limits: AnomalyModelLimits) -> tuple[Floats, NDArray[np.int64]]:
    import numpy as np
    from sklearn.cluster import KMeans

    cells = max(1, min(limits.max_cells, len(vectors) // limits.vectors_per_cell))
    kmeans = KMeans(n_clusters=cells, n_init=_STARTS, random_state=_SEED).fit(vectors)
    sizes = np.bincount(kmeans.labels_, minlength=cells).astype(np.int64)
    return _unit(kmeans.cluster_centers_.astype(np.float32)), sizes


def _unit(vectors: Floats) -> Floats:
    import numpy as np

    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
