"""Judging vectors, and turning columns of them into matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNIT_TOLERANCE = 1e-3
"""How far from 1 the length of a normalized float32 or FP16 vector may be."""


def sound(vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    """For each row of (n, dims): whether every number is finite and the length is 1 ± UNIT_TOLERANCE."""
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.linalg.norm(vectors, axis=1)
    return np.asarray(np.isfinite(vectors).all(axis=1) & (np.abs(lengths - 1) <= UNIT_TOLERANCE), dtype=np.bool_)


def matrix(column: pl.Series) -> NDArray[np.float32]:
    """A List(Float32) column of equal lengths, without nulls, as (n, dims).

    Raises:
        ValueError: the vectors differ in length.
    """
    import numpy as np

    if column.is_empty():
        return np.empty((0, 0), dtype=np.float32)
    lengths = column.list.len().unique().sort().to_list()
    if len(lengths) > 1:
        raise ValueError(f"vectors of {lengths} numbers in one column")
    return column.explode().to_numpy().astype(np.float32, copy=False).reshape(len(column), -1)


def column(vectors: NDArray[np.float32]) -> pl.Series:
    """(n, dims) as a List(Float32) column."""
    return pl.Series(vectors, dtype=pl.Array(pl.Float32, vectors.shape[1])).cast(pl.List(pl.Float32))
