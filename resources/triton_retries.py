"""What of a server's failures may pass, and how long to wait before it is asked again.

Reading an error and keeping count belong here. Sending does not (`resources.triton_client`), nor choosing a server
(`resources.triton_endpoints`), nor trying a whole run again, which is for whoever started it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from resources.triton_errors import one_line

if TYPE_CHECKING:
    from tritonclient.utils import InferenceServerException

_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 10.0


class Kind(Enum):
    """What a failure is about."""

    LOST = "lost"
    """The connection broke: the server may have died of the request."""
    DEAD = "dead"
    """The server runs; the process in which it runs the model ended, and will not come back by itself."""
    AWAY = "away"
    """Nobody answers, or the server is about to end."""
    LATE = "late"
    """No answer in time, or a wait in the server's queue that was too long."""
    BUSY = "busy"
    """Too many requests wait already."""
    NOT_READY = "not ready"
    """This server does not serve the model, or not in that version."""
    TOO_LARGE = "too large"
    """A message is larger than the server, or something between, takes."""
    FAILED = "failed"
    """The model refused the request, or failed on it."""

    @property
    def blames_server(self) -> bool:
        """Whether it speaks against the server, and not against the request or the load."""
        return self in {Kind.LOST, Kind.AWAY, Kind.LATE}


_SAID: Final = (
    ("is not healthy", Kind.DEAD),
    ("larger than max", Kind.TOO_LARGE),
    ("exceeds maximum queue size", Kind.BUSY),
    ("request timeout", Kind.LATE),
    ("unknown model", Kind.NOT_READY),
    ("no available versions", Kind.NOT_READY),
    ("is not ready", Kind.NOT_READY),
    ("failed to load", Kind.NOT_READY),
    ("failed to connect", Kind.AWAY),
    ("stopping", Kind.AWAY),
    ("stopped accepting", Kind.AWAY),
)
_CODES: Final = {
    "UNAVAILABLE": Kind.LOST,
    "CANCELLED": Kind.LOST,
    "DEADLINE_EXCEEDED": Kind.LATE,
    "RESOURCE_EXHAUSTED": Kind.BUSY,
    "NOT_FOUND": Kind.NOT_READY,
}
"""Triton answers UNAVAILABLE to many things that its text tells apart."""


@dataclass(frozen=True)
class Failure:
    """Why a server gave no answer.

    Attributes:
        kind: What it is about.
        text: The server's or the connection's own words, on one line.
    """

    kind: Kind
    text: str

    @classmethod
    def of(cls, error: InferenceServerException) -> Failure:
        """The failure that an error of the client reports."""
        code, text = str(error.status() or "").removeprefix("StatusCode."), one_line(error.message() or "")
        if code not in {*_CODES, "INTERNAL"}:
            return cls(Kind.FAILED, text)
        said = (kind for words, kind in _SAID if words in text.lower())
        return cls(next(said, _CODES.get(code, Kind.FAILED)), text)


def dead_model(failure: Failure, asked: str) -> str:
    """The model whose process ended: the one that was asked, or a part of it that the failure names.

    Args:
        failure: One of the kind `DEAD`; it names the process by its model and numbers, such as `'encoder_0_1'`.
        asked: The model that was asked.
    """
    named = re.search(r"'([^']+?)(?:_\d+)+' is not healthy", failure.text)
    return named.group(1) if named and not named.group(0).startswith(f"'{asked}_") else asked


class Allowance:
    """The time that one batch may still be waited for; while nobody waits, none of it is used up.

    Args:
        total_s: Seconds.
    """

    def __init__(self, total_s: float) -> None:
        self._left_s = total_s
        self._since: float | None = None

    @property
    def left_s(self) -> float:
        """Seconds that are left; below 0 once they are over."""
        return self._left_s - (0 if self._since is None else time.monotonic() - self._since)

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Uses up the time spent inside."""
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._left_s, self._since = self.left_s, None


class Retries:
    """The attempts at one request.

    A full queue is waited out, however often it is met; anything else that may pass is tried `attempts` times. The
    waits grow exponentially and are spread at random, so that those whom a failure hit together do not come back
    together.

    Args:
        attempts: How often a request is sent at most.
    """

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._made = 0
        self._waits = 0

    def wait_s(self, failure: Failure, left_s: float, *, elsewhere: bool) -> float | None:
        """Seconds to wait before the request is sent again; None if it is not to be.

        Args:
            failure: What the last attempt came to.
            left_s: Seconds that the batch may still be waited for.
            elsewhere: Whether there is another server to ask.
        """
        if failure.kind is not Kind.BUSY:
            self._made += 1
        passes = failure.kind.blames_server or failure.kind in {Kind.BUSY, Kind.DEAD}
        if self._made >= self._attempts or not (passes or (elsewhere and failure.kind is Kind.NOT_READY)):
            return None
        longest = min(_FIRST_WAIT_S * 2.0 ** min(self._waits, 16), _LONGEST_WAIT_S)
        self._waits += 1
        wait = random.uniform(longest / 2, longest)  # noqa: S311  # spread, not secret
        return wait if wait < left_s else None
