"""`raw_feedback`, `quarantined_feedback` and `landed_files`: every record of a day, and the ledger of its files.

The three are one step, because a record is counted once. The rules are `domain/raw_feedback.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime

import dagster as dg
import polars as pl

from platform_assets.assets.common import LAKE_IO, table_metadata
from platform_assets.domain.raw_feedback import Accepted, FileOrigin, Reason, accept, dead_letters, supersede
from platform_assets.domain.sources import Source
from platform_assets.domain.tables import LANDED_FILES, RAW_FEEDBACK, conform
from platform_assets.failures import clear_failures
from platform_assets.landed_sources import SourcedFile, content_of, source_of
from platform_assets.partitions import ARRIVAL_DAYS
from platform_assets.settings import Settings, SettingsResource
from resources.delta_lake import DeltaLakeResource
from resources.landing_zone import LandedFile, LandingZoneResource
from resources.record_files import LINE_NO, RAW, RecordFile, RecordFormat, Rejection, read_records

_LETTER = {"line_no": pl.Int64, "raw": pl.String, "reason": pl.String, "detail": pl.String}


@dataclass(frozen=True)
class _ReadFile:
    file: LandedFile
    origin: FileOrigin
    content_hash: str
    records: int
    accepted: Accepted
    raws: pl.DataFrame
    problem: str | None


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
)
def raw_feedback(
    context: dg.AssetExecutionContext,
    settings: SettingsResource,
    lake: dg.ResourceParam[DeltaLakeResource],
    landing: dg.ResourceParam[LandingZoneResource],
) -> Iterator[dg.Output[pl.DataFrame]]:
    """Read, type and file the day's records."""
    day = date.fromisoformat(context.partition_key)
    with clear_failures():
        seen = _Seen(_first_seen(lake, day), datetime.now(UTC))
        read = [_read(file, landing, settings.get(), seen) for file in landing.files(day)]
    # In the order in which they landed, so that of records with one id the last one wins.
    read.sort(key=lambda part: (part.origin.received_at, part.file.modified_at, part.file.uri))
    for part in read:
        if part.problem:
            context.log.warning(f"{part.file.uri}: {part.problem}")
    raws = pl.concat([part.raws for part in read]) if read else pl.DataFrame(schema=_RAWS)
    whole = supersede([part.accepted for part in read], raws)
    ledger = _ledger(read, whole)
    records = sum(part.records for part in read)
    yield dg.Output(whole.loaded, "raw_feedback", metadata={"records_read": records, "files": len(read)})
    reasons = dict(whole.quarantined.group_by("reason").len().sort("len", descending=True).iter_rows())
    yield dg.Output(whole.quarantined, "quarantined_feedback", metadata={"reasons": reasons})
    # Last, so that a day whose tables were not all written stays pending.
    yield dg.Output(ledger, "landed_files", metadata={"records": records})


_RAWS = {"file_uri": pl.String, "line_no": pl.Int64, "raw": pl.String}


def _first_seen(lake: DeltaLakeResource, day: date) -> dict[tuple[str, str], datetime]:
    """When each content under each name was first seen: a replay must not change `received_at`."""
    if not lake.exists("landed_files"):
        return {}
    known = lake.scan_partition("landed_files", day).select("file_uri", "content_hash", "landed_at").collect()
    return {(uri, content): landed_at for uri, content, landed_at in known.iter_rows()}


@dataclass(frozen=True)
class _Seen:
    """When contents were seen first: those of the ledger then, all others now."""

    before: dict[tuple[str, str], datetime]
    now: datetime


def _read(file: LandedFile, landing: LandingZoneResource, settings: Settings, seen: _Seen) -> _ReadFile:
    sourced = source_of(file, landing, settings)
    content = content_of(file, landing)
    origin = FileOrigin(
        source=sourced.name,
        file_uri=file.uri,
        partition_date=file.day,
        received_at=seen.before.get((file.uri, content), seen.now),
    )
    record_format = RecordFormat.of(file.path)
    if sourced.source is None or record_format is None:
        return _refused_whole(file, origin, content, sourced)
    found = read_records(
        file.path,
        record_format,
        list(sourced.source.columns.mapped().values()),
        encoding=sourced.source.encoding,
        delimiter=sourced.source.delimiter,
    )
    accepted, problem = _accept(found, record_format, sourced.source, origin)
    rejected = pl.DataFrame(
        [(r.line_no, r.raw, r.reason.value, r.detail) for r in found.rejected], schema=_LETTER, orient="row"
    )
    unreadable = next((r.detail for r in found.rejected if r.reason is Rejection.UNREADABLE_FILE), None)
    records = found.records.height + len(found.rejected)
    return _ReadFile(
        file=file,
        origin=origin,
        content_hash=content,
        records=records,
        accepted=Accepted(accepted.loaded, pl.concat([accepted.quarantined, dead_letters(rejected, origin)])),
        raws=found.records.select(
            pl.lit(file.uri).alias("file_uri"), pl.col(LINE_NO).alias("line_no"), pl.col(RAW).alias("raw")
        ),
        problem=problem or unreadable or (None if records else "the file holds no records"),
    )


def _accept(
    found: RecordFile, record_format: RecordFormat, source: Source, origin: FileOrigin
) -> tuple[Accepted, str | None]:
    # A JSON object simply leaves out what it has no value for; a table names every column in every file.
    needed = [source.columns.text] if record_format is RecordFormat.JSONL else list(source.columns.mapped().values())
    if missing := [column for column in found.missing if column in needed]:
        problem = (
            f"no column {missing[0]!r} (found: {', '.join(found.columns[:12])}): correct the columns of source "
            f"{origin.source}, or export the file again"
        )
        letters = found.records.select(
            pl.col(LINE_NO).alias("line_no"),
            pl.col(RAW).alias("raw"),
            pl.lit(Reason.MISSING_COLUMN.value).alias("reason"),
            pl.lit(problem).alias("detail"),
        )
        return Accepted(pl.DataFrame(schema=RAW_FEEDBACK), dead_letters(letters, origin)), problem
    return accept(found.records, source, origin), None


def _refused_whole(file: LandedFile, origin: FileOrigin, content: str, sourced: SourcedFile) -> _ReadFile:
    if sourced.source is None:
        reason = Reason.UNKNOWN_SOURCE
        problem = "no source claims this file: add its name to a source's `files` in config/sources.yaml"
    else:
        reason = Reason.UNREADABLE_FILE
        problem = f"{file.path.suffix or 'no suffix'} is none of {', '.join(f'.{f}' for f in RecordFormat)}"
    letter = pl.DataFrame([(0, "", reason.value, problem)], schema=_LETTER, orient="row")
    return _ReadFile(
        file=file,
        origin=origin,
        content_hash=content,
        records=1,
        accepted=Accepted(pl.DataFrame(schema=RAW_FEEDBACK), dead_letters(letter, origin)),
        raws=pl.DataFrame(schema=_RAWS),
        problem=problem,
    )


def _ledger(read: list[_ReadFile], whole: Accepted) -> pl.DataFrame:
    loaded = dict(whole.loaded.group_by("file_uri").len().iter_rows())
    quarantined = dict(whole.quarantined.group_by("file_uri").len().iter_rows())
    rows = [
        (
            part.origin.partition_date,
            part.file.uri,
            part.content_hash,
            part.origin.source,
            part.file.size_bytes,
            part.file.modified_at,
            part.origin.received_at,
            part.records,
            loaded.get(part.file.uri, 0),
            quarantined.get(part.file.uri, 0),
            part.problem,
        )
        for part in read
    ]
    return conform(pl.DataFrame(rows, schema=LANDED_FILES, orient="row"), LANDED_FILES)
