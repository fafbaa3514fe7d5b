"""What `feedback run` tells at its end: each day in numbers, what the checks found, and what failed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date

import click

from platform_assets.check_report import Outcome, tally
from platform_assets.cli.console import Cell, Json, print_table, say
from platform_assets.cli.day_counts import COLUMNS, DayCounts, day_counts
from platform_assets.cli.run_execution import RunResult
from resources.delta_lake import DeltaLakeResource

_LINES = 12
_TOLD = (Outcome.PASSED, Outcome.WARNED, Outcome.FAILED, Outcome.NOT_ENOUGH_DATA, Outcome.NOT_EVALUATED)


@dataclass(frozen=True)
class DaySummary:
    """One day, over all of its runs of one call."""

    counts: DayCounts
    checks: dict[Outcome, int]
    seconds: float
    problems: list[str]
    warnings: list[str]
    runs: list[str]

    def as_json(self) -> dict[str, Json]:
        """The day without its name."""
        return {
            "success": not self.problems,
            **asdict(self.counts),
            "checks": _named(self.checks),
            "seconds": round(self.seconds, 3),
            "problems": self.problems,
            "warnings": self.warnings,
            "runs": self.runs,
        }


@dataclass(frozen=True)
class RunSummary:
    """All days of one call."""

    days: dict[date, DaySummary]
    model: str | None
    success: bool

    @property
    def totals(self) -> DayCounts:
        """All days together."""
        return sum((day.counts for day in self.days.values()), DayCounts())

    @property
    def checks(self) -> dict[Outcome, int]:
        """Number of checks of all days by outcome."""
        return {outcome: sum(day.checks[outcome] for day in self.days.values()) for outcome in Outcome}

    @property
    def seconds(self) -> float:
        """Time that the runs took."""
        return sum(day.seconds for day in self.days.values())

    def as_json(self) -> dict[str, Json]:
        """Everything, with days as objects in a list."""
        return {
            "success": self.success,
            "days": [{"day": day.isoformat(), **found.as_json()} for day, found in self.days.items()],
            "totals": {
                **asdict(self.totals),
                "checks": _named(self.checks),
                "seconds": round(self.seconds, 3),
            },
            "model": self.model,
        }

    def show(self) -> None:
        """Print it."""
        if self.days:
            print_table(
                ["day", *COLUMNS, "seconds", "checks"],
                [_row(str(day), d.counts, d.checks, d.seconds) for day, d in self.days.items()],
                footer=_row("all", self.totals, self.checks, self.seconds),
            )
        if self.model:
            click.echo(f"\nanomaly model: {self.model}")
        _list("Warned", [f"{day} {line}" for day, found in self.days.items() for line in found.warnings])
        _list("Failed", [f"{day} {line}" for day, found in self.days.items() for line in found.problems])
        say("")
        say('Next: `feedback report` shows every check, `feedback query "from daily_summary"` the numbers,')
        say("      `make dev` the assets in the browser.")


def sum_up(
    lake: DeltaLakeResource,
    results: Sequence[RunResult],
    refused: Mapping[date, str],
    model: RunResult | None,
    model_note: str,
) -> RunSummary:
    """Put the runs of each day together.

    Args:
        lake: where their records are counted.
        results: the runs of days.
        refused: days that could not be run, with the reason.
        model: the run that fitted the anomaly model, if one did.
        model_note: what became of the model.
    """
    by_day: dict[date, list[RunResult]] = {day: [] for day in refused}
    for result in results:
        if result.day:
            by_day.setdefault(result.day, []).append(result)
    days = {day: _day(lake, day, by_day[day], refused.get(day)) for day in sorted(by_day)}
    sound = not any(day.problems for day in days.values()) and (model is None or model.success)
    return RunSummary(days, model_note or None, sound)


def _day(lake: DeltaLakeResource, day: date, results: Sequence[RunResult], refused: str | None) -> DaySummary:
    checks = {key: entry for result in results for key, entry in result.checks.items()}
    written = {table for result in results for table in result.materialized}
    return DaySummary(
        counts=day_counts(lake, [day], written)[day],
        checks=tally(entry.outcome for entry in checks.values()),
        seconds=sum(result.seconds for result in results),
        problems=[
            *([refused] if refused else []),
            *(problem for result in results for problem in result.problems),
        ],
        warnings=[
            f"{entry.asset}: check {entry.check}: {entry.sentence}"
            for entry in checks.values()
            if entry.outcome is Outcome.WARNED
        ],
        runs=[result.run_id for result in results],
    )


def _row(name: str, counts: DayCounts, checks: Mapping[Outcome, int], seconds: float) -> list[Cell]:
    numbers = asdict(counts)
    return [
        name,
        *(numbers[column] for column in COLUMNS),
        f"{seconds:.1f}",
        ", ".join(f"{checks[outcome]} {outcome}" for outcome in _TOLD if checks[outcome]),
    ]


def _named(checks: Mapping[Outcome, int]) -> dict[str, int]:
    return {outcome.value: count for outcome, count in checks.items()}


def _list(title: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    click.echo(f"\n{title}:")
    for line in lines[:_LINES]:
        click.echo(f"  {line}")
    if len(lines) > _LINES:
        click.echo(f"  … and {len(lines) - _LINES} more: see `feedback report`")
