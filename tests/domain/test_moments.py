from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_assets.domain.moments import moments
from platform_assets.domain.sources import Source

CHANGES = {
    "Europe/Berlin": ["2026-03-29", "2026-10-25"],
    "Australia/Lord_Howe": ["2026-04-05"],
    "America/Sao_Paulo": ["2018-11-04"],
    "Asia/Kolkata": ["2026-06-01"],
    # The days on which the date line moved: one was left out, one came twice.
    "Pacific/Apia": ["2011-12-30"],
    "America/Juneau": ["1867-10-18"],
}
"""Days near which a zone's clocks were put forward or back, and one without."""


def read(texts: list[str | None], zone: str | None = "Europe/Berlin", **contract: str) -> list[datetime | None]:
    source = Source.model_validate({"columns": {"text": "body"}, "time_zone": zone, **contract})
    return moments(pl.Series(texts, dtype=pl.String), source).to_list()


def shown_at(wall: datetime, zone: str) -> datetime | None:
    """What the standard library makes of it."""
    earlier, later = (wall.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1))
    return earlier if earlier == later else None


@given(
    data=st.data(),
    zone_and_day=st.sampled_from([(zone, day) for zone, days in CHANGES.items() for day in days]),
    hours=st.sampled_from([1, 6, 60, 1_000]),
)
def test_clocks_that_are_put_forward_or_back(data: st.DataObject, zone_and_day: tuple[str, str], hours: int) -> None:
    """A batch whose times lie close together is placed as a whole where that is the same."""
    zone, day = zone_and_day
    start = datetime.fromisoformat(day) + timedelta(minutes=data.draw(st.integers(-4 * 1440, 4 * 1440)))
    minutes = data.draw(st.lists(st.integers(0, 60 * hours), min_size=1, max_size=20))
    walls = [start + timedelta(minutes=each) for each in minutes]
    assert read([f"{wall:%Y-%m-%d %H:%M:%S}" for wall in walls], zone) == [shown_at(wall, zone) for wall in walls]


@pytest.mark.parametrize("first", [0, 1, 2, 3, 4])
def test_every_way_of_writing_counts_whichever_comes_first(first: int) -> None:
    ways = {
        "2026-06-01 10:00:00": datetime(2026, 6, 1, 8, tzinfo=UTC),
        "2026-06-01T10:00:00.5Z": datetime(2026, 6, 1, 10, 0, 0, 500_000, tzinfo=UTC),
        "2026-06-01 10:00+05:30": datetime(2026, 6, 1, 4, 30, tzinfo=UTC),
        "2026-06-01": datetime(2026, 5, 31, 22, tzinfo=UTC),
        "yesterday": None,
    }
    texts = [*list(ways)[first:], *list(ways)[:first]]
    assert read([None, *texts]) == [None, *(ways[text] for text in texts)]


@pytest.mark.parametrize("text", ["+262142-12-31 23:59:59", "-262143-01-01 00:00:00", "0000-12-31 23:59:59"])
@pytest.mark.parametrize("contract", [{}, {"time_format": "%Y-%m-%d %H:%M:%S"}])
def test_times_that_no_calendar_has_are_none(text: str, contract: dict[str, str]) -> None:
    assert read([text], **contract) == [None]
    assert read([text, "2026-06-01 10:00:00"], **contract) == [None, datetime(2026, 6, 1, 8, tzinfo=UTC)]


@pytest.mark.parametrize("texts", [[], [None], [None, None]])
def test_no_times_are_no_moments(texts: list[str | None]) -> None:
    assert read(texts) == texts
