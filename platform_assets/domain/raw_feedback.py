"""Turns a source's text records into `raw_feedback` rows, or into dead letters with their reasons.

Every record that goes in comes out exactly once, on one side or the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final

import polars as pl
import polars_hash as plh

from platform_assets.domain.moments import moments, where
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

_SHORT_TEXTS: Final = {
    "source_record_id": "source_record_id",
    "created_at": "given_time",
    "rating": "given_rating",
    "author_id": "author_id",
    "language": "language",
    "channel": "channel",
}
"""Fields in which white space around the text means nothing, and how they are called until they are typed."""

_ID_IN_SCIENTIFIC_NOTATION = r"^\d+(?:[.,]\d+[eE][+-]?|[eE]\+)\d+$"
_VISIBLE = r"[^\s\u200B\u200C\u200D\u2060\uFEFF]"


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
    given = _without_blanks(
        records.select(
            pl.col(FILE_URI).alias("file_uri"),
            pl.col(RECEIVED_AT).cast(UTC_TIME).alias("received_at"),
            pl.col("#line_no").alias("line_no"),
            pl.col("#extra").alias("metadata"),
            pl.col(source.columns.text).fill_null("").alias("text"),
            *(
                (pl.col(mapped[ours]).str.strip_chars() if ours in mapped else pl.lit(None, pl.String)).alias(name)
                for ours, name in _SHORT_TEXTS.items()
            ),
        )
    )
    typed = given.with_columns(
        *_without_nul(given["text"]),
        *_rating(given["given_rating"], source),
        pl.col("channel").fill_null(source.channel),
        created_at=moments(given["given_time"], source),
    )
    breaches = _breaches(source)
    bad = typed.select(pl.any_horizontal(breached.fill_null(False) for _, breached, _ in breaches)).to_series()
    # In one piece: Polars 2.1 panics where it formats texts of several, or of none.
    refused = typed.with_row_index("position").filter(bad).rechunk()
    nothing = pl.lit(None, pl.String)
    # The first breach counts.
    why = {
        "reason": pl.coalesce(pl.when(breached).then(pl.lit(reason.value)) for reason, breached, _ in breaches),
        "detail": pl.coalesce(pl.when(breached).then(detail) for _, breached, detail in breaches),
    }
    return Accepted(
        _rows(typed.filter(~bad) if bad.any() else typed, name, day, has_ids="source_record_id" in mapped),
        refused.select(
            "position",
            "file_uri",
            "line_no",
            "received_at",
            **(why if refused.height else dict.fromkeys(why, nothing)),
        ),
    )


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


def _is_sendable(texts: pl.Series) -> pl.Series:
    begins_visibly = texts.is_between("!", "~")  # quicker to see, and true of most
    return begins_visibly if begins_visibly.all() else texts.str.contains(_VISIBLE)


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
            created_at=pl.col("created_at").fill_null(pl.col("received_at")),
            partition_date=pl.lit(day),
        ),
        RAW_FEEDBACK,
    )


def _flags(typed: pl.DataFrame) -> pl.Expr:
    holds = {
        Flag.NUL_REMOVED: typed["had_nul"],
        Flag.REPLACEMENT_CHARACTER: typed["text"].str.contains("\ufffd", literal=True),
        Flag.NO_TEXT: ~_is_sendable(typed["text"]),
        Flag.NO_TIME: typed["created_at"].is_null(),
    }
    nothing = pl.lit([], pl.List(pl.String))
    lists = [pl.when(held).then(pl.lit([str(flag)])).otherwise(nothing) for flag, held in holds.items() if held.any()]
    return pl.concat_list(lists) if lists else nothing


def _whole() -> pl.Expr:
    """Everything that a record says, as one text."""
    given = ["text", "given_time", "given_rating", "author_id", "language", "channel", "metadata"]
    return pl.struct(given).struct.json_encode()


def _without_blanks(given: pl.DataFrame) -> pl.DataFrame:
    """Null for what is empty, once stripped."""
    blank = [name for name in _SHORT_TEXTS.values() if (given[name] == "").any()]
    return given.with_columns(pl.when(pl.col(name) != "").then(name).alias(name) for name in blank)


def _without_nul(text: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The text, which some tables cannot hold with a NUL, and whether it had one."""
    had_nul = text.str.contains("\x00", literal=True).alias("had_nul")
    return text.str.replace_all("\x00", "", literal=True) if had_nul.any() else text, had_nul


def _rating(given: pl.Series, source: Source) -> tuple[pl.Series, pl.Series]:
    """What stands for a rating, of which NaN means none; and the rating, null where that is no number in the range."""
    text = given.str.replace(",", ".", literal=True) if source.decimal_mark == "," else given
    number = text.cast(pl.Float64, strict=False)
    within = number.is_between(*source.rating_range)
    return where(given, number.is_not_nan().fill_null(True)), where(number, within).alias("rating")


def _breaches(source: Source) -> list[tuple[Reason, pl.Expr, pl.Expr]]:
    """The ways in which a record may not keep the contract: which records, and what is to be said of each."""
    low, high = source.rating_range
    zone = source.time_zone or "none, so an offset is needed"
    breaches = [
        (
            Reason.BAD_TIME,
            pl.col("given_time").is_not_null() & pl.col("created_at").is_null(),
            pl.format(f"{{}} is no moment of this source (time zone: {zone})", pl.col("given_time")),
        ),
        (
            Reason.BAD_RATING,
            pl.col("given_rating").is_not_null() & pl.col("rating").is_null(),
            pl.format(f"{{}} is no rating from {low} to {high}", pl.col("given_rating")),
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
    return breaches
