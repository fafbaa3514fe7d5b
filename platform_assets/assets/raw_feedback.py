"""`raw_feedback`, `quarantined_feedback` and `landed_files`: every record of a day, and the ledger of its files.

The three are one step, because a record is counted once. Which files are read is `day_plan.py`, how is
`day_reader.py`, and the rules for a record are `domain/raw_feedback.py`.
"""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from typing import Final

import dagster as dg
import polars as pl

from platform_assets.assets.common import LAKE_IO, SERVER_RETRIES, table_metadata
from platform_assets.day_plan import plan_day
from platform_assets.day_reader import DayTables, IncompleteFileError, read_day
from platform_assets.failures import clear_failures
from platform_assets.file_ledger import FileLedger
from platform_assets.only_one import only_one
from platform_assets.partitions import ARRIVAL_DAYS
from platform_assets.settings import SettingsResource
from resources.delta_lake import DeltaLakeResource
from resources.landing_zone import LandingZoneResource
from resources.staged_partition import StagedPartition

_LONGEST_READ_S: Final = 600
"""Another run of the day is waited for so long; the step is then tried again."""

_LOOKS: Final = 3
"""A file that ends too soon is looked at so often before it is a dead letter, if it is young."""


@dg.multi_asset(
    name="raw_feedback",
    outs={
        "raw_feedback": dg.AssetOut(
            io_manager_key=LAKE_IO,
            group_name="ingestion",
            kinds={"polars", "deltalake"},
            description="Every record of the day that keeps its source's contract, typed, one row for each id.",
            metadata=table_metadata("raw_feedback"),
        ),
        "quarantined_feedback": dg.AssetOut(
            io_manager_key=LAKE_IO,
            group_name="ingestion",
            kinds={"polars", "deltalake"},
            description="Dead letters: every record of the day that is no row, as it stood in its file, and why.",
            metadata=table_metadata("quarantined_feedback"),
        ),
        "landed_files": dg.AssetOut(
            io_manager_key=LAKE_IO,
            group_name="ingestion",
            kinds={"polars", "deltalake"},
            description="The ledger: each file of the day by content, and what became of its records.",
            metadata=table_metadata("landed_files"),
        ),
    },
    partitions_def=ARRIVAL_DAYS,
    description="Reads the day's landed files.",
    # A bucket that does not answer; a file that was renamed while it was to be read.
    retry_policy=SERVER_RETRIES,
)
def raw_feedback(
    context: dg.AssetExecutionContext,
    settings: SettingsResource,
    lake: dg.ResourceParam[DeltaLakeResource],
    landing: dg.ResourceParam[LandingZoneResource],
) -> Iterator[dg.Output[StagedPartition] | dg.Output[pl.DataFrame]]:
    """Read, type and file the day's records."""
    day = date.fromisoformat(context.partition_key)
    config = settings.get()
    # A second run of the day would plan without knowing what this one is about to write.
    with clear_failures(), only_one(config, "days", str(day), wait_s=_LONGEST_READ_S):
        plan = plan_day(day, landing, config, FileLedger.of(lake), datetime.now(UTC))
        try:
            tables = read_day(plan, landing, lake, patient=context.retry_number + 1 < _LOOKS)
        except IncompleteFileError as error:
            wait_s = max(config.platform.landing_sensor.settle_s, 1)
            context.log.warning(f"{error}; looking again in {wait_s:g} s")
            raise dg.RetryRequested(max_retries=_LOOKS - 1, seconds_to_wait=wait_s) from error
        with closing(tables):
            yield from _outputs(context, tables)


def _outputs(
    context: dg.AssetExecutionContext, tables: DayTables
) -> Iterator[dg.Output[StagedPartition] | dg.Output[pl.DataFrame]]:
    ledger = tables.ledger
    for uri, problem in ledger.filter(pl.col("problem").is_not_null()).select("file_uri", "problem").iter_rows():
        context.log.warning(f"{uri}: {problem}")
    records = int(ledger["records"].sum())
    reasons = tables.quarantined.counts("reason")
    # First, so that a run that ends in between leaves a record twice rather than nowhere; the next one mends it.
    yield dg.Output(tables.quarantined, "quarantined_feedback", metadata={"reasons": reasons})
    unmapped = dg.MetadataValue.json(tables.unmapped)
    yield dg.Output(
        tables.loaded,
        "raw_feedback",
        metadata={"records_read": records, "files": ledger.height, "columns_in_metadata": unmapped},
    )
    # Last, so that a day whose tables were not all written stays pending.
    yield dg.Output(ledger, "landed_files", metadata={"records": records})
