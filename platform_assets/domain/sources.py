"""What a source promises: which files are its, and how their columns become feedback.

This is the typed form of `config/sources.yaml`. Applying a contract to records is `raw_feedback.py`.
"""

import re
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Literal
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

    def mapped(self) -> dict[str, str]:
        """Our name → the file's column, for the columns that the source has."""
        return {name: column for name, column in self if column is not None}


class Source(StrictModel):
    """The contract of one source."""

    columns: Columns
    files: list[str] = Field(default_factory=list, description="Patterns of the file names that are this source's.")
    encoding: str = Field("utf-8", description="How the bytes of text files become characters.")
    delimiter: str = Field(",", min_length=1, max_length=1, description="Field separator of CSV files.")
    decimal_mark: Literal[".", ","] = "."
    time_zone: str | None = Field(None, description="Zone of times without an offset; without it they are refused.")
    time_format: str | None = Field(None, description="strptime format of times; default ISO 8601.")
    rating_range: tuple[float, float] = Field((1, 5), description="Lowest and highest rating, inclusive.")
    channel: str = Field("unknown", description="Channel of every record, where no column says it.")

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
