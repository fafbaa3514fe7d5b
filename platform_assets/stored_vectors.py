"""Vectors that need not be computed again: of the days before, of the day's last run, and of a run that was killed.

They are looked up for one range of content hashes at a time, because a day's vectors need not fit into memory:
`feedback_embeddings` is stored in order of its content hashes, so that a range of them is little of each file.
"""

import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from io import BytesIO
from typing import Final

import polars as pl

from platform_assets.domain.tables import FEEDBACK_EMBEDDINGS
from resources.delta_lake import PARTITION_COLUMN, DeltaLakeResource
from resources.object_store import StoredFile, open_store

TABLE: Final = "feedback_embeddings"
VECTOR_COLUMNS: Final = ("content_hash", "embedding", "token_count", "truncated")
_FOLDER: Final = "_unfinished"
_SCHEMA: Final = {name: FEEDBACK_EMBEDDINGS[name] for name in VECTOR_COLUMNS}


@dataclass(frozen=True)
class Model:
    """What a vector depends on besides its text."""

    name: str
    version: str
    hash: str


@dataclass(frozen=True)
class HashRange:
    """Content hashes from `least` on, up to and without `bound`; None for no bound."""

    least: str
    bound: str | None

    def meets(self, other: "HashRange") -> bool:
        """Whether a hash can lie in both."""
        return (self.bound is None or other.least < self.bound) and (other.bound is None or self.least < other.bound)

    def holds(self, column: str = "content_hash") -> pl.Expr:
        """Whether a hash lies in the range."""
        above = pl.col(column) >= self.least
        return above if self.bound is None else above & (pl.col(column) < self.bound)


def hash_ranges(count: int) -> list[HashRange]:
    """All content hashes in `count` ranges of about as many texts, in order: hashes are spread evenly."""
    bounds = [f"{number * 16**4 // count:04x}" for number in range(1, count)]
    return [HashRange(least, bound) for least, bound in zip(["", *bounds], [*bounds, None], strict=True)]


class StoredVectors:
    """The sound vectors of one model that earlier runs have stored.

    Args:
        lake: The tables.
        day: The day that is being embedded.
        model: The model; vectors of any other are not looked at.
        reuse_days: How many days before `day` are looked at besides the day itself.
    """

    def __init__(self, lake: DeltaLakeResource, day: date, model: Model, reuse_days: int) -> None:
        self._lake = lake
        self._day = day
        self._model = model
        self._reuse_days = reuse_days
        self._store = open_store(lake.uri(TABLE))
        self._folder = f"{_FOLDER}/{day}"
        self._found = self._unfinished()

    def of(self, hashes: pl.Series, within: HashRange) -> tuple[pl.DataFrame, int]:
        """The stored vectors of some content hashes, which all lie in a range.

        Returns:
            One row for each hash that is known, with `VECTOR_COLUMNS`; and how many of them a killed run left.
        """
        wanted = hashes.to_frame("content_hash").lazy()
        left = [self._read(file, within) for file, covered in self._found if covered.meets(within)]
        resumed = pl.concat([pl.DataFrame(schema=_SCHEMA), *left]).unique("content_hash")
        resumed = resumed.lazy().join(wanted, on="content_hash", how="semi").collect()
        if not self._lake.exists(TABLE):
            return resumed, resumed.height
        model = {"model_name": self._model.name, "model_version": self._model.version, "model_hash": self._model.hash}
        earlier = (
            self._lake.scan(TABLE)
            .filter(
                pl.col(PARTITION_COLUMN).is_between(self._day - timedelta(days=self._reuse_days), self._day),
                within.holds(),
                pl.col("status") == "ok",
                *(pl.col(name) == value for name, value in model.items()),
            )
            .select(VECTOR_COLUMNS)
            .join(wanted, on="content_hash", how="semi")
            .join(resumed.lazy(), on="content_hash", how="anti")
            .unique("content_hash")
            .collect(engine="streaming")
        )
        return pl.concat([resumed, earlier]), resumed.height

    def keep(self, vectors: pl.DataFrame, within: HashRange) -> None:
        """Store vectors of a range for the case that the run is killed before its table is written."""
        content = BytesIO()
        vectors.select(VECTOR_COLUMNS).write_parquet(content, compression="uncompressed")
        content.seek(0)
        name = f"{self._prefix()}{within.least}-{within.bound or ''}-{uuid.uuid4().hex}.parquet"
        self._store.put(f"{self._folder}/{name}", content)

    def forget(self) -> None:
        """Remove what killed runs of the day left, and what `keep` stored: the table has it now."""
        for file in self._listed():
            self._store.delete(file.uri)

    def _unfinished(self) -> list[tuple[StoredFile, HashRange]]:
        """The files of the model, each with the range that its name says it covers."""
        prefix = f"{self._folder}/{self._prefix()}"
        found = []
        for file in self._listed():
            if file.uri.startswith(prefix):
                least, bound, _ = file.uri.removeprefix(prefix).split("-")
                found.append((file, HashRange(least, bound or None)))
        return found

    def _listed(self) -> list[StoredFile]:
        return sorted(self._store.files(self._folder, lambda name: not name.endswith(".parquet")))

    def _prefix(self) -> str:
        return f"{self._model.version}-{self._model.hash}-"

    def _read(self, file: StoredFile, within: HashRange) -> pl.DataFrame:
        # Another run of the same day may have finished and cleaned up.
        with suppress(FileNotFoundError), self._store.fetch(file.uri) as path:
            return pl.scan_parquet(path).filter(within.holds()).select(VECTOR_COLUMNS).collect()
        return pl.DataFrame(schema=_SCHEMA)
