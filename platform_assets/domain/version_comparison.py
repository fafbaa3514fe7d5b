"""How the answers of two versions of a model differ, in numbers of which more is worse.

Only arithmetic on vectors and scores belongs here; replaying a sample belongs to `platform_assets/canary.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


def neighbours_changed(served: Floats, new: Floats, nearest: int) -> float | None:
    """The mean share of each text's nearest neighbours that are others by the new vectors.

    Says whether two encoders see the same texts as alike, whatever their spaces and dimensions. Two encoders that have
    nothing to do with each other come to 1 − nearest / (n − 1).

    Args:
        served: Unit vectors (n, dims).
        new: Unit vectors (n, any dims) of the same texts.
        nearest: Neighbours of each text.

    Returns:
        None where there are not more than twice as many texts as neighbours: any two sets would overlap.
    """
    import numpy as np

    if len(served) <= 2 * nearest:
        return None

    def neighbours(vectors: Floats) -> NDArray[np.bool_]:
        cosines = vectors @ vectors.T
        np.fill_diagonal(cosines, -np.inf)
        found = np.zeros(cosines.shape, dtype=np.bool_)
        np.put_along_axis(found, np.argpartition(-cosines, nearest, axis=1)[:, :nearest], values=True, axis=1)
        return found

    kept = (neighbours(served) & neighbours(new)).sum()
    return float(1 - kept / (len(served) * nearest))


def cosine_losses(served: Floats, new: Floats) -> tuple[float, float]:
    """1 − cosine of each text's two unit vectors (n, dims): the mean and the greatest; 0 where they are equal."""
    losses = 1 - (served.astype("float64") * new).sum(axis=1)
    return float(losses.mean()), float(losses.max())


def rank_loss(served: Floats, new: Floats) -> float | None:
    """1 − Spearman's rank correlation of two scores (n,) of the same rows; None where either is the same for all."""
    import numpy as np

    ranks = [pl.Series(scores).rank("average").to_numpy() for scores in (served, new)]
    if len(served) < 2 or any(np.ptp(one) == 0 for one in ranks):  # noqa: PLR2004
        return None
    return float(1 - np.corrcoef(ranks[0], ranks[1])[0, 1])
