"""First measures of drift: how a day differs from what came before it."""

import math
from collections.abc import Mapping


def novelty_z(mean: float, rows: int, reference_mean: float, reference_sd: float) -> float:
    """How many standard errors a day's mean novelty score lies above the reference's.

    z = (mean − reference_mean) / (reference_sd / √rows), the one-sample z statistic. The reference's mean and
    deviation come from held-out vectors: from fitted ones nearly every quiet day would alarm.
    """
    return (mean - reference_mean) / (reference_sd / math.sqrt(rows))


def total_variation(day: Mapping[str, int], before: Mapping[str, int]) -> float:
    """Half the sum of absolute differences of two distributions given by counts: 0 equal, 1 disjoint."""
    day_total, before_total = sum(day.values()), sum(before.values())
    return (
        sum(abs(day.get(key, 0) / day_total - before.get(key, 0) / before_total) for key in day.keys() | before.keys())
        / 2
    )
