"""What a benchmark comes to, and how commands are compared on a noisy machine.

What is measured belongs to the benchmark's own file.
"""

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Rows = list[dict[str, str | int | float]]


@dataclass(frozen=True)
class Result:
    """One number with its goal; ratios are medians of interleaved rounds of one run."""

    name: str
    value: float
    unit: str
    goal: str
    rounds: int
    detail: str
    tables: dict[str, Rows] = field(default_factory=dict)
    """Further figures by title; the rows of a table have the same columns."""


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> Callable[[], object]:
    """A call that runs `command` to its end and raises if it fails."""
    return lambda: subprocess.run(command, check=True, capture_output=True, env=env, cwd=cwd)


def interleaved(one: Callable[[], object], other: Callable[[], object], rounds: int) -> tuple[float, list[float]]:
    """The median of one's seconds ÷ other's, pair by pair after a warm-up, and all the ratios."""
    one()
    other()
    ratios: list[float] = []
    for index in range(rounds):
        # The order turns every round, so that a drifting machine favours neither.
        if index % 2:
            second, first = seconds(other), seconds(one)
        else:
            first, second = seconds(one), seconds(other)
        ratios.append(first / second)
    return statistics.median(ratios), ratios


def in_turns(work: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """The seconds that each piece of work says it took, by its name, in `rounds` rounds in which each has its turn."""
    taken: dict[str, list[float]] = {name: [] for name in work}
    for index in range(rounds):
        # The order turns every round, so that a drifting machine favours none.
        for name in list(work)[:: -1 if index % 2 else 1]:
            taken[name].append(work[name]())
    return taken


def ratios(taken: Mapping[str, Sequence[float]], one: str, other: str) -> list[float]:
    """One's seconds ÷ other's, round by round."""
    return [first / second for first, second in zip(taken[one], taken[other], strict=True)]


def spread(values: Sequence[float]) -> str:
    """A median with the least and the greatest, such as `0.97 (0.95 to 0.99)`."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
