"""`feedback quarantine`: the records that could not be loaded: counted, one by one, and read again."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING

import click
import polars as pl

from platform_assets.cli.console import (
    DAY,
    Command,
    Exit,
    Function,
    Group,
    Json,
    format_option,
    print_json,
    print_table,
    say,
)
from platform_assets.cli.project import open_settings
from platform_assets.domain.raw_feedback import Reason
from platform_assets.domain.tables import QUARANTINED_FEEDBACK

if TYPE_CHECKING:
    from platform_assets.replay import Replay

_RAW_CHARACTERS = 120


@click.group(cls=Group)
def quarantine() -> None:
    """Look at the records that could not be loaded, as they stood in their files, and read them again."""


def _filters(command: Function) -> Function:
    options: list[Callable[[Function], Function]] = [
        click.option("--partition", type=DAY, help="Only this day."),
        click.option("--reason", type=click.Choice([reason.value for reason in Reason]), help="Only this reason."),
        click.option("--source", metavar="NAME", help="Only this source."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@quarantine.command("list", cls=Command)
@_filters
@format_option("table", "json")
def list_letters(*, partition: date | None, reason: str | None, source: str | None, form: str) -> None:
    """Count the dead letters by day, source and reason."""
    counted = (
        _letters(partition, reason, source)
        .group_by("partition_date", "source", "reason")
        .agg(pl.len().alias("records"), pl.col("file_uri").n_unique().alias("files"))
        .sort("partition_date", "source", "reason")
        .collect()
    )
    if form == "json":
        print_json(_rows(counted))
    elif counted.is_empty():
        click.echo("nothing is quarantined")
    else:
        print_table(
            ["day", "source", "reason", "records", "files"],
            counted.rows(),
            footer=("all", "", "", int(counted["records"].sum()), int(counted["files"].sum())),
        )
        say("\nNext: `feedback quarantine show` for the records; correct config/sources.yaml and")
        say("      `feedback quarantine replay`, or land the corrected file with --replace and `feedback run`")


@quarantine.command(cls=Command)
@_filters
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many records.")
@format_option("table", "json")
def show(*, partition: date | None, reason: str | None, source: str | None, limit: int, form: str) -> None:
    """Show the dead letters with the place and the reason of each."""
    letters = (
        _letters(partition, reason, source)
        .select("partition_date", "source", "file_uri", "line_no", "reason", "detail", "raw")
        .sort("partition_date", "file_uri", "line_no")
        .collect()
    )
    shown = letters.head(limit)
    if form == "json":
        print_json(_rows(shown))
    elif letters.is_empty():
        click.echo("nothing is quarantined")
    else:
        print_table(
            ["file", "line", "reason", "detail", "record"],
            [
                (file, line, why, detail, raw if len(raw) <= _RAW_CHARACTERS else f"{raw[:_RAW_CHARACTERS]}…")
                for file, line, why, detail, raw in shown.select(
                    "file_uri", "line_no", "reason", "detail", "raw"
                ).iter_rows()
            ],
        )
    if letters.height > limit:
        say(f"… {letters.height - limit} more records: raise --limit")


@quarantine.command("replay", cls=Command)
@_filters
@click.option("--dry-run", is_flag=True, help="Only say what would come back.")
@format_option("table", "json")
def read_again(*, partition: date | None, reason: str | None, source: str | None, dry_run: bool, form: str) -> int:
    """Read the days of dead letters again, after their source's entry in config/sources.yaml was corrected.

    Each day is first read without writing anything; those to which a dead letter would come back as a row are then
    run to their end. The files are read as they stand in the landing zone.
    """
    from platform_assets.cli.run import run_days
    from platform_assets.replay import replay

    settings = open_settings()
    letters = _letters(partition, reason, source).collect()
    looked_at = [replay(day, letters.filter(partition_date=day), settings) for day in _days(letters)]
    to_run = [] if dry_run else [one.day for one in looked_at if one.brought_back]
    summary = run_days(to_run, settings) if to_run else None
    if form == "json":
        print_json(
            {
                "days": [{**asdict(one), "day": one.day.isoformat()} for one in looked_at],
                "run": summary.as_json() if summary else None,
            }
        )
    elif not looked_at:
        click.echo("nothing is quarantined")
    else:
        print_table(
            ["day", "dead letters", "back as rows", "rows lost"],
            [(str(one.day), one.letters, one.brought_back, one.lost) for one in looked_at],
            footer=(
                "all",
                sum(one.letters for one in looked_at),
                sum(one.brought_back for one in looked_at),
                sum(one.lost for one in looked_at),
            ),
        )
        _tell_next(looked_at, dry_run=dry_run)
        if summary:
            say("")
            summary.show()
    return Exit.FINE if summary is None or summary.success else Exit.FAILED


def _tell_next(looked_at: Sequence["Replay"], *, dry_run: bool) -> None:
    if lost := sum(one.lost for one in looked_at):
        say(f"\nWarning: {lost} rows of these days do not keep their sources' contracts as they are now")
    if not any(one.brought_back for one in looked_at):
        say(
            "\nnone would be a row now: see why with `feedback quarantine show`, and correct their source in "
            "config/sources.yaml"
        )
    elif dry_run:
        say("\nNext: the same without --dry-run")


def _days(letters: pl.DataFrame) -> list[date]:
    return letters["partition_date"].unique().sort().to_list()


def _letters(partition: date | None, reason: str | None, source: str | None) -> pl.LazyFrame:
    lake = open_settings().lake()
    if not lake.exists("quarantined_feedback"):
        return pl.LazyFrame(schema=QUARANTINED_FEEDBACK)
    letters = lake.scan("quarantined_feedback")
    if partition is not None:
        letters = letters.filter(pl.col("partition_date") == partition)
    if reason is not None:
        letters = letters.filter(pl.col("reason") == reason)
    if source is not None:
        letters = letters.filter(pl.col("source") == source)
    return letters


def _rows(frame: pl.DataFrame) -> Sequence[Json]:
    return frame.with_columns(pl.col("partition_date").cast(pl.String)).to_dicts()
