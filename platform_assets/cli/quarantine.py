"""`feedback quarantine`: the records that could not be loaded, counted or one by one."""

from collections.abc import Callable, Sequence
from datetime import date

import click
import polars as pl

from platform_assets.cli.console import (
    DAY,
    Command,
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

_RAW_CHARACTERS = 120


@click.group(cls=Group)
def quarantine() -> None:
    """Look at the records that could not be loaded, as they stood in their files, and why."""


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
        say("\nNext: `feedback quarantine show` for the records; correct what is wrong, land, run")


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
