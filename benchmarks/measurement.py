"""What a benchmark comes to, and how two commands are compared on a noisy machine.

What is measured belongs to the benchmark's own file.
"""

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One number with its goal; ratios are medians of interleaved rounds of one run."""

    name: str
    value: float
    unit: str
    goal: str
    rounds: int
    detail: str


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
