"""PostgreSQL's types that serve as watermarks, each as exact positions that can be compared and counted back.

Queries belong to `postgres.py`.
"""

import decimal
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, LiteralString

_EXACT: Final = decimal.Context(prec=150_000)
"""Holds every `numeric`."""

_YEAR_1: Final = datetime(1, 1, 1)  # noqa: DTZ001
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class NumberType:
    """Positions are the numbers themselves."""

    cast: LiteralString
    """The type's name in SQL."""
    usable: LiteralString
    """SQL condition on the column `{}`, beside its lower bound."""
    least: Decimal
    """The lowest position that is ever looked at."""
    whole: bool

    def position(self, text: str) -> Decimal:
        """The position of a watermark that is written as in JSON, or as `text` gives it.

        Raises:
            ArithmeticError: it is no number.
        """
        return Decimal(text)

    def text(self, position: Decimal) -> str:
        """How PostgreSQL reads it."""
        return format(position, "f")

    def back(self, position: Decimal, overlap: float) -> Decimal:
        """The position `overlap` below, rounded down to one of the type."""
        start = _EXACT.subtract(position, Decimal(str(overlap)))
        return max(self.least, start.to_integral_value(decimal.ROUND_FLOOR) if self.whole else start)


@dataclass(frozen=True)
class TimeType:
    """Positions are microseconds since the year 1; of a time without a zone by its wall clock."""

    cast: LiteralString
    """The type's name in SQL."""
    usable: LiteralString
    """SQL condition on the column `{}`, beside its lower bound."""
    least: Decimal = Decimal(0)
    """The lowest position that is ever looked at."""

    def position(self, text: str) -> Decimal:
        """The position of a watermark that is written as in JSON, or as `text` gives it, with or without colons.

        Raises:
            ValueError: it is no time of this type, or one of a zone other than UTC.
        """
        moment = datetime.fromisoformat(text)
        if moment.utcoffset() != (timedelta(0) if self.cast == "timestamptz" else None):
            raise ValueError(f"{text} is no {self.cast} in UTC")
        return Decimal((moment.replace(tzinfo=None) - _YEAR_1) // _MICROSECOND)

    def text(self, position: Decimal) -> str:
        """How PostgreSQL reads it."""
        moment = _YEAR_1 + int(position) * _MICROSECOND
        if self.cast == "date":
            return moment.date().isoformat()
        return moment.isoformat(timespec="microseconds") + ("Z" if self.cast == "timestamptz" else "")

    def back(self, position: Decimal, overlap: float) -> Decimal:
        """The position `overlap` seconds below, rounded down to one of the type: of dates, a day."""
        start = max(self.least, position - Decimal(str(overlap)) * 1_000_000)
        return self.position(self.text(start))


WatermarkType = NumberType | TimeType

_INTEGER: Final = NumberType("bigint", "true", Decimal(-(2**63)), whole=True)
_LATEST_WALL_CLOCK: Final = "{} <= now() AT TIME ZONE 'UTC' + interval '14 hours'"
WATERMARK_TYPES: Final[dict[str, WatermarkType]] = {
    "int2": _INTEGER,
    "int4": _INTEGER,
    "int8": _INTEGER,
    "numeric": NumberType("numeric", "{} < 'Infinity'", Decimal("-Infinity"), whole=False),
    "date": TimeType("date", _LATEST_WALL_CLOCK),
    "timestamp": TimeType("timestamp", _LATEST_WALL_CLOCK),
    "timestamptz": TimeType("timestamptz", "{} <= now()"),
}
"""By the names of PostgreSQL's catalog. What is not usable would hide all rows that follow it."""
