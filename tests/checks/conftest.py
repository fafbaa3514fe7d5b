"""A day of tables to measure."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from platform_assets.checks.factory import Day
from platform_assets.domain.tables import TABLES
from platform_assets.domain.thresholds import CheckLimits
from platform_assets.settings import Settings
from resources.delta_lake import DeltaLakeResource

DAY = date(2026, 9, 10)

Rows = list[dict[str, Any]]


def frame(table: str, rows: Rows, day: date = DAY) -> pl.DataFrame:
    """A table of the contract; columns that `rows` do not name are null."""
    dated = [{"partition_date": day, **row} if "partition_date" in TABLES[table] else row for row in rows]
    return pl.DataFrame(dated, schema=TABLES[table])


Store = Callable[..., Day]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Stores the rows of tables for a day and hands out the day."""
    lake = DeltaLakeResource(root=str(tmp_path / "lake"))

    def write(day: date = DAY, **tables: Rows) -> Day:
        for table, rows in tables.items():
            column = "model_version" if table == "anomaly_model" else "partition_date"
            value = rows[0]["model_version"] if table == "anomaly_model" else day
            lake.replace(table, frame(table, rows, day), {column: value})
        return Day(lake, day)

    return write


@pytest.fixture
def limits(project_root: Path) -> CheckLimits:
    """The limits that are shipped."""
    return Settings(project_root).thresholds.checks
