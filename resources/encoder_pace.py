"""How many padded tokens a request to an encoder should hold, and how many requests should be under way at once.

What suits a model by its configuration, what was fastest among measured trials, and on which machine that holds, is
said here. Measuring is not done here: see `resources.encoder_tuning`.
"""

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CPU_BUDGETS = (256, 512, 1024)
GPU_BUDGETS = (4096, 16384, 65536)

_LEAST_NOISE = 0.02
_MOST_NOISE = 0.1


@dataclass(frozen=True)
class Pace:
    """How texts are sent to an embedder.

    Attributes:
        token_budget: Padded tokens of one request.
        in_flight: Requests under way at once.
    """

    token_budget: int
    in_flight: int


@dataclass(frozen=True)
class Trial:
    """A pace that was tried.

    Attributes:
        instances: Of the embedder, as the server ran them; 0 where the server is not ours and they are as they are.
        pace: The pace.
        rates: Texts a second, round by round.
    """

    instances: int
    pace: Pace
    rates: tuple[float, ...]

    @property
    def rate(self) -> float:
        """The median of the rounds, in texts a second."""
        return statistics.median(self.rates)


def default_pace(instances: int, *, on_gpu: bool) -> Pace:
    """What suits an embedder before anything was measured.

    A CPU instance of one thread is fastest with little padding, and a request or two waiting for each; a GPU is
    fastest with all that it can hold, and another request waiting for each instance.

    Args:
        instances: Of the embedder, over all devices.
        on_gpu: Whether they run on GPUs.
    """
    instances = max(instances, 1)
    return Pace(16384, 2 * instances) if on_gpu else Pace(256, instances + 2)


def paces(instances: int, budgets: Sequence[int]) -> list[Pace]:
    """What is worth trying with so many instances: from one request for each to a long queue."""
    waiting = sorted({instances, instances + 1, instances + 2, 2 * instances + 2})
    return [Pace(budget, in_flight) for budget in budgets for in_flight in waiting]


def choose(trials: Sequence[Trial]) -> Trial:
    """The smallest trial that is as fast as the fastest, the noise of the machine allowed for.

    Small means few instances, then few requests at once, then small requests: memory and waiting are saved. The
    noise is half of what the fastest trial's own rounds differ by, but at least 2 % and at most 10 %.
    """
    best = max(trials, key=lambda trial: trial.rate)
    noise = (max(best.rates) - min(best.rates)) / 2 / best.rate
    least = best.rate * (1 - min(max(noise, _LEAST_NOISE), _MOST_NOISE))
    fast = [trial for trial in trials if trial.rate >= least]
    return min(fast, key=lambda trial: (trial.instances, trial.pace.in_flight, trial.pace.token_budget))


def machine() -> str:
    """This machine as far as a pace depends on it, such as `AMD EPYC 9B14, 2 cores`."""
    return f"{_processor()}, {cores()} core{'s' if cores() > 1 else ''}"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def counts_to_try() -> list[int]:
    """Numbers of instances worth trying here: half as many as there are cores, as many, and half as many again."""
    return sorted({max(cores() // 2, 1), cores(), cores() + max(cores() // 2, 1)})


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "CPU part")))
    return next(named, "") or os.uname().machine
