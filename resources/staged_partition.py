"""One partition of a Delta table on its way: its Parquet files lie in the table's folder, and no commit names them yet.

A day may hold more rows than fit into memory, and which of them count is known only at its end. So they are written
as they come, can be read back, and become the partition in one commit (`DeltaLakeResource.publish`).
"""

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from resources.errors import ConfigurationError
from resources.object_store import open_store

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

PART_ROWS: Final = 100_000
_PART_BYTES: Final = 256 << 20
"""Rows, or bytes in memory, that are gathered before they are written."""

_SAMPLE_ROWS: Final = 1_000
_WORTH_COMPRESSING: Final = 0.9
"""Compression has to leave less than this share of a column's texts."""


@dataclass(frozen=True)
class _Part:
    name: str
    size_bytes: int
    rows: int
    bounds: tuple[str, str] | None = None
    """The least and the greatest value of the column by which the rows are sorted."""


class StagedPartition:
    """Rows that are being gathered for the partition `day` of the table at `uri`.

    `schema` is the table's, with the partition's column, which the rows that are added may leave out.
    """

    def __init__(
        self,
        uri: str,
        schema: dict[str, pl.DataType],
        partition_column: str,
        day: date,
        part_rows: int = PART_ROWS,
        sorted_by: str | None = None,
    ) -> None:
        self.uri = uri
        self.schema = schema
        self.partition_column = partition_column
        self.day = day
        self._stored = [name for name in schema if name != partition_column]
        self._parts: list[_Part] = []
        self._waiting: list[pl.DataFrame] = []
        self._waiting_bytes = 0.0
        self._part_rows = part_rows
        self._sorted_by = sorted_by
        self._store = open_store(uri)

    @property
    def height(self) -> int:
        """Number of rows."""
        return sum(part.rows for part in self._parts) + sum(frame.height for frame in self._waiting)

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows after those that are there."""
        rows = frame.select(self._stored)
        self._waiting.append(rows)
        self._waiting_bytes += rows.estimated_size()
        if sum(each.height for each in self._waiting) >= self._part_rows or self._waiting_bytes >= _PART_BYTES:
            self._write()

    def frames(self, columns: list[str]) -> Iterator[pl.DataFrame]:
        """The rows so far, in order, some at a time."""
        for part in self._parts:
            yield self._read(part, columns)
        for frame in self._waiting:
            yield frame.select(columns)

    def counts(self, column: str) -> dict[str, int]:
        """Number of rows for each value of a text column, the most frequent first."""
        found: Counter[str] = Counter()
        for frame in self.frames([column]):
            runs = frame[column].rle().struct.unnest()
            found.update(dict(runs.group_by("value").agg(pl.col("len").sum()).sort("value").iter_rows()))
        return dict(found.most_common())

    def keep(self, condition: pl.Expr) -> None:
        """Drop the other rows; files of which none is dropped stay as they are."""
        parts, self._parts = self._parts, []
        self._waiting = [frame.filter(condition) for frame in self._waiting]
        for part in parts:
            before = self._read(part)
            after = before.filter(condition)
            if after.height == before.height:
                self._parts.append(part)
                continue
            self._store.delete(part.name)
            if after.height:
                self._parts.append(self._stored_part(after))

    def release(self) -> None:
        """Let go of the files: they are the table's now."""
        self._parts, self._waiting = [], []

    def discard(self) -> None:
        """Remove what was written and is not the table's."""
        for part in self._parts:
            self._store.delete(part.name)
        self._parts, self._waiting = [], []

    def actions(self) -> "list[AddAction]":
        """What a commit has to say of the files; rows that still wait are written first."""
        from deltalake.transaction import AddAction

        if any(frame.height for frame in self._waiting):
            self._write()
        now = int(time.time() * 1000)
        values = {self.partition_column: self.day.isoformat()}
        return [
            AddAction(part.name, part.size_bytes, values, now, True, json.dumps(self._statistics(part)))
            for part in self._parts
        ]

    def _statistics(self, part: _Part) -> dict[str, object]:
        """What readers of the table are told of a file, in Delta's words."""
        if part.bounds is None:
            return {"numRecords": part.rows}
        least, greatest = ({self._sorted_by: bound} for bound in part.bounds)
        nulls = {self._sorted_by: 0}
        return {"numRecords": part.rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}

    def _write(self) -> None:
        rows = pl.concat(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        self._parts.append(self._stored_part(rows))

    def _stored_part(self, rows: pl.DataFrame) -> _Part:
        name = f"{self.partition_column}={self.day}/part-{len(self._parts):05d}-{uuid.uuid4()}.parquet"
        if "://" in self.uri:
            content = BytesIO()
            _write_parquet(rows, content, self._sorted_by)
            content.seek(0)
            self._store.put(name, content)
            return _Part(name, len(content.getbuffer()), rows.height, self._bounds(rows))
        path = Path(self.uri) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_parquet(rows, path, self._sorted_by)
        except OSError as error:
            raise ConfigurationError(
                f"{path} cannot be written ({error.strerror or error}): allow writing there, make room, or set `lake` "
                "in config/platform.yaml"
            ) from error
        return _Part(name, path.stat().st_size, rows.height, self._bounds(rows))

    def _bounds(self, rows: pl.DataFrame) -> tuple[str, str] | None:
        return None if self._sorted_by is None else (rows[self._sorted_by][0], rows[self._sorted_by][-1])

    def _read(self, part: _Part, columns: list[str] | None = None) -> pl.DataFrame:
        with self._store.fetch(part.name) as path:
            return pl.read_parquet(path, columns=columns, hive_partitioning=False)


def _write_parquet(rows: pl.DataFrame, target: Path | BytesIO, sorted_by: str | None) -> None:
    """Write a file in half the time of Polars' own writer, which treats all columns alike.

    Some rows tell what is worth trying of a column of texts: those that do not get smaller, such as hashes, stand as
    they are, and a dictionary is made where values repeat. The least and the greatest text of a file help nobody to
    find rows, except in the column by which they are sorted.
    """
    import pyarrow.parquet as pq

    texts = rows.head(_SAMPLE_ROWS).select(pl.selectors.string()).get_columns()
    incompressible = {text.name for text in texts if not _gets_smaller(text)}
    ordered = pl.selectors.numeric() | pl.selectors.temporal() | pl.selectors.by_name(*filter(None, [sorted_by]))
    pq.write_table(
        rows.to_arrow(compat_level=pl.CompatLevel.newest()),
        target,
        compression={
            name: "none" if name in incompressible else "snappy"
            for name, dtype in rows.schema.items()
            if not dtype.is_nested()
        },
        use_dictionary=[text.name for text in texts if 2 * text.n_unique() <= text.len()],
        write_statistics=rows.select(ordered).columns,
        store_schema=False,
    )


def _gets_smaller(column: pl.Series) -> bool:
    """Whether compression saves more than a tenth."""
    import pyarrow as pa

    texts = "".join(column.drop_nulls()).encode()
    return not texts or len(pa.compress(texts, "snappy", asbytes=True)) < _WORTH_COMPRESSING * len(texts)
