"""Reads written times as moments in UTC, under a source's contract.

How a column writes its times is found out by `written_times.py`.
"""

from collections.abc import Sequence
from typing import Final, cast

import polars as pl

from platform_assets.domain.sources import Source
from platform_assets.domain.tables import UTC_TIME

_HAS_OFFSET: Final = r"(?:[zZ]|[+-]\d{2}:?\d{2}|:\d{2}(?:\.\d+)?[+-]\d{2})$"
_WHOLE_NUMBER: Final = r"^[+-]?\d{1,19}$"
_OFFSET_FORMS: Final = (
    "%Y-%m-%dT%H:%M:%S%#z",
    "%Y-%m-%d %H:%M:%S%#z",
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M%#z",
    "%Y-%m-%d %H:%M%#z",
)
_WALL_FORMS: Final = (
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
)
_WALL: Final = pl.Datetime("us")
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Of the years 1 to 9999."""

_UNITS_A_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_HOUR_US: Final = 3600 * _UNITS_A_SECOND["us"]
_DAY_US: Final = 24 * _HOUR_US
_FEW_DAYS_US: Final = 31 * _DAY_US


def moments(given: pl.Series, source: Source) -> pl.Series:
    """Each text's time in UTC; null where it is none, names no moment, or is naive in a source without a zone.

    Args:
        given: texts without white space around them; null where there is none.
        source: says how they are written.
    """
    found = [pl.repeat(None, len(given), dtype=UTC_TIME, eager=True)]
    wall = pl.repeat(None, len(given), dtype=_WALL, eager=True)
    if source.time_format is None:
        moment, wall = _iso_8601(given)
        found.append(moment)
    elif source.time_format_is_absolute:
        found.append(_parsed(given, [source.time_format], "UTC"))
    else:
        wall = _parsed(given, [source.time_format], None)
    if source.epoch_unit is not None:
        found.append(_epoch(given, source.epoch_unit))
    if source.time_zone is not None:
        found.append(_placed(_of_the_calendar(wall), source.time_zone))
    return _of_the_calendar(pl.select(pl.coalesce(found)).to_series())


def where(values: pl.Series, mask: pl.Series) -> pl.Series:
    """The values, null where the mask is not true."""
    kept = mask.fill_null(False)
    return values if kept.all() else values.set(~kept, None)


def _of_the_calendar(times: pl.Series) -> pl.Series:
    """The times of the years 1 to 9999: others could not read a table with any beyond."""
    first, last = _FIRST_SECOND * _UNITS_A_SECOND["us"], (_LAST_SECOND + 1) * _UNITS_A_SECOND["us"] - 1
    return where(times, times.to_physical().is_between(first, last))


def _iso_8601(given: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The times with an offset, in UTC, and those without, by the clock on the wall; no text is both."""
    wall = pl.repeat(None, len(given), dtype=_WALL, eager=True)
    if not given.drop_nulls().head(1).str.contains(_HAS_OFFSET).any():
        wall = _parsed(given, _WALL_FORMS, None)
        given = where(given, wall.is_null())
    has_offset = given.str.contains(_HAS_OFFSET)
    moment = _parsed(where(given, has_offset), _OFFSET_FORMS, "UTC")
    return moment, pl.select(pl.coalesce(wall, _parsed(where(given, ~has_offset), _WALL_FORMS, None))).to_series()


def _parsed(texts: pl.Series, forms: Sequence[str], zone: str | None) -> pl.Series:
    """Each text by the first form that it fits; usually all fit that of the first, and the others are not tried."""

    def parse(texts: pl.Series, form: str) -> pl.Series:
        # Polars' cache costs more than it spares where few times are the same.
        return texts.str.to_datetime(form, strict=False, time_unit="us", time_zone=zone, cache=False)

    found = pl.repeat(None, len(texts), dtype=pl.Datetime("us", zone), eager=True)
    first = texts.drop_nulls().head(1)
    if first.is_empty():
        return found
    for form in sorted(forms, key=lambda form: parse(first, form).has_nulls()):
        left = texts.is_not_null() & found.is_null()
        if not left.any():
            break
        more = parse(where(texts, left), form)
        found = more if left.all() else pl.select(pl.coalesce(found, more)).to_series()
    return found


def _placed(wall: pl.Series, zone: str) -> pl.Series:
    """The moments at which a zone's clocks showed these times; null where they did so never, or twice."""
    shown = wall.to_physical()
    first, last = cast("int | None", shown.min()), cast("int | None", shown.max())
    if first is not None and last is not None and last - first < _FEW_DAYS_US:
        offset = _offset(first, last, zone)
        if offset is not None:
            return (shown - offset).cast(UTC_TIME)
    return _placed_one_by_one(wall, zone)


def _offset(first: int, last: int, zone: str) -> int | None:
    """How far a zone's clocks were ahead of UTC, if they were not put forward or back between two times and near them.

    Seeing that of some hours is quicker than placing each of many times. All are in microseconds.
    """
    around = pl.int_range(first - _DAY_US, last + _DAY_US, _HOUR_US, eager=True)
    offsets = (around - _placed_one_by_one(around.cast(_WALL), zone).to_physical()).unique()
    return int(offsets[0]) if offsets.len() == 1 and not offsets.has_nulls() else None


def _placed_one_by_one(wall: pl.Series, zone: str) -> pl.Series:
    return wall.dt.replace_time_zone(zone, ambiguous="null", non_existent="null").dt.convert_time_zone("UTC")


def _epoch(given: pl.Series, unit: str) -> pl.Series:
    """Whole numbers since 1970 as times of the years 1 to 9999."""
    number = where(given, given.str.contains(_WHOLE_NUMBER)).cast(pl.Int64, strict=False)
    a_second = _UNITS_A_SECOND[unit]
    meant = number.is_between(max(_FIRST_SECOND * a_second, -(2**63)), min(_LAST_SECOND * a_second, 2**63 - 1))
    number = number.set(~meant.fill_null(False), None)
    micro = _UNITS_A_SECOND["us"]
    return (number * (micro // a_second) if a_second <= micro else number // (a_second // micro)).cast(UTC_TIME)
