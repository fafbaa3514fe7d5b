"""The check report as one HTML page that needs nothing beside itself.

What the checks found is `check_report.py`; the page's markup is `templates/report.html.j2`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby

from platform_assets.check_report import CheckEntry, CheckReport, Outcome
from platform_assets.domain.measurement import shown


@dataclass(frozen=True)
class DaySection:
    """What the page says of one day."""

    day: date
    numbers: Mapping[str, int | None]
    """Counts of records by name; None where nothing was counted."""
    counts: Mapping[Outcome, int]
    assets: Sequence[tuple[str, Sequence[CheckEntry]]]


def render_page(report: CheckReport, numbers: Mapping[date, Mapping[str, int | None]], now: datetime) -> str:
    """Render the page: headline numbers, a section a day with the newest first, and a picture a check.

    Args:
        report: what the checks found.
        numbers: counts of records by name, of each day.
        now: the moment to print as that of the report.
    """
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("platform_assets"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["shown"] = shown
    sections = [
        DaySection(
            day=day,
            numbers=numbers.get(day, {}),
            counts=report.of_day(day).counts(),
            assets=[
                (asset, list(entries))
                for asset, entries in groupby(report.of_day(day).entries, key=lambda entry: entry.asset)
            ],
        )
        for day in reversed(report.days)
    ]
    return environment.get_template("report.html.j2").render(
        sections=sections,
        counts=report.counts(),
        totals=_totals(numbers.values()),
        pictures=_newest_pictures(report),
        Outcome=Outcome,
        now=now,
    )


def _totals(days: Iterable[Mapping[str, int | None]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for numbers in days:
        for name, number in numbers.items():
            totals[name] = totals.get(name, 0) + (number or 0)
    return totals


def _newest_pictures(report: CheckReport) -> list[CheckEntry]:
    """The newest entry of each check whose value ever was anything but 0: its picture shows the days before."""
    newest: dict[tuple[str, str], CheckEntry] = {}
    moved: set[tuple[str, str]] = set()
    for entry in report.entries:
        if entry.picture:
            newest[entry.asset, entry.check] = entry
        if entry.value:
            moved.add((entry.asset, entry.check))
    return [entry for check, entry in newest.items() if check in moved]
