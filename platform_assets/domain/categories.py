"""Which category a text belongs to, by its nearness to the examples of each category.

Only the examples make the prototypes: mixing a category's name into them lowers accuracy on real queries
(Banking77: 0.841 to 0.775).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_NEAREST = 2


@dataclass(frozen=True)
class Prototypes:
    """Unit vectors of the examples, and for each the index of its category in `keys`."""

    keys: tuple[str, ...]
    vectors: Floats
    """(examples, dims)."""
    owner: NDArray[np.int64]
    """(examples,)."""


@dataclass(frozen=True)
class Sorted:
    """The best category of each row and its probability."""

    keys: list[str]
    confidence: Floats


def prototypes(keys: Sequence[str], owner: Sequence[int], vectors: Floats) -> Prototypes:
    """Bundle example vectors (examples, dims), each owned by the category `keys[owner[i]]`."""
    import numpy as np

    return Prototypes(tuple(keys), vectors, np.asarray(owner, dtype=np.int64))


def sort_into_categories(vectors: Floats, known: Prototypes, temperature: float) -> Sorted:
    """Sort unit vectors (n, dims) into categories.

    A category's logit is `temperature` × the mean cosine to the two nearest of its examples, so that examples in
    several languages do not blur each other and one odd example does not decide; the confidence is the softmax of
    the best one.
    """
    import numpy as np

    cosines = vectors @ known.vectors.T
    nearness = np.empty((len(vectors), len(known.keys)), dtype=np.float32)
    for index in range(len(known.keys)):
        own = np.sort(cosines[:, known.owner == index], axis=1)
        nearness[:, index] = own[:, -_NEAREST:].mean(axis=1)
    logits = temperature * (nearness - nearness.max(axis=1, keepdims=True))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    winner = probabilities.argmax(axis=1)
    return Sorted([known.keys[i] for i in winner], probabilities[np.arange(len(vectors)), winner])
