"""A measurement with its limit and its verdict: what every check is made of."""

from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """What a measurement comes to; not having enough data is neither passing nor failing."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_ENOUGH_DATA = "not enough data"


@dataclass(frozen=True)
class Measurement:
    """One number about one day, held against its limit."""

    value: float | None
    """None where it could not be computed for want of data."""
    limit: float
    """The greatest value that passes."""
    rows: int
    """How many rows were looked at."""
    what: str
    """One line: what the value is."""
    reason: str
    """Why the limit is where it is."""
    min_rows: int = 0
    """With fewer rows the verdict is NOT_ENOUGH_DATA."""
    unit: str = ""
    lack: str = "nothing to compare with"
    """What was missing where `value` is None."""
    examples: list[str] = field(default_factory=list)
    """The first few breaches, one line each."""
    counts_breaches: bool = False
    """Whether the value is a number of breaches, of which there should be none."""

    @property
    def verdict(self) -> Verdict:
        """Passed where value ≤ limit; a value that is not a number fails."""
        if self.value is None or self.rows < self.min_rows:
            return Verdict.NOT_ENOUGH_DATA
        return Verdict.PASSED if self.value <= self.limit else Verdict.FAILED

    @property
    def sentence(self) -> str:
        """The outcome in one line."""
        if self.verdict is Verdict.NOT_ENOUGH_DATA:
            lack = f"{self.rows} of {self.min_rows} rows" if self.rows < self.min_rows else self.lack
            return f"not enough data for {self.what}: {lack}"
        if self.counts_breaches:
            return f"{self.what}: {shown(self.value) if self.value else 'none'} ({self.rows} looked at)"
        sign = "≤" if self.verdict is Verdict.PASSED else ">"
        return f"{self.what}: {shown(self.value)}{self.unit} {sign} {shown(self.limit)}{self.unit} ({self.rows} rows)"


def shown(value: float | None) -> str:
    """A number as a person reads it: whole ones without a point, others to four significant digits."""
    if value is None:
        return "–"
    value = float(value)
    return str(int(value)) if value.is_integer() else f"{value:.4g}"


STRUCTURE = "structure: a single breach makes what follows wrong"
"""The reason for the limit 0 of every check of structure."""


def breaches(found: list[str], *, rows: int, what: str) -> Measurement:
    """A check of structure: the value is the number of breaches, the limit is 0."""
    return Measurement(
        value=float(len(found)),
        limit=0,
        # A breach among no rows, such as a row that should not be there, is a breach all the same.
        rows=max(rows, len(found)),
        what=what,
        reason=STRUCTURE,
        min_rows=1,
        examples=found[:5],
        counts_breaches=True,
    )


def share(part: int, whole: int, what: str, examples: list[str] | None = None) -> Measurement:
    """A share of rows; its limit is set by whoever asked."""
    value = part / whole if whole else None
    return Measurement(value=value, limit=1, rows=whole, what=what, reason="", examples=(examples or [])[:5])
