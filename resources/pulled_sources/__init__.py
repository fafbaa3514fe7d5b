"""Sources that are fetched rather than put: each writes a bounded batch into the landing zone.

What is in the landing zone is the only state: a pull goes on from there, so that a crash loses and doubles nothing.
One module a kind: `folder.py`, `postgres.py` (with `watermarks.py`), `kafka.py` (with `kafka_lines.py`).
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from resources.landing_zone import LandedFile, LandingZoneResource


@dataclass(frozen=True)
class Pulled:
    """What one pull brought."""

    landed: list[LandedFile] = field(default_factory=list)
    records: int = 0
    """Rows or messages; files count as one each."""
    more: bool = False
    """Whether the source holds more that the bounds left for the next pull."""
    warnings: tuple[str, ...] = ()
    """What a person should know, one line each."""


class Puller(Protocol):
    """A source at hand: connections are opened by `pull` and closed before it returns."""

    def pull(self, zone: LandingZoneResource, now: datetime) -> Pulled:
        """Fetch what is new into the day of `now` (UTC).

        Raises:
            ConfigurationError: a person has to mend the source's entry, its rights or its environment.
            ServerUnavailableError: the other side does not answer; trying again later may help.
        """
        ...
