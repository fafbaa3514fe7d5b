"""Delta tables: a partition is replaced as a whole, by predicate, in one commit.

Which tables exist and what their columns mean belongs to the callers.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TypeVar

import dagster as dg
import polars as pl
from pydantic import Field

from resources.errors import ConfigurationError, ServerUnavailableError
from resources.object_store import open_store
from resources.staged_partition import PART_ROWS, StagedPartition

PARTITION_COLUMN = "partition_date"
_ATTEMPTS = 8

Result = TypeVar("Result")


class DeltaLakeResource(dg.ConfigurableResource[None]):
    """Delta tables under one root, each partitioned by one column."""

    root: str = Field(description="Folder or s3:// URI that holds one sub-folder a table.")

    def uri(self, table: str) -> str:
        """Where `table` lies."""
        return f"{self.root.rstrip('/')}/{table}"

    @property
    def is_remote(self) -> bool:
        """Whether the root is an object store."""
        return "://" in self.root

    def exists(self, table: str) -> bool:
        """Whether anything was ever written to `table`.

        Raises:
            ServerUnavailableError: the object store does not answer.
            ConfigurationError: it refuses.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            return bool(DeltaTable.is_deltatable(self.uri(table)))
        except (DeltaError, OSError) as error:
            if not self.is_remote:
                raise
            raise self._remote_fault(table, error) from error

    def tables(self) -> list[str]:
        """Names of the tables under the root, sorted; of a local root only."""
        root = Path(self.root)
        if not root.is_dir():
            return []
        return sorted(folder.name for folder in root.iterdir() if (folder / "_delta_log").is_dir())

    def version(self, table: str) -> int | None:
        """Number of the table's newest commit, or None where there is no table."""
        from deltalake import DeltaTable

        return int(DeltaTable(self.uri(table)).version()) if self.exists(table) else None

    def replace(self, table: str, frame: pl.DataFrame, where: Mapping[str, date | int | str]) -> None:
        """Replace the rows that have the values of `where` by `frame`, in one commit.

        `where` names the table's partition columns; rows of other partitions are never touched. A write
        that lost a race on the same partition is tried again.

        Raises:
            ConfigurationError: the place cannot be written.
            ServerUnavailableError: the race was lost too often.
        """
        from deltalake import write_deltalake

        predicate = " AND ".join(f"{column} = {_literal(value)}" for column, value in where.items())

        def write() -> None:
            uri, rows, columns = self.uri(table), frame.to_arrow(), list(where)
            if self.exists(table):
                write_deltalake(
                    uri, rows, mode="overwrite", predicate=predicate, partition_by=columns, schema_mode="merge"
                )
            else:
                # Not as an overwrite: it would wipe out what another process has created and written since.
                write_deltalake(uri, rows, mode="error", partition_by=columns)

        self._commit(table, write)

    def stage(
        self,
        table: str,
        schema: dict[str, pl.DataType],
        day: date,
        part_rows: int = PART_ROWS,
        sorted_by: str | None = None,
    ) -> StagedPartition:
        """Begin a partition that may be too big to be held in memory; `publish` makes it the table's.

        `sorted_by` is a text column by which the rows will be added in order: who looks for a range of it then opens
        only the files that can hold it.
        """
        return StagedPartition(self.uri(table), schema, PARTITION_COLUMN, day, part_rows, sorted_by)

    def publish(self, table: str, staged: StagedPartition) -> None:
        """Make the staged rows the partition of `table`, in one commit; they replace what was there.

        Raises:
            ConfigurationError: the place cannot be written.
            ServerUnavailableError: the race for the same partition was lost too often.
        """
        from deltalake import CommitProperties, DeltaTable, Schema, Transaction
        from deltalake.transaction import create_table_with_add_actions

        columns = [staged.partition_column]
        schema = Schema.from_arrow(pl.DataFrame(schema=staged.schema).to_arrow().schema)
        actions = staged.actions()

        def write() -> None:
            uri = self.uri(table)
            if not self.exists(table):
                create_table_with_add_actions(uri, schema, actions, mode="error", partition_by=columns)
                return
            current = DeltaTable(uri)
            # Two commits that add the first files of a partition do not see each other; of two that carry the same
            # transaction id, one fails.
            name = f"{staged.partition_column}={staged.day}"
            transaction = Transaction(name, (current.transaction_version(name) or 0) + 1)
            current.create_write_transaction(
                list(actions),
                "overwrite",
                schema,
                columns,
                [(staged.partition_column, "=", staged.day.isoformat())],
                commit_properties=CommitProperties(app_transactions=[transaction]),
            )

        self._commit(table, write)
        staged.release()

    def scan(self, table: str) -> pl.LazyFrame:
        """All rows of `table`.

        Raises:
            ConfigurationError: there is no such table yet.
        """
        if not self.exists(table):
            raise ConfigurationError(f"there is no table {table} under {self.root} yet: run `feedback run` first")
        return pl.scan_delta(self.uri(table))

    def scan_partition(self, table: str, day: date) -> pl.LazyFrame:
        """The rows of `table` that arrived on `day`; only that day's files are read."""
        return self.scan(table).filter(pl.col(PARTITION_COLUMN) == day)

    def _remote_fault(self, table: str, error: Exception) -> ServerUnavailableError:
        """What to raise where an object store failed; the store itself knows better what a person has to mend."""
        open_store(self.root).folders("")
        text = " ".join(str(error).split())[:200]
        return ServerUnavailableError(f"table {table}: {self.uri(table)} does not answer ({text}): try again later")

    def _commit(self, table: str, write: Callable[[], Result]) -> Result:
        from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

        for attempt in range(_ATTEMPTS):
            try:
                return write()
            except (DeltaError, OSError) as error:
                text = " ".join(str(error).split())
                if isinstance(error, CommitFailedError) or "already exists" in text:
                    # Two writers of one partition, or two creators: the loser starts over on the winner's commit.
                    time.sleep(random.uniform(0, 0.1 * 2**attempt))  # noqa: S311
                elif isinstance(error, TableNotFoundError) or "ermission" in text or "Read-only" in text:
                    raise ConfigurationError(
                        f"table {table} cannot be written at {self.uri(table)} ({text}): allow writing there, "
                        "or set `lake` in config/platform.yaml"
                    ) from error
                elif self.is_remote:
                    raise self._remote_fault(table, error) from error
                else:
                    raise
        raise ServerUnavailableError(
            f"table {table}: another writer of the same partition won {_ATTEMPTS} times: run it again"
        )


class DeltaIOManager(dg.ConfigurableIOManager):
    """Stores an asset's rows as its day's partition of the table named after the asset."""

    root: str = Field(description="Folder or s3:// URI that holds one sub-folder a table.")

    def handle_output(self, context: dg.OutputContext, obj: pl.DataFrame | StagedPartition) -> None:
        """Replace the partition; rows, commit and place go into the materialization's metadata."""
        lake = DeltaLakeResource(root=self.root)
        table = context.asset_key.path[-1]
        day = date.fromisoformat(context.partition_key)
        rows = obj.height
        with _final():
            if isinstance(obj, StagedPartition):
                lake.publish(table, obj)
            else:
                lake.replace(table, obj, {PARTITION_COLUMN: day})
        context.add_output_metadata(
            {"dagster/row_count": rows, "dagster/uri": lake.uri(table), "delta_version": lake.version(table)}
        )

    def load_input(self, context: dg.InputContext) -> pl.LazyFrame:
        """The upstream table's rows of the partition at hand."""
        lake = DeltaLakeResource(root=self.root)
        with _final():
            return lake.scan_partition(context.asset_key.path[-1], date.fromisoformat(context.partition_key))


@contextmanager
def _final() -> Iterator[None]:
    """End the step without retries where only a person can help."""
    try:
        yield
    except ConfigurationError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error


def _literal(value: date | int | str) -> str:
    return str(value) if isinstance(value, int) else "'{}'".format(str(value).replace("'", "''"))
