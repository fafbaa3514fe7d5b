"""Turns a source's text records into `raw_feedback` rows, or into dead letters with their reasons.

Every record that goes in comes out exactly once, on one side or the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final

import polars as pl
import polars_hash as plh

from platform_assets.domain.sources import Dedupe, Source
from platform_assets.domain.tables import QUARANTINED_FEEDBACK, RAW_FEEDBACK, UTC_TIME, conform


class Reason(StrEnum):
    """Why a record is a dead letter."""

    UNREADABLE_FILE = "unreadable_file"
    INCOMPLETE_FILE = "incomplete_file"
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


STRUCTURAL_REASONS: Final = (
    Reason.UNREADABLE_FILE,
    Reason.INCOMPLETE_FILE,
    Reason.UNKNOWN_SOURCE,
    Reason.MISSING_COLUMN,
)
"""Reasons that mean a whole file does not keep its source's contract."""

FILE_URI: Final = "#file_uri"
RECEIVED_AT: Final = "#received_at"
"""Columns that the caller adds to a reader's records: their file, and when it was first seen (UTC)."""

_ID_IN_SCIENTIFIC_NOTATION = r"^\d+(?:[.,]\d+[eE][+-]?|[eE]\+)\d+$"
_HAS_OFFSET = r"(?:[zZ]|[+-]\d{2}:?\d{2}|:\d{2}(?:\.\d+)?[+-]\d{2})$"
_VISIBLE = r"[^\s\u200B\u200C\u200D\u2060\uFEFF]"
_WHOLE_NUMBER = r"^[+-]?\d{1,19}$"
_OFFSET_FORMS = (
    "%Y-%m-%dT%H:%M:%S%#z",
    "%Y-%m-%d %H:%M:%S%#z",
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M%#z",
    "%Y-%m-%d %H:%M%#z",
)
_WALL_FORMS = (
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
)
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_UNITS_A_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True)
class Accepted:
    """Records of one source, each on one side."""

    loaded: pl.DataFrame
    """Rows of `raw_feedback`."""
    refused: pl.DataFrame
    """`position` (of the record among those given), `file_uri`, `line_no`, `received_at`, `reason`, `detail`."""


def accept(records: pl.DataFrame, source: Source, name: str, day: date) -> Accepted:
    """Apply a source's contract to its records.

    Args:
        records: columns `#file_uri`, `#received_at`, `#line_no` (Int64), `#extra` and one String column for each
            mapped column of `source`; columns that the file does not have are null.
        source: the contract.
        name: of the source.
        day: of arrival.
    """
    mapped = source.columns.mapped()
    given = records.select(
        pl.col(FILE_URI).alias("file_uri"),
        pl.col(RECEIVED_AT).alias("received_at"),
        pl.col("#line_no").alias("line_no"),
        pl.col("#extra").alias("metadata"),
        *(
            (pl.col(mapped[ours]) if ours in mapped else pl.lit(None, pl.String)).alias(ours)
            for ours in ("source_record_id", "text", "created_at", "rating", "author_id", "language", "channel")
        ),
    ).with_columns(
        text=pl.col("text").fill_null(""),
        given_rating=_blank_to_null("rating"),
        given_time=_blank_to_null("created_at"),
        channel=_blank_to_null("channel").fill_null(source.channel),
        author_id=_blank_to_null("author_id"),
        language=_blank_to_null("language"),
        source_record_id=_blank_to_null("source_record_id"),
    )
    had_nul = given["text"].str.contains("\x00", literal=True)
    typed = given.with_columns(
        text=given["text"].str.replace_all("\x00", "", literal=True) if had_nul.any() else given["text"],
        had_nul=had_nul,
        rating=_rating(source),
        given_rating=pl.when(_number(source).is_not_nan().fill_null(True)).then("given_rating"),
        created_at=_utc(given["given_time"], source),
    )
    verdict = typed.select(_verdict(source).alias("verdict")).unnest("verdict")
    good = verdict["reason"].is_null()
    bad = ~good
    refused = pl.concat(
        [typed.select(pl.int_range(pl.len()).alias("position"), "file_uri", "line_no", "received_at"), verdict],
        how="horizontal",
    ).filter(bad)
    kept = typed if good.all() else typed.filter(good)
    return Accepted(_rows(kept, name, day, has_ids="source_record_id" in mapped), refused)


def dead_letters(letters: pl.DataFrame, source: str, day: date) -> pl.DataFrame:
    """Give `file_uri`, `line_no`, `received_at`, `raw`, `reason` and `detail` of a source the table's columns."""
    return conform(
        letters.with_columns(
            partition_date=pl.lit(day), source=pl.lit(source), quarantined_at=pl.col("received_at").cast(UTC_TIME)
        ),
        QUARANTINED_FEEDBACK,
    )


def superseded(rows: pl.DataFrame, rules: Mapping[str, Dedupe]) -> pl.DataFrame:
    """Find the records that another of their day with the same id takes the place of, by their source's rule.

    Each becomes a dead letter that names the winner, so that both can be traced.

    Args:
        rows: `feedback_id`, `source`, `file_uri`, `line_no`, `created_at`, `received_at`, in the order of landing.
        rules: of sources; `last` where there is none.

    Returns:
        `source`, `file_uri`, `line_no`, `received_at`, `reason` and `detail` of the losers.
    """
    rule = pl.col("source").replace_strict(dict(rules), default="last", return_dtype=pl.String)
    landed = pl.int_range(pl.len())
    ranked = rows.with_columns(
        pl.when(rule == "newest").then("created_at").alias("#when"),
        pl.when(rule == "first").then(-landed).otherwise(landed).alias("#order"),
    ).sort("#when", "#order", nulls_last=False)
    winner = pl.struct("file_uri", "line_no").last().over("feedback_id")
    return (
        ranked.with_columns(winner=winner)
        .filter(pl.struct("file_uri", "line_no") != pl.col("winner"))
        .sort("source", "file_uri", "line_no")
        .select(
            "source",
            "file_uri",
            "line_no",
            "received_at",
            pl.lit(Reason.SUPERSEDED.value).alias("reason"),
            pl.format(
                "the same record id stands in {} line {}, which is kept",
                pl.col("winner").struct.field("file_uri"),
                pl.col("winner").struct.field("line_no"),
            ).alias("detail"),
        )
    )


def content_hash(text: str) -> pl.Expr:
    """SHA-256 of a column's text in UTF-8, in hex: equal texts have equal hashes, in every source."""
    return plh.col(text).chash.sha2_256()


def feedback_id(source: str, record_key: str) -> pl.Expr:
    """A record's id: the first 32 hex digits of the SHA-256 of source, a NUL and the source's own record id.

    Where a source has no ids, the column `record_key` is a hash of the whole record, so that two customers who write
    the same word stay two records, and the same record delivered twice stays one.
    """
    return plh.concat_str(pl.lit(f"{source}\x00"), pl.col(record_key)).chash.sha2_256().str.slice(0, 32)


def sendable(text: str = "text") -> pl.Expr:
    """Whether a text has anything to read: more than white space and invisible characters."""
    return pl.col(text).str.contains(_VISIBLE)


def _rows(typed: pl.DataFrame, source: str, day: date, *, has_ids: bool) -> pl.DataFrame:
    if not has_ids:
        typed = typed.with_columns(_whole().alias("source_record_id")).with_columns(
            source_record_id=content_hash("source_record_id")
        )
    return conform(
        typed.with_columns(
            source=pl.lit(source),
            feedback_id=feedback_id(source, "source_record_id"),
            content_hash=content_hash("text"),
            flags=_flags(typed),
            received_at=pl.col("received_at").cast(UTC_TIME),
            created_at=pl.col("created_at").fill_null(pl.col("received_at").cast(UTC_TIME)),
            partition_date=pl.lit(day),
        ),
        RAW_FEEDBACK,
    )


def _flags(typed: pl.DataFrame) -> pl.Series:
    holds = typed.select(
        pl.col("had_nul").alias(Flag.NUL_REMOVED),
        pl.col("text").str.contains("\ufffd", literal=True).alias(Flag.REPLACEMENT_CHARACTER),
        (~sendable()).alias(Flag.NO_TEXT),
        pl.col("created_at").is_null().alias(Flag.NO_TIME),
    )
    nothing = pl.lit([], pl.List(pl.String))
    seen = [flag for flag in holds.columns if holds[flag].any()]
    lists = [pl.when(flag).then(pl.lit([str(flag)])).otherwise(nothing) for flag in seen]
    return holds.select(
        (pl.concat_list(lists) if lists else pl.repeat([], pl.len(), dtype=pl.List(pl.String))).alias("flags")
    )["flags"]


def _whole() -> pl.Expr:
    """Everything that a record says, as one text."""
    given = ["text", "given_time", "given_rating", "author_id", "language", "channel", "metadata"]
    return pl.struct(given).struct.json_encode()


def _blank_to_null(name: str) -> pl.Expr:
    stripped = pl.col(name).str.strip_chars()
    return pl.when(stripped != "").then(stripped)


def _number(source: Source) -> pl.Expr:
    text = pl.col("given_rating")
    if source.decimal_mark == ",":
        text = text.str.replace(",", ".", literal=True)
    return text.cast(pl.Float64, strict=False)


def _rating(source: Source) -> pl.Expr:
    low, high = source.rating_range
    return pl.when(_number(source).is_between(low, high)).then(_number(source))


def _utc(given: pl.Series, source: Source) -> pl.Series:
    """The time in UTC; null where it is none, names no moment, or is naive in a source without a zone."""
    if source.time_format is not None and source.time_format_is_absolute:
        moment, wall = _parsed(given, [source.time_format], "UTC"), None
    elif source.time_format is not None:
        moment, wall = (
            pl.repeat(None, len(given), dtype=UTC_TIME, eager=True),
            _parsed(given, [source.time_format], None),
        )
    else:
        has_offset = given.str.contains(_HAS_OFFSET)
        moment = _parsed(_where(given, has_offset), _OFFSET_FORMS, "UTC")
        wall = _parsed(_where(given, ~has_offset), _WALL_FORMS, None)
    found = [moment]
    if source.epoch_unit is not None:
        found.append(_epoch(given, source.epoch_unit))
    if wall is not None and source.time_zone is not None:
        placed = wall.dt.replace_time_zone(source.time_zone, ambiguous="null", non_existent="null")
        found.append(placed.dt.convert_time_zone("UTC"))
    whole = pl.select(pl.coalesce(found)).to_series()
    # Beyond these years others could not read the table.
    named = whole.dt.epoch("s").is_between(_FIRST_SECOND, _LAST_SECOND)
    return whole if named.all() else whole.set(~named.fill_null(True), None)


def _parsed(texts: pl.Series, forms: Sequence[str], zone: str | None) -> pl.Series:
    """Each text by the first form that it fits; usually all fit that of the first, and the others are not tried."""

    def parse(texts: pl.Series, form: str) -> pl.Series:
        return texts.str.to_datetime(form, strict=False, time_unit="us", time_zone=zone)

    found = pl.repeat(None, len(texts), dtype=pl.Datetime("us", zone), eager=True)
    first = texts.drop_nulls().head(1)
    for form in sorted(forms, key=lambda form: parse(first, form).has_nulls()):
        left = texts.is_not_null() & found.is_null()
        if not left.any():
            break
        more = parse(_where(texts, left), form)
        found = more if left.all() else pl.select(pl.coalesce(found, more)).to_series()
    return found


def _where(texts: pl.Series, mask: pl.Series) -> pl.Series:
    return texts if mask.all(ignore_nulls=False) else texts.set(~mask.fill_null(False), None)


def _epoch(given: pl.Series, unit: str) -> pl.Series:
    """Whole numbers since 1970 as times of the years 1 to 9999."""
    number = _where(given, given.str.contains(_WHOLE_NUMBER)).cast(pl.Int64, strict=False)
    a_second = _UNITS_A_SECOND[unit]
    meant = number.is_between(max(_FIRST_SECOND * a_second, -(2**63)), min(_LAST_SECOND * a_second, 2**63 - 1))
    number = number.set(~meant.fill_null(False), None)
    micro = _UNITS_A_SECOND["us"]
    return (number * (micro // a_second) if a_second <= micro else number // (a_second // micro)).cast(UTC_TIME)


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
