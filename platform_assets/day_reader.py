"""Reads the files of a day's plan into staged tables, every record on one side or the other.

Three things go on at once: the next records are parsed, those before are typed, and those before them are written.
The rules for a record are `domain/raw_feedback.py`; which files are read is `day_plan.py`; what becomes of records
with one id is `id_resolution.py`.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import polars as pl

from platform_assets.day_plan import DayPlan, PlannedFile
from platform_assets.domain.raw_feedback import FILE_URI, RECEIVED_AT, Reason, accept, dead_letters
from platform_assets.domain.sources import Source
from platform_assets.domain.tables import LANDED_FILES, QUARANTINED_FEEDBACK, RAW_FEEDBACK, UTC_TIME, conform
from platform_assets.id_resolution import id_hashes, resolve_ids
from resources.delta_lake import DeltaLakeResource
from resources.landing_zone import LandingZoneResource
from resources.record_files.batches import LINE_NO, SUFFIXES, RecordBatch, RecordFormat, UnreadableFileError
from resources.staged_partition import StagedPartition

_GATHERED_ROWS: Final = 50_000
_GATHERED_BYTES: Final = 16 << 20
"""Records of small files are typed together, up to about so many at once."""

_ARRIVING: Final = timedelta(seconds=60)
"""A file that ends too soon and was written so lately may still be on its way."""

_NAMED_COLUMNS: Final = 50

_PLACE: Final = ["file_uri", "line_no"]

_JSON: Final = (RecordFormat.JSONL, RecordFormat.JSON)

_LETTER: Final = {
    "file_uri": pl.String(),
    "received_at": UTC_TIME,
    "line_no": pl.Int64(),
    "raw": pl.String(),
    "reason": pl.String(),
    "detail": pl.String(),
}

Item = TypeVar("Item")


class IncompleteFileError(Exception):
    """A file ends too soon and is so young that it may still be on its way."""


@dataclass(frozen=True)
class DayTables:
    """A day, staged; each record of its files stands in one of the two tables."""

    loaded: StagedPartition
    quarantined: StagedPartition
    ledger: pl.DataFrame
    unmapped: dict[str, list[str]]
    """Columns that the files of a source have and its contract does not name; their values are in `metadata`."""

    def close(self) -> None:
        """Remove what was not published."""
        self.loaded.discard()
        self.quarantined.discard()


def read_day(plan: DayPlan, landing: LandingZoneResource, lake: DeltaLakeResource, *, patient: bool) -> DayTables:
    """Read every file of a day, resolve records of one id, and close the books.

    Args:
        plan: the files.
        landing: where they are.
        lake: where the rows of files that are gone are, and the staged ones go.
        patient: leave a day with a file that may still be on its way for later.

    Raises:
        IncompleteFileError: a file may still be on its way; only if patient.
        ConfigurationError: a file cannot be opened.
    """
    tables = DayTables(
        lake.stage("raw_feedback", RAW_FEEDBACK, plan.day),
        lake.stage("quarantined_feedback", QUARANTINED_FEEDBACK, plan.day),
        pl.DataFrame(schema=LANDED_FILES),
        {},
    )
    try:
        hashes = _carry_over(plan, lake, tables)
        reader = _FileReader(plan, landing, patient=patient)
        # Closed from the last stage to the first: none while the one after it may still ask it for more.
        with (
            closing(reader.pieces()) as pieces,
            closing(_ahead(pieces)) as read,
            closing(_judged(read, plan)) as typed,
            closing(_ahead(typed)) as judged,
        ):
            for item in judged:
                if isinstance(item, _Void):
                    others = pl.col("file_uri") != item.file_uri
                    tables.loaded.keep(others)
                    tables.quarantined.keep(others)
                else:
                    tables.loaded.add(item.loaded)
                    hashes.append(item.hashes)
                    tables.quarantined.add(item.letters)
        resolve_ids(plan, landing, tables.loaded, tables.quarantined, hashes)
        unmapped = {source: sorted(names) for source, names in reader.unmapped.items()}
        return replace(tables, ledger=_ledger(plan, reader, tables), unmapped=unmapped)
    except BaseException:
        tables.close()
        raise


@dataclass(frozen=True)
class _Piece:
    """Some records of one file; `missing` says why none of them can be a row, where the file lacks a column."""

    planned: PlannedFile
    batch: RecordBatch
    missing: str | None = None


@dataclass(frozen=True)
class _Letter:
    """A file that is refused as a whole."""

    planned: PlannedFile
    reason: Reason
    detail: str


@dataclass(frozen=True)
class _Void:
    """What came of a file so far does not count."""

    file_uri: str


class _FileReader:
    """Reads one file after the other, and remembers what is to be said of each."""

    def __init__(self, plan: DayPlan, landing: LandingZoneResource, *, patient: bool) -> None:
        self.records: Counter[str] = Counter()
        self.problems: dict[str, str] = {}
        self.unmapped: defaultdict[str, set[str]] = defaultdict(set)
        self._plan = plan
        self._landing = landing
        self._patient = patient

    def pieces(self) -> "Generator[_Piece | _Letter | _Void]":
        for planned in self._plan.files:
            if planned.same_as is not None:
                self.problems[planned.file.uri] = f"the same content as {planned.same_as}, which counts"
            elif planned.source is None:
                problem = "no source claims this file: add its name to a source's `files` in config/sources.yaml"
                yield self._refuse(planned, Reason.UNKNOWN_SOURCE, problem)
            elif planned.kind is None:
                yield self._refuse(planned, Reason.UNREADABLE_FILE, f"its name ends with none of {SUFFIXES}")
            else:
                yield from self._file(planned, planned.source)

    def _file(self, planned: PlannedFile, source: Source) -> Iterator[_Piece | _Letter | _Void]:
        uri = planned.file.uri
        try:
            kept, has_text = 0, False
            for batch in planned.read(self._landing):
                kept += batch.records.height
                has_text = has_text or source.columns.text in batch.columns
                self._note_unmapped(planned.content.source, source, batch.columns)
                self.records[uri] += batch.records.height + len(batch.rejected)
                yield _Piece(planned, batch, self._missing(planned, source, batch.columns))
        except UnreadableFileError as error:
            if error.incomplete and self._patient and datetime.now(UTC) - planned.file.modified_at < _ARRIVING:
                raise IncompleteFileError(f"{uri}: {error.detail}") from error
            yield _Void(uri)
            reason = Reason.INCOMPLETE_FILE if error.incomplete else Reason.UNREADABLE_FILE
            yield self._refuse(planned, reason, error.detail)
            return
        if not self.records[uri]:
            self.problems[uri] = "the file holds no records"
        elif planned.kind and planned.kind.format in _JSON and kept and not has_text and source.pull is None:
            yield from self._without_text(planned, source)

    def _without_text(self, planned: PlannedFile, source: Source) -> Iterator[_Piece | _Void]:
        """A JSON object may leave out what it has no value for; that none has a text is a wrong mapping."""
        columns = sorted({name for batch in planned.read(self._landing) for name in batch.columns})
        yield _Void(planned.file.uri)
        for batch in planned.read(self._landing):
            yield _Piece(planned, batch, self._lacks(planned, source.columns.text, columns))

    def _missing(self, planned: PlannedFile, source: Source, columns: Sequence[str]) -> str | None:
        """A table names every column in every file."""
        if planned.kind and planned.kind.format in _JSON:
            return None
        missing = next((name for name in source.columns.mapped().values() if name not in columns), None)
        return self._lacks(planned, missing, columns) if missing is not None else None

    def _lacks(self, planned: PlannedFile, column: str, columns: Sequence[str]) -> str:
        problem = (
            f"no column {column!r} (found: {', '.join(columns[:12])}): correct the columns of source "
            f"{planned.content.source}, or export the file again"
        )
        self.problems[planned.file.uri] = problem
        return problem

    def _note_unmapped(self, name: str, source: Source, columns: Sequence[str]) -> None:
        noted = self.unmapped.get(name, set())
        more = set(columns).difference(source.columns.mapped().values(), noted)
        if more and len(noted) < _NAMED_COLUMNS:
            self.unmapped[name].update(sorted(more)[: _NAMED_COLUMNS - len(noted)])

    def _refuse(self, planned: PlannedFile, reason: Reason, problem: str) -> _Letter:
        self.records[planned.file.uri] = 1
        self.problems[planned.file.uri] = problem
        return _Letter(planned, reason, problem)


@dataclass(frozen=True)
class _Judged:
    loaded: pl.DataFrame
    letters: pl.DataFrame
    hashes: pl.Series


def _judged(pieces: Iterator[_Piece | _Letter | _Void], plan: DayPlan) -> "Generator[_Judged | _Void]":
    """Type the records, those of small files together."""
    gathered: list[_Piece] = []
    rows, size = 0, 0.0
    for item in pieces:
        goes_along = isinstance(item, _Piece) and (not gathered or item.planned.source is gathered[0].planned.source)
        if gathered and (not goes_along or rows >= _GATHERED_ROWS or size >= _GATHERED_BYTES):
            yield _judge(gathered, plan)
            gathered, rows, size = [], 0, 0
        if isinstance(item, _Piece):
            gathered.append(item)
            rows += item.batch.records.height + len(item.batch.rejected)
            size += item.batch.records.estimated_size()
        elif isinstance(item, _Void):
            yield item
        else:
            file = item.planned.file.uri, item.planned.received_at
            yield _only_letters(
                _letters([(*file, 0, "", item.reason.value, item.detail)], item.planned.content.source, plan)
            )
    if gathered:
        yield _judge(gathered, plan)


def _judge(pieces: Sequence[_Piece], plan: DayPlan) -> _Judged:
    planned = pieces[0].planned
    name, source = planned.content.source, planned.source
    letters = [
        (piece.planned.file.uri, piece.planned.received_at, one.line_no, one.raw, one.reason.value, one.detail)
        for piece in pieces
        for one in piece.batch.rejected
    ]
    whole = [piece for piece in pieces if piece.missing is None and piece.batch.records.height]
    for piece in pieces:
        if piece.missing is not None:
            lines = piece.batch.records[LINE_NO].to_list()
            raws = piece.batch.raws(range(len(lines)))
            file = piece.planned.file.uri, piece.planned.received_at
            letters += [
                (*file, line, raw, Reason.MISSING_COLUMN.value, piece.missing)
                for line, raw in zip(lines, raws, strict=True)
            ]
    if not whole or source is None:
        return _only_letters(_letters(letters, name, plan))
    accepted = accept(_placed(whole), source, name, plan.day)
    refused = accepted.refused.select(
        "file_uri",
        pl.col("received_at").cast(UTC_TIME),
        "line_no",
        pl.Series("raw", _raws(whole, accepted.refused["position"].to_list()), dtype=pl.String),
        "reason",
        "detail",
    )
    refused_letters = dead_letters(refused, name, plan.day)
    return _Judged(
        accepted.loaded,
        pl.concat([_letters(letters, name, plan), refused_letters]) if letters else refused_letters,
        id_hashes(accepted.loaded),
    )


def _only_letters(letters: pl.DataFrame) -> _Judged:
    return _Judged(pl.DataFrame(schema=RAW_FEEDBACK), letters, pl.Series(dtype=pl.UInt64))


def _placed(pieces: Sequence[_Piece]) -> pl.DataFrame:
    """The records of all pieces, each with where it comes from."""
    records = pl.concat([piece.batch.records for piece in pieces])
    origins = pl.DataFrame(
        {
            FILE_URI: [piece.planned.file.uri for piece in pieces],
            RECEIVED_AT: [piece.planned.received_at for piece in pieces],
            "height": [piece.batch.records.height for piece in pieces],
        }
    )
    of_record = pl.int_range(origins.height, eager=True).repeat_by(origins["height"]).explode()
    return pl.concat([origins.drop("height")[of_record], records], how="horizontal")


def _raws(pieces: Sequence[_Piece], positions: Sequence[int]) -> list[str]:
    """The records at ascending positions of the pieces one after another, as they stand in their files."""
    raws: list[str] = []
    offset = first = 0
    for piece in pieces:
        end = offset + piece.batch.records.height
        last = bisect_left(positions, end, lo=first)
        if last > first:
            raws += piece.batch.raws([at - offset for at in positions[first:last]])
        offset, first = end, last
    return raws


def _letters(rows: Sequence[tuple[object, ...]], source: str, plan: DayPlan) -> pl.DataFrame:
    return dead_letters(pl.DataFrame(rows, schema=_LETTER, orient="row"), source, plan.day)


def _carry_over(plan: DayPlan, lake: DeltaLakeResource, tables: DayTables) -> list[pl.Series]:
    """Take over what the tables hold of files that are gone: no row vanishes because a folder was tidied."""
    hashes: list[pl.Series] = []
    if not plan.gone:
        return hashes
    of_gone = pl.col("file_uri").is_in([entry.file_uri for entry in plan.gone])
    places = []
    for rows in lake.scan_partition("raw_feedback", plan.day).filter(of_gone).collect_batches(maintain_order=True):
        tables.loaded.add(rows)
        hashes.append(id_hashes(rows))
        places.append(rows.select(_PLACE))
    letters = lake.scan_partition("quarantined_feedback", plan.day).filter(of_gone).collect()
    # A run that ended between the two tables may have left a letter of what is still a row.
    tables.quarantined.add(
        letters.join(pl.concat(places), on=_PLACE, how="anti", maintain_order="left") if places else letters
    )
    return hashes


def _ledger(plan: DayPlan, reader: _FileReader, tables: DayTables) -> pl.DataFrame:
    loaded, quarantined = (Counter(staged.counts("file_uri")) for staged in (tables.loaded, tables.quarantined))
    rows: list[tuple[object, ...]] = [
        (
            plan.day,
            one.file.uri,
            one.content.content_hash,
            one.content.source,
            one.file.size_bytes,
            one.file.modified_at,
            one.received_at,
            reader.records[one.file.uri],
            loaded[one.file.uri],
            quarantined[one.file.uri],
            reader.problems.get(one.file.uri),
            one.content.contract_hash,
            one.file.etag,
            one.same_as,
            False,
        )
        for one in plan.files
    ]
    rows += [
        (
            plan.day,
            entry.file_uri,
            entry.content_hash,
            entry.source,
            entry.size_bytes,
            entry.modified_at,
            entry.landed_at,
            loaded[entry.file_uri] + quarantined[entry.file_uri],
            loaded[entry.file_uri],
            quarantined[entry.file_uri],
            "no longer in the landing zone; its rows are kept",
            entry.contract_hash,
            entry.etag,
            None,
            True,
        )
        for entry in plan.gone
    ]
    return conform(pl.DataFrame(rows, schema=LANDED_FILES, orient="row"), LANDED_FILES)


def _ahead(items: Iterator[Item]) -> "Generator[Item]":
    """The same items, the next of which is made while the one before is used."""
    done = object()
    # Leaving it waits for the item that is being made.
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, done)
        while (item := coming.result()) is not done:
            coming = thread.submit(next, items, done)
            yield item  # type: ignore[misc]
