"""`feedback report`: what the checks found, on the terminal, as JSON or as a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from itertools import groupby
from pathlib import Path

import click

from platform_assets.check_report import CheckEntry, CheckReport, Outcome, read_report
from platform_assets.cli.console import (
    DAY,
    Cell,
    Command,
    Exit,
    Json,
    format_option,
    print_json,
    print_table,
    say,
    writing_to,
)
from platform_assets.cli.day_counts import day_counts
from platform_assets.cli.project import check_known, dagster_instance, load_definitions, open_settings
from platform_assets.domain.measurement import shown
from platform_assets.report_page import render_page


@click.command(cls=Command)
@click.option("--partition", type=DAY, help="Only this day.")
@click.option(
    "--out", metavar="FILE", help="Where to write; - is stdout. Default: stdout; for html reports/<today>.html"
)
@format_option("table", "json", "html")
def report(*, partition: date | None, out: str | None, form: str) -> int:
    """Show the newest result of each check for each day; the table lists all that did not simply pass.

    A check that did not run to its end is `not evaluated`, never passed. The exit code is 1 if a check failed
    that stops what follows.
    """
    check_known(partition)
    target = Path(out).absolute() if out and out != "-" else None
    settings = open_settings()
    with dagster_instance(settings) as instance:
        found = read_report(instance, load_definitions(settings), [partition] if partition else None)
        numbers = {day: asdict(counts) for day, counts in day_counts(settings.lake(), found.days).items()}
    if form == "html":
        now = datetime.now(UTC)
        page = render_page(found, numbers, now)
        with writing_to(None if out == "-" else target or settings.project / "reports" / f"{now.date()}.html"):
            click.echo(page)
    else:
        with writing_to(target):
            if form == "json":
                print_json(_as_json(found, numbers))
            else:
                _show(found)
    return Exit.FAILED if found.blocked else Exit.FINE


def _as_json(report: CheckReport, numbers: Mapping[date, Mapping[str, int | None]]) -> dict[str, Json]:
    return {
        "blocked": report.blocked,
        "counts": {outcome.value: count for outcome, count in report.counts().items()},
        "days": [
            {
                "day": day.isoformat(),
                "records": dict(numbers[day]),
                "counts": {outcome.value: count for outcome, count in report.of_day(day).counts().items()},
            }
            for day in report.days
        ],
        "checks": [entry.as_json() for entry in report.entries],
    }


def _show(report: CheckReport) -> None:
    if not report.entries:
        click.echo("no run has been started yet: land files with `feedback ingest FILE…`, then `feedback run`")
        return
    lacking = [entry for entry in report.entries if entry.outcome is Outcome.NOT_ENOUGH_DATA]
    telling = [entry for entry in report.worth_reading if entry.outcome is not Outcome.NOT_ENOUGH_DATA]
    if telling:
        columns = ["day", "asset", "check", "outcome", "value", "limit", "finding"]
        print_table(columns, list(_rows(telling)))
    for line in _summed_up(lacking):
        click.echo(line)
    counts = report.counts()
    told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in reversed(Outcome) if counts[outcome])
    click.echo(f"\n{len(report.days)} days, {len(report.entries)} checks: {told}")
    say("All of them: `feedback report --format html`, or --format json")


def _summed_up(entries: Sequence[CheckEntry]) -> Iterator[str]:
    """A line for the days on which a check lacked the same thing: none of them asks for anything to be done."""
    alike: dict[tuple[str, str, str], list[date]] = {}
    for entry in entries:
        alike.setdefault((entry.asset, entry.check, entry.sentence), []).append(entry.day)
    for (asset, check, sentence), days in alike.items():
        when = f"{days[0]}" if len(days) == 1 else f"{len(days)} days, {days[0]} to {days[-1]}"
        yield f"{asset} {check}, {when}: {sentence}"


def _rows(entries: Sequence[CheckEntry]) -> Iterator[Sequence[Cell]]:
    """A row an entry; the checks of an asset that did not run for the same reason share one."""
    for (day, asset, outcome), group in groupby(entries, key=lambda entry: (entry.day, entry.asset, entry.outcome)):
        alike = list(group)
        if outcome is Outcome.NOT_EVALUATED and len(alike) > 1:
            yield day, asset, f"{len(alike)} checks", outcome.value, None, None, alike[0].sentence
            continue
        for entry in alike:
            finding = "\n".join([entry.sentence, *(f"· {example}" for example in entry.examples[:2])])
            numbers = shown(entry.value), shown(entry.limit)
            yield day, asset, entry.check, outcome.value, *numbers, finding
