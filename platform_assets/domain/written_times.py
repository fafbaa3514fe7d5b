"""Finds out how a column writes its times: ISO 8601, a strptime format, or numbers since 1970.

Reading times under a source's contract is `moments.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

import polars as pl

USUAL_SHARE: Final = 0.9
"""So many of a column's values have to be of a kind; the rest may be mistakes."""

_ISO: Final = r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?"
_ISO_NAIVE: Final = rf"{_ISO}$"
_ISO_ABSOLUTE: Final = rf"{_ISO}(?:[zZ]|[+-]\d{{2}}(?::?\d{{2}})?)$"
_MAY_BE_A_TIME: Final = r"^\D{0,12}\d[^\n]{4,40}$"
_YEARS: Final = (1970, 2100)
_FIRST_LOOK: Final = 40

_DAYS: Final = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d",
    "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y",
    "%d %B %Y", "%d. %B %Y", "%d-%B-%Y", "%d-%B-%y", "%B %d, %Y", "%a, %d %B %Y",
)  # fmt: skip
_HOURS: Final = (" %H:%M", " %H:%M:%S%.f", ", %H:%M", ", %H:%M:%S", "T%H:%M:%S%.f", " %I:%M %p", " %I:%M:%S %p")
_ZONES: Final = ("", " %#z", " UTC", " GMT")
FORMATS: Final = (
    *_DAYS,
    *("".join(parts) for parts in product(_DAYS, _HOURS, _ZONES)),
    "%Y%m%d",
    "%Y%m%d%H%M%S",
    "%a %b %d %H:%M:%S %#z %Y",
)
"""The formats that are tried, as Polars spells them; day and month in both orders where both are in use."""

_EPOCH: Final = r"^\d{9,19}$"
_EPOCH_UNITS: Final[Sequence[tuple[Literal["s", "ms", "us", "ns"], float]]] = (
    ("s", 1e11), ("ms", 1e14), ("us", 1e17), ("ns", float("inf")),
)  # fmt: skip


@dataclass(frozen=True)
class WrittenTimes:
    """How times are written."""

    example: str
    values: int
    fitting: int
    """Number of values that are times when read so."""
    absolute: int
    """Number of those that name a moment by themselves: with an offset, or since 1970."""
    time_format: str | None = None
    """None for ISO 8601, and for numbers."""
    other_format: str | None = None
    """One that fits as many values, and has day and month in each other's place."""
    epoch_unit: Literal["s", "ms", "us", "ns"] | None = None
    time_zone: str | None = None
    """The one that each of the times names itself, if so."""

    @property
    def lacks_zone(self) -> bool:
        """Whether a source has to say in which zone they are."""
        return self.absolute < self.fitting and self.time_zone is None

    def __str__(self) -> str:
        """In words."""
        if self.epoch_unit:
            return f"numbers since 1970; by their size in {self.epoch_unit}, such as {self.example}"
        form = self.time_format or "ISO 8601"
        if self.other_format:
            form += f" or {self.other_format}, which the values do not tell"
        if self.time_zone:
            offsets = f"all in {self.time_zone}, as they say"
        elif self.lacks_zone:
            offsets = f"only {self.absolute:,} with an offset" if self.absolute else "without offsets"
        else:
            offsets = "with offsets"
        return f"{form}, {offsets}; {self.fitting:,} of {self.values:,} values, such as {self.example!r}"


def written_times(values: pl.Series, *, may_be_numbers: bool) -> WrittenTimes | None:
    """Look at the values of a column.

    Args:
        values: texts without blank ones.
        may_be_numbers: whether plain numbers may be times; most are not.

    Returns:
        None where fewer than `USUAL_SHARE` of them are times.
    """
    if not values.len() or _share(values, _MAY_BE_A_TIME) < USUAL_SHARE:
        return None
    example = str(values[0])
    naive, absolute = (int(values.str.contains(shape).sum()) for shape in (_ISO_NAIVE, _ISO_ABSOLUTE))
    if naive + absolute >= USUAL_SHARE * values.len():
        return WrittenTimes(example, values.len(), naive + absolute, absolute)
    formats: Sequence[str] = FORMATS
    if _share(values, r"^\d+$") >= USUAL_SHARE:
        if not may_be_numbers:
            return None
        formats = [form for form in FORMATS if form.startswith("%Y%m%d")]
    first = values.head(_FIRST_LOOK)
    likely = [form for form in formats if 2 * _fitting(first, form) >= first.len()]
    fits = {form: _fitting(values, form) for form in likely}
    best = max(fits, key=lambda form: fits[form], default=None)
    if best is None or fits[best] < USUAL_SHARE * values.len():
        return _since_1970(values) if may_be_numbers else None
    swapped = best.translate(str.maketrans("dm", "md"))
    return WrittenTimes(
        example,
        values.len(),
        fits[best],
        absolute=fits[best] if "z" in best else 0,
        time_format=best,
        other_format=swapped if swapped != best and fits.get(swapped) == fits[best] else None,
        time_zone="UTC" if best.endswith(("UTC", "GMT")) else None,
    )


def _since_1970(values: pl.Series) -> WrittenTimes | None:
    numbers = sorted(int(value) for value in values.filter(values.str.contains(_EPOCH)))
    if len(numbers) < USUAL_SHARE * values.len():
        return None
    unit = next(unit for unit, below in _EPOCH_UNITS if numbers[len(numbers) // 2] < below)
    return WrittenTimes(str(values[0]), values.len(), len(numbers), len(numbers), epoch_unit=unit)


def _fitting(values: pl.Series, form: str) -> int:
    """Number of values that are times of our days in a format."""
    read = values.str.to_datetime(form, strict=False, time_unit="us", time_zone="UTC" if "z" in form else None)
    return int(read.dt.year().is_between(*_YEARS).sum())


def _share(values: pl.Series, pattern: str) -> float:
    return int(values.str.contains(pattern).sum()) / values.len()
