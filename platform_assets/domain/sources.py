"""What a source promises: which files are its, and how their columns become feedback.

This is the typed form of `config/sources.yaml`. Applying a contract to records is `raw_feedback.py`.
"""

import re
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated, Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl
from pydantic import Field, field_validator

from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.strict_model import StrictModel

SOURCE_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
"""A source's name is a folder name and part of every record id, so it is kept plain."""


_ABSOLUTE_TIME = re.compile(r"(?<!%)(?:%%)*%(?:[#:]*z|\+|s)")
"""The parts of a format that carry an offset, or count from 1970."""


class Columns(StrictModel):
    """Which column (a dotted path in JSON) of the source's files holds what."""

    text: str
    source_record_id: str | None = None
    created_at: str | None = None
    rating: str | None = None
    author_id: str | None = None
    language: str | None = None
    channel: str | None = None

    @field_validator("*")
    @classmethod
    def _names_a_column(cls, value: str | None) -> str | None:
        if value is not None and (not value or value.startswith("#")):
            raise ValueError(f"{value!r} is no column's name; names that begin with # are the platform's own")
        return value

    def mapped(self) -> dict[str, str]:
        """Our name → the file's column, for the columns that the source has."""
        return {name: column for name, column in self if column is not None}


class FolderPull(StrictModel):
    """Files that others put into a folder or a bucket, by no day."""

    kind: Literal["folder"]
    path: str = Field(min_length=1, description="Folder, or s3:// URI up to a prefix; its sub-folders count.")
    pattern: str = Field("*", description="Which file names are taken.")
    files_per_pull: int = Field(1000, ge=1, description="The rest waits for the next pull.")
    on_change: Literal["replace", "add"] = Field(
        "replace",
        description="What the records of a changed file do to those it brought before: `replace` them, for files that "
        "are corrected or grow; or `add` to them, for a name that is used again for new records, such as a daily "
        "export.csv.",
    )


class PostgresPull(StrictModel):
    """Rows of a table or view, by a column that grows whenever a row is written."""

    kind: Literal["postgres"]
    dsn_variable: str = Field(description="Environment variable that holds the connection string.")
    table: str = Field(description="Table or view, with its schema where that is not on the search path.")
    watermark: str = Field(
        description="Column that grows with each write of a row: a time, a date or a number; it must lead an index."
    )
    key: str = Field(description="Column that identifies a row.")
    overlap: float = Field(
        300,
        ge=0,
        description="How far below the watermark each pull looks again: seconds (of dates, whole days), or the "
        "number's own units.",
    )
    rows_per_pull: int = Field(50_000, ge=1, description="The rest waits for the next pull.")


class KafkaPull(StrictModel):
    """Messages of a topic; each is one record, with the paths value.…, key, timestamp, partition and offset."""

    kind: Literal["kafka"]
    servers: str = Field(description="host:port of the brokers to begin with, separated by commas.")
    topic: str
    group: str = Field(
        "feedback-platform",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Consumer group whose committed offsets are used; another group begins anew.",
    )
    messages_per_pull: int = Field(10_000, ge=1, description="The rest waits for the next pull.")
    wait_s: float = Field(5, gt=0, description="Longest wait for messages, in seconds.")
    properties: dict[str, str] = Field(
        default_factory=dict, description="More of librdkafka's settings; `$NAME` is read from the environment."
    )


Dedupe: TypeAlias = Literal["last", "first", "newest"]

Pull: TypeAlias = Annotated[FolderPull | PostgresPull | KafkaPull, Field(discriminator="kind")]


class Source(StrictModel):
    """The contract of one source."""

    columns: Columns
    files: list[str] = Field(default_factory=list, description="Patterns of the file names that are this source's.")
    encoding: str = Field("utf-8", description="How the bytes of text files become characters.")
    delimiter: str = Field(",", min_length=1, max_length=1, description="Field separator of CSV files.")
    decimal_mark: Literal[".", ","] = "."
    record_path: str | None = Field(None, description="Of JSON files: dotted path of the array of records.")
    sheet: str | None = Field(None, description="Of Excel files: the sheet; default the first.")
    time_zone: str | None = Field(None, description="Zone of times without an offset; without it they are refused.")
    time_format: str | None = Field(None, description="strptime format of times; default ISO 8601.")
    epoch_unit: Literal["s", "ms", "us", "ns"] | None = Field(
        None, description="Unit of times that are numbers since 1970; without it they are refused."
    )
    rating_range: tuple[float, float] = Field((1, 5), description="Lowest and highest rating, inclusive.")
    channel: str = Field("unknown", description="Channel of every record, where no column says it.")
    dedupe: Dedupe = Field(
        "last",
        description="Of records of one day with one id: the one landed last or first, or of the greatest created_at.",
    )
    settle_s: float | None = Field(
        None, ge=0, description="A file untouched for so long is complete; default landing_sensor.settle_s."
    )
    pull: Pull | None = Field(None, description="Where to fetch the records from, if they are not put here by others.")

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        try:
            b"text".decode(value)
        except LookupError:
            raise ValueError(f"unknown encoding {value!r}; use a name such as utf-8 or cp1252") from None
        except UnicodeError:
            pass  # an encoding that these four bytes are not in
        return value

    @field_validator("delimiter")
    @classmethod
    def _separates_fields(cls, value: str) -> str:
        if value in '\r\n"':
            raise ValueError("a quote or an end of line cannot separate fields")
        return value

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                ZoneInfo(value)
                pl.select(pl.lit(datetime(2026, 1, 1)).dt.replace_time_zone(value))  # noqa: DTZ001
        except (ZoneInfoNotFoundError, ValueError, OSError, pl.exceptions.PolarsError):
            raise ValueError(f"unknown time zone {value!r}; use a name such as Europe/Berlin") from None
        return value

    @field_validator("time_format")
    @classmethod
    def _tells_a_day(cls, value: str | None) -> str | None:
        if value is not None:
            moment = pl.Series([datetime(2026, 3, 5, 13, 7, 9)])  # noqa: DTZ001
            zone = "UTC" if _ABSOLUTE_TIME.search(value) else None
            try:
                # `%#z` reads offsets of any shape and cannot be written.
                written = moment.dt.replace_time_zone(zone).dt.to_string(value.replace("%#z", "%z"))
                read = written.str.to_datetime(value, strict=False, time_unit="us", time_zone=zone)
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
                read = pl.Series([None], dtype=pl.Datetime)
            if read.dt.date().to_list() != moment.dt.date().to_list():
                raise ValueError(f"{value!r} does not tell a day; write it like %d/%m/%Y %H:%M")
        return value

    @property
    def time_format_is_absolute(self) -> bool:
        """Whether a time in `time_format` names a moment by itself, without a zone."""
        return self.time_format is not None and _ABSOLUTE_TIME.search(self.time_format) is not None

    @field_validator("rating_range")
    @classmethod
    def _rising(cls, value: tuple[float, float]) -> tuple[float, float]:
        if value[0] >= value[1]:
            raise ValueError("the lowest rating must be below the highest")
        return value


class Sources(StrictModel):
    """Every source, by name."""

    sources: dict[str, Source]

    @field_validator("sources")
    @classmethod
    def _plain_names(cls, value: dict[str, Source]) -> dict[str, Source]:
        for name in value:
            check_source_name(name)
        return value

    def of_file(self, name: str) -> str | None:
        """The first source, in the file's order, with a pattern that `name` fits."""
        return next(
            (key for key, source in self.sources.items() if any(fnmatchcase(name, p) for p in source.files)), None
        )

    def named(self, name: str) -> Source:
        """The source called `name`.

        Raises:
            FeedbackError: there is none.
        """
        try:
            return self.sources[name]
        except KeyError:
            known = ", ".join(self.sources) or "none"
            raise FeedbackError(
                f"unknown source {name!r} (known: {known}): add it to config/sources.yaml, or map its columns "
                "with --map text=COLUMN"
            ) from None


def check_source_name(name: str) -> str:
    """Return `name`.

    Raises:
        ValueError: it is no plain name.
    """
    if not SOURCE_NAME.fullmatch(name):
        raise ValueError(f"source name {name!r}: use lower-case letters, digits and _, beginning with a letter")
    return name
