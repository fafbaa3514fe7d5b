"""Judging vectors, and turning columns of them into matrices."""

from __future__ import annotations

from math import isfinite
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

    return np.asarray(np.abs(_lengths(vectors) - 1) <= UNIT_TOLERANCE, dtype=np.bool_)


def unsound(vectors: NDArray[np.float32]) -> dict[int, str]:
    """The rows of (n, dims) that are not sound, and what is wrong with each."""
    import numpy as np

    lengths = _lengths(vectors)
    return {int(place): _fault(float(lengths[place])) for place in np.flatnonzero(~sound(vectors))}


def _lengths(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Not finite where a number of the row is not."""
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.linalg.norm(vectors.astype(np.float64), axis=1))


def _fault(length: float) -> str:
    if not isfinite(length):
        return "the model gave numbers that are not finite"
    return "the model gave zeros only" if length == 0 else f"the model gave a vector of length {length:.4g}, not 1"


def is_sound(embedding: str = "embedding") -> pl.Expr:
    """Whether a stored vector is finite, without nulls, and of length 1 ± UNIT_TOLERANCE; false without a vector."""
    squares = pl.element().fill_null(float("nan")).cast(pl.Float64).pow(2)
    lengths = pl.col(embedding).list.eval(squares).list.sum().sqrt()
    return ((lengths - 1).abs() <= UNIT_TOLERANCE).fill_null(value=False)


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
