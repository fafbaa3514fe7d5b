"""Turns a source's text records into `raw_feedback` rows, or into dead letters with their reasons.

Every record that goes in comes out exactly once, on one side or the other.
"""

import hashlib
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

import polars as pl

from platform_assets.domain.sources import Source
from platform_assets.domain.tables import QUARANTINED_FEEDBACK, RAW_FEEDBACK, UTC_TIME, conform


class Reason(StrEnum):
    """Why a record is a dead letter."""

    UNREADABLE_FILE = "unreadable_file"
    UNKNOWN_SOURCE = "unknown_source"
    MISSING_COLUMN = "missing_column"
    MALFORMED_RECORD = "malformed_record"
    WRONG_FIELD_COUNT = "wrong_field_count"
    MISSING_ID = "missing_id"
    UNRECOVERABLE_ID = "unrecoverable_id"
    BAD_TIME = "bad_time"
    BAD_RATING = "bad_rating"
    SUPERSEDED = "superseded"


class Flag(StrEnum):
    """What was noticed, or mended, in a record that was kept."""

    NUL_REMOVED = "nul_removed"
    REPLACEMENT_CHARACTER = "replacement_character"
    NO_TEXT = "no_text"
    NO_TIME = "no_time"


STRUCTURAL_REASONS = (Reason.UNREADABLE_FILE, Reason.UNKNOWN_SOURCE, Reason.MISSING_COLUMN)
"""Reasons that mean a whole file does not keep its source's contract."""

_ID_IN_SCIENTIFIC_NOTATION = r"^\d+(?:[.,]\d+[eE][+-]?|[eE]\+)\d+$"
_HAS_OFFSET = r"(?:[zZ]|[+-]\d{2}:?\d{2}|:\d{2}(?:\.\d+)?[+-]\d{2})$"
_INVISIBLE = r"[\s\u200B\u200C\u200D\u2060\uFEFF]"


@dataclass(frozen=True)
class FileOrigin:
    """Where records come from; it goes into each of their rows."""

    source: str
    file_uri: str
    partition_date: date
    received_at: datetime
    """UTC; when the file was first seen, so that a replay gives the same rows."""


@dataclass(frozen=True)
class Accepted:
    """Records of one or several files, each on one side."""

    loaded: pl.DataFrame
    quarantined: pl.DataFrame

    @property
    def records(self) -> int:
        """Number of records on both sides."""
        return self.loaded.height + self.quarantined.height


def accept(records: pl.DataFrame, source: Source, origin: FileOrigin) -> Accepted:
    """Apply a source's contract to its records.

    Args:
        records: columns `#line_no` (Int64), `#raw`, `#extra` and one String column for each mapped column of
            `source`; columns that the file does not have are null.
        source: the contract.
        origin: where the records come from.
    """
    mapped = source.columns.mapped()
    typed = records.select(
        pl.col("#line_no").alias("line_no"),
        pl.col("#raw").alias("raw"),
        pl.col("#extra").alias("metadata"),
        *(
            (pl.col(mapped[name]) if name in mapped else pl.lit(None, pl.String)).alias(name)
            for name in ("source_record_id", "text", "created_at", "rating", "author_id", "language", "channel")
        ),
    )
    typed = typed.with_columns(
        text=pl.col("text").fill_null("").str.replace_all("\x00", "", literal=True),
        had_nul=pl.col("text").fill_null("").str.contains("\x00", literal=True),
        given_rating=pl.when(pl.col("rating").str.strip_chars().str.to_lowercase() != "nan").then(
            _blank_to_null("rating")
        ),
        given_time=_blank_to_null("created_at"),
        channel=_blank_to_null("channel").fill_null(source.channel),
        author_id=_blank_to_null("author_id"),
        language=_blank_to_null("language"),
        source_record_id=_blank_to_null("source_record_id"),
    ).with_columns(rating=_rating(source), created_at=_utc(source))
    typed = typed.with_columns(_verdict(source).alias("verdict")).unnest("verdict")
    bad = pl.col("reason").is_not_null()
    return Accepted(
        loaded=_rows(typed.filter(~bad), origin, has_ids="source_record_id" in mapped),
        quarantined=dead_letters(typed.filter(bad).select("line_no", "raw", "reason", "detail"), origin),
    )


def dead_letters(letters: pl.DataFrame, origin: FileOrigin) -> pl.DataFrame:
    """Give `line_no`, `raw`, `reason` and `detail` the columns that say where they come from."""
    return conform(
        letters.with_columns(
            partition_date=pl.lit(origin.partition_date),
            source=pl.lit(origin.source),
            file_uri=pl.lit(origin.file_uri),
            quarantined_at=pl.lit(origin.received_at).cast(UTC_TIME),
        ),
        QUARANTINED_FEEDBACK,
    )


def supersede(accepted: list[Accepted], raws: pl.DataFrame) -> Accepted:
    """Join a day's files and resolve records that carry the same id: the last one landed wins.

    Each earlier one becomes a dead letter that names the winner, so that both can be traced.

    Args:
        accepted: the files of one day, in the order in which they landed.
        raws: `file_uri`, `line_no`, `raw` of every record, for the dead letters.
    """
    loaded = pl.concat([conform(part.loaded, RAW_FEEDBACK) for part in accepted] or [_empty(RAW_FEEDBACK)])
    letters = pl.concat([part.quarantined for part in accepted] or [_empty(QUARANTINED_FEEDBACK)])
    ordered = loaded.with_columns(
        winner=pl.struct("file_uri", "line_no").last().over("feedback_id"),
        wins=pl.int_range(pl.len()).reverse().over("feedback_id") == 0,
    )
    beaten = ordered.filter(~pl.col("wins")).join(raws, on=["file_uri", "line_no"], how="left")
    superseded = beaten.select(
        "partition_date",
        "source",
        "file_uri",
        "line_no",
        "raw",
        pl.lit(Reason.SUPERSEDED.value).alias("reason"),
        pl.format(
            "the same record id landed later, in {} line {}",
            pl.col("winner").struct.field("file_uri"),
            pl.col("winner").struct.field("line_no"),
        ).alias("detail"),
        pl.col("received_at").alias("quarantined_at"),
    )
    return Accepted(
        loaded=conform(ordered.filter(pl.col("wins")), RAW_FEEDBACK),
        quarantined=pl.concat([letters, conform(superseded, QUARANTINED_FEEDBACK)]),
    )


def content_hash(text: str) -> str:
    """SHA-256 of the text in UTF-8, in hex: equal texts have equal hashes, in every source."""
    return hashlib.sha256(text.encode()).hexdigest()


def feedback_id(source: str, record_key: str) -> str:
    """A record's id: the first 32 hex digits of the SHA-256 of source, a NUL and the source's own record id.

    Where a source has no ids, `record_key` is a hash of the whole record, so that two customers who write the same
    word stay two records, and the same record delivered twice stays one.
    """
    return hashlib.sha256(f"{source}\x00{record_key}".encode()).hexdigest()[:32]


def sendable(text: str = "text") -> pl.Expr:
    """Whether a text has anything to read: more than white space and invisible characters."""
    return pl.col(text).str.replace_all(_INVISIBLE, "").str.len_bytes() > 0


def _rows(typed: pl.DataFrame, origin: FileOrigin, *, has_ids: bool) -> pl.DataFrame:
    hashes = [content_hash(text) for text in typed["text"]]
    keys = typed["source_record_id"].to_list() if has_ids else [content_hash(key) for key in _whole(typed)]
    flags = {
        Flag.NUL_REMOVED: pl.col("had_nul"),
        Flag.REPLACEMENT_CHARACTER: pl.col("text").str.contains("\ufffd", literal=True),
        Flag.NO_TEXT: ~sendable(),
        Flag.NO_TIME: pl.col("created_at").is_null(),
    }
    return conform(
        typed.with_columns(
            source=pl.lit(origin.source),
            feedback_id=pl.Series([feedback_id(origin.source, key) for key in keys], dtype=pl.String),
            source_record_id=pl.Series(keys, dtype=pl.String),
            content_hash=pl.Series(hashes, dtype=pl.String),
            flags=pl.concat_list(
                *(
                    pl.when(holds).then(pl.lit([flag.value])).otherwise(pl.lit([], pl.List(pl.String)))
                    for flag, holds in flags.items()
                )
            ),
            received_at=pl.lit(origin.received_at).cast(UTC_TIME),
            created_at=pl.col("created_at").fill_null(pl.lit(origin.received_at).cast(UTC_TIME)),
            partition_date=pl.lit(origin.partition_date),
            file_uri=pl.lit(origin.file_uri),
        ),
        RAW_FEEDBACK,
    )


def _whole(typed: pl.DataFrame) -> list[str]:
    """Everything that a record says, as one text."""
    given = ["text", "given_time", "given_rating", "author_id", "language", "channel", "metadata"]
    return typed.select(pl.struct(given).struct.json_encode()).to_series().to_list()


def _blank_to_null(name: str) -> pl.Expr:
    stripped = pl.col(name).str.strip_chars()
    return pl.when(stripped != "").then(stripped)


def _rating(source: Source) -> pl.Expr:
    text = pl.col("rating").str.strip_chars()
    if source.decimal_mark == ",":
        text = text.str.replace(",", ".", literal=True)
    number = text.cast(pl.Float64, strict=False)
    low, high = source.rating_range
    return pl.when(number.is_between(low, high)).then(number)


def _utc(source: Source) -> pl.Expr:
    """The time in UTC; null where it is none, names no moment, or is naive in a source without a zone."""
    text = pl.col("created_at").str.strip_chars()
    naive_text = pl.when(~text.str.contains(_HAS_OFFSET)).then(text)
    with_offset = pl.when(text.str.contains(_HAS_OFFSET)).then(text)
    if source.time_format is None:
        moment = pl.coalesce(
            with_offset.str.to_datetime(form, strict=False, time_unit="us", time_zone="UTC")
            for form in (
                "%Y-%m-%dT%H:%M:%S%.f%#z",
                "%Y-%m-%d %H:%M:%S%.f%#z",
                "%Y-%m-%dT%H:%M%#z",
                "%Y-%m-%d %H:%M%#z",
            )
        )
        wall = pl.coalesce(
            naive_text.str.to_datetime(form, strict=False, time_unit="us")
            for form in (
                "%Y-%m-%dT%H:%M:%S%.f",
                "%Y-%m-%d %H:%M:%S%.f",
                "%Y-%m-%dT%H:%M",
                "%Y-%m-%d %H:%M",
                "%Y-%m-%d",
            )
        )
    elif source.time_format_is_absolute:
        return text.str.to_datetime(source.time_format, strict=False, time_unit="us", time_zone="UTC")
    else:
        moment = pl.lit(None, UTC_TIME)
        wall = text.str.to_datetime(source.time_format, strict=False, time_unit="us")
    if source.time_zone is None:
        return moment
    placed = wall.dt.replace_time_zone(source.time_zone, ambiguous="null", non_existent="null")
    return pl.coalesce(moment, placed.dt.convert_time_zone("UTC"))


def _verdict(source: Source) -> pl.Expr:
    """A struct of reason and detail; null for a record that keeps the contract. The first breach counts."""
    low, high = source.rating_range
    zone = source.time_zone or "none, so an offset is needed"
    breaches: list[tuple[Reason, pl.Expr, pl.Expr]] = [
        (
            Reason.BAD_TIME,
            pl.col("given_time").is_not_null() & pl.col("created_at").is_null(),
            pl.format("{} is no moment of this source (time zone: {})", pl.col("given_time"), pl.lit(zone)),
        ),
        (
            Reason.BAD_RATING,
            pl.col("given_rating").is_not_null() & pl.col("rating").is_null(),
            pl.format("{} is no rating from {} to {}", pl.col("given_rating"), pl.lit(low), pl.lit(high)),
        ),
    ]
    if source.columns.source_record_id is not None:
        identity = pl.col("source_record_id")
        breaches[:0] = [
            (Reason.MISSING_ID, identity.is_null(), pl.lit("the record has no id")),
            (
                Reason.UNRECOVERABLE_ID,
                identity.str.contains(_ID_IN_SCIENTIFIC_NOTATION),
                pl.format("{} lost digits in a spreadsheet: export ids as text", identity),
            ),
        ]
    return pl.coalesce(
        pl.when(breached).then(pl.struct(pl.lit(reason.value).alias("reason"), detail.alias("detail")))
        for reason, breached, detail in breaches
    )


def _empty(schema: dict[str, pl.DataType]) -> pl.DataFrame:
    return pl.DataFrame(schema=schema)
