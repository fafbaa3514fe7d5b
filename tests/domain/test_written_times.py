"""How times are written is found out, or said to be open; never guessed."""

from datetime import UTC, datetime

import polars as pl
import pytest

from platform_assets.domain.sources import Source
from platform_assets.domain.written_times import FORMATS, WrittenTimes, written_times


def written(*values: str, may_be_numbers: bool = False) -> WrittenTimes | None:
    return written_times(pl.Series(values), may_be_numbers=may_be_numbers)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_that_is_tried_may_stand_in_a_source(form: str) -> None:
    assert Source.model_validate({"columns": {"text": "a"}, "time_format": form}).time_format == form


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("31.08.2026 10:00", "%d.%m.%Y %H:%M"),
        ("31.8.26", "%d.%m.%y"),
        ("31.08.2026, 10:00", "%d.%m.%Y, %H:%M"),
        ("31/08/2026 10:00:59", "%d/%m/%Y %H:%M:%S%.f"),
        ("08/31/2026 1:05 PM", "%m/%d/%Y %I:%M %p"),
        ("2026/08/31", "%Y/%m/%d"),
        ("20260831", "%Y%m%d"),
        ("31 August 2026", "%d %B %Y"),
        ("Aug 31, 2026", "%B %d, %Y"),
        ("31-Aug-26", "%d-%B-%y"),
    ],
)
def test_formats(value: str, form: str) -> None:
    found = written(value, may_be_numbers=True)
    assert found is not None
    assert (found.time_format, found.other_format, found.lacks_zone) == (form, None, True)


@pytest.mark.parametrize(
    "value", ["Mon, 31 Aug 2026 10:00:00 +0200", "Mon Aug 31 08:00:00 +0000 2026", "31/08/2026 10:00 +02:00"]
)
def test_formats_with_an_offset_need_no_zone(value: str) -> None:
    found = written(value)
    assert found is not None
    assert found.time_format is not None
    assert not found.lacks_zone
    read = pl.Series([value]).str.to_datetime(found.time_format, time_zone="UTC")
    assert read.to_list() == [datetime(2026, 8, 31, 8, tzinfo=UTC)]


def test_times_that_name_their_zone() -> None:
    found = written("2026-08-31 10:00:00 UTC")
    assert found is not None
    assert (found.time_zone, found.lacks_zone) == ("UTC", False)


@pytest.mark.parametrize(
    ("value", "absolute"),
    [
        ("2026-08-31", 0),
        ("2026-08-31 10:00", 0),
        ("2026-08-31T10:00:00.123456", 0),
        ("2026-08-31T10:00:00Z", 1),
        ("2026-08-31 10:00:00.5+02:00", 1),
        ("2026-08-31T10:00+0200", 1),
    ],
)
def test_iso_needs_no_format(value: str, absolute: int) -> None:
    found = written(value)
    assert found is not None
    assert (found.time_format, found.absolute, found.lacks_zone) == (None, absolute, not absolute)


def test_some_without_an_offset_lack_a_zone() -> None:
    found = written("2026-08-31T10:00:00Z", "2026-08-31T10:00:00")
    assert found is not None
    assert found.lacks_zone
    assert "only 1 with an offset" in str(found)


class TestDayAndMonth:
    @pytest.mark.parametrize("separator", ["/", "-"])
    def test_both_orders_fit(self, separator: str) -> None:
        found = written("03/04/2026".replace("/", separator), "05/06/2026".replace("/", separator))
        assert found is not None
        assert {found.time_format, found.other_format} == {
            "%d/%m/%Y".replace("/", separator),
            "%m/%d/%Y".replace("/", separator),
        }
        assert "do not tell" in str(found)

    def test_one_value_tells(self) -> None:
        found = written("03/04/2026", "05/06/2026", "05/13/2026")
        assert found is not None
        assert (found.time_format, found.other_format) == ("%m/%d/%Y", None)

    def test_even_with_the_day_and_month_alike(self) -> None:
        found = written("03/03/2026 10:00")
        assert found is not None
        assert found.other_format is not None


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        ("1711848600", "s"),
        ("1711848600123", "ms"),
        ("1711848600123456", "us"),
        ("1711848600123456789", "ns"),
    ],
)
def test_numbers_since_1970(value: str, unit: str) -> None:
    found = written(value, may_be_numbers=True)
    assert found is not None
    assert (found.epoch_unit, found.time_format, found.lacks_zone) == (unit, None, False)
    assert unit in str(found)
    assert written(value) is None


@pytest.mark.parametrize(
    "values",
    [
        (),
        ("Good",),
        ("The order of 31.08.2026 came late",),
        ("12345",),
        ("A-1", "A-2"),
        ("01.09.2026", "01.09.2026", "not yet", "unknown"),
    ],
)
def test_what_is_no_time(values: tuple[str, ...]) -> None:
    assert written_times(pl.Series(values, dtype=pl.String), may_be_numbers=True) is None


def test_a_few_mistakes_are_counted() -> None:
    found = written(*["31.08.2026"] * 19, "31.02.2026")
    assert found is not None
    assert (found.fitting, found.values) == (19, 20)
    assert "19 of 20" in str(found)


def test_a_year_of_two_digits_is_no_year_of_antiquity() -> None:
    found = written("31.08.26 10:00")
    assert found is not None
    assert found.time_format == "%d.%m.%y %H:%M"
