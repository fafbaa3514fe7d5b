"""When a server that keeps failing is left alone for a while: a circuit breaker.

Counting failures and time belongs here. What a failure is does not (`resources.triton_retries`), nor asking the server
whether it is back (`resources.triton_endpoints`), nor the switch that a person turns (`resources.triton_pause`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Literal

FAILURES: Final = 5
"""Failures in a row after which a server is left alone."""

_FIRST_REST_S: Final = 1.0
_LONGEST_REST_S: Final = 30.0


class CircuitBreaker:
    """Says whether a server may be asked; safe to use from several threads.

    It opens after `FAILURES` failures in a row. Once a rest is over, one caller may probe the server: its success
    closes the breaker, its failure opens it for twice as long, 30 seconds at most.

    Args:
        clock: Gives a time in seconds that never goes back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._rest_s = 0.0
        self._until = 0.0
        self._probed = False

    def admit(self) -> Literal["closed", "probe", "open"]:
        """Whether the server may be asked. Who is told `probe` must report what came of it; others wait for that."""
        with self._lock:
            if self._failures < FAILURES:
                return "closed"
            if self._probed or self._clock() < self._until:
                return "open"
            self._probed = True
            return "probe"

    def succeeded(self) -> None:
        """The server answered."""
        with self._lock:
            self._failures, self._rest_s, self._probed = 0, 0.0, False

    def failed(self) -> None:
        """The server did not answer."""
        with self._lock:
            self._failures += 1
            # What was under way when it opened fails as well, and says nothing new.
            if self._failures == FAILURES or self._probed:
                self._rest_s = min(max(2 * self._rest_s, _FIRST_REST_S), _LONGEST_REST_S)
                self._until = self._clock() + self._rest_s
                self._probed = False
