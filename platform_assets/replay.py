"""What reading a day again would change: which dead letters would be rows, and which rows dead letters.

Nothing is written; the day is read into staged tables, which are thrown away.
"""

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

import polars as pl

from platform_assets.day_plan import plan_day
from platform_assets.day_reader import read_day
from platform_assets.file_ledger import FileLedger
from platform_assets.settings import Settings
from resources.delta_lake import DeltaLakeResource
from resources.staged_partition import StagedPartition

_PLACE: Final = ["file_uri", "line_no"]


@dataclass(frozen=True)
class Replay:
    """A day, read again under the contracts of now."""

    day: date
    letters: int
    """Dead letters that are asked about."""
    brought_back: int
    """Those of them that would be rows; of a file that was refused as a whole, all that it now brings."""
    lost: int
    """Rows of the day that would become dead letters."""


def replay(day: date, letters: pl.DataFrame, settings: Settings) -> Replay:
    """Read a day again and compare.

    Args:
        day: the day.
        letters: those of its dead letters that are asked about, as in `quarantined_feedback`.
        settings: of the project.

    Raises:
        ConfigurationError: a file cannot be opened, or a contract is not valid.
    """
    lake, landing = settings.lake(), settings.landing()
    plan = plan_day(day, landing, settings, FileLedger.of(lake), datetime.now(UTC))
    with closing(read_day(plan, landing, lake, patient=False)) as tables:
        loaded = _places(tables.loaded)
        stay = _places(tables.quarantined)
    whole = letters.filter(pl.col("line_no") == 0)["file_uri"].unique()
    of_whole_files = loaded.filter(pl.col("file_uri").is_in(whole.implode()))
    back = letters.select(_PLACE).join(loaded, on=_PLACE, how="semi").height
    before = _rows_of(lake, day)
    return Replay(
        day=day,
        letters=letters.height,
        brought_back=back + of_whole_files.height,
        lost=before.join(stay, on=_PLACE, how="semi").height,
    )


def _places(staged: StagedPartition) -> pl.DataFrame:
    nowhere = pl.DataFrame(schema={"file_uri": pl.String, "line_no": pl.Int64})
    return pl.concat([nowhere, *staged.frames(_PLACE)])


def _rows_of(lake: DeltaLakeResource, day: date) -> pl.DataFrame:
    return lake.scan_partition("raw_feedback", day).select(_PLACE).collect()
