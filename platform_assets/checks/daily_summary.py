"""Checks of `daily_summary`: its rows add up to the day's records."""

import polars as pl

from platform_assets.checks.factory import Check, Day, schema_check, structure
from platform_assets.domain.measurement import Measurement, breaches


def checks() -> list[Check]:
    """All checks of this asset."""
    return [
        structure("volumes_add_up", "The volumes add up to the rows of raw_feedback, for each source.", volumes_add_up),
        schema_check("daily_summary"),
    ]


def volumes_add_up(day: Day) -> Measurement:
    """Compare by source."""
    raw = dict(day.rows("raw_feedback").group_by("source").len().iter_rows())
    summary = dict(day.rows("daily_summary").group_by("source").agg(pl.col("volume").sum()).iter_rows())
    found = [
        f"{source}: {raw.get(source, 0)} records, {summary.get(source, 0)} summed up"
        for source in sorted(raw.keys() | summary.keys())
        if raw.get(source, 0) != summary.get(source, 0)
    ]
    return breaches(found, rows=sum(raw.values()), what="sources whose volumes do not add up")
