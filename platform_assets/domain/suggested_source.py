"""Suggests a source's contract from sampled records: which column holds what, and how its values are written.

Nothing here is applied by itself: every suggestion carries its reason, and what the sample does not tell is said to
be undecided. What names tell is `column_names.py`; how times are written, `written_times.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import polars as pl

from platform_assets.domain.column_names import weight
from platform_assets.domain.language import DETECTED
from platform_assets.domain.sources import Columns
from platform_assets.domain.written_times import USUAL_SHARE, WrittenTimes, written_times

_NEARLY_ALL: Final = 0.98
_LEAST_RECORDS: Final = 20
"""With fewer, values alone prove nothing: any column of three records is unique."""

_TEXT_CHARACTERS: Final = 15
_LENGTH_WEIGHT: Final = 3
_LONGEST_CODE: Final = 64
_FEW: Final = 40
_SHOWN_CHARACTERS: Final = 40
_SCALES: Final = ((1.0, 5.0), (0.0, 5.0), (1.0, 10.0), (0.0, 10.0), (0.0, 100.0))

_NUMBER: Final = r"^[+-]?\d+(?:[.,]\d+)?$"
_FRACTION: Final = r"^[+-]?\d+[.,]\d+$"
_THOUSANDS: Final = r"^[+-]?\d{1,3}(?:,\d{3})+$"
_CODE: Final = r"^[^\s@]+$"
_MADE_BY_PROGRAMS: Final = r"^(?:\S*\d\S*|\S+@\S+|https?://\S*|true|false)$"
_SEVERAL_WORDS: Final = r"\S\s+\S|[^\x00-\x7F]{4}"
_LANGUAGE_CODE: Final = r"^[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?$"


@dataclass(frozen=True)
class Suggested:
    """A column for one of our fields, or a value for a property of a source, and why."""

    value: str | tuple[float, float]
    why: str


@dataclass(frozen=True)
class Suggestion:
    """What the sample says of its source."""

    columns: Mapping[str, Suggested]
    """Our field → the file's column."""
    properties: Mapping[str, Suggested]
    """Property of `Source` → its value; what is not named is as by default."""
    undecided: Mapping[str, str]
    """Property of `Source` → what a person has to find out, because the sample does not tell."""
    times: WrittenTimes | None
    """How the column proposed for `created_at` is written."""


def suggest(sample: pl.DataFrame, given: Mapping[str, str] | None = None) -> Suggestion:
    """Propose a contract.

    Args:
        sample: records of one file, a String column for each of its columns.
        given: our field → column, where a person has said it already.
    """
    given = given or {}
    profiles = {name: _Profile(sample[name]) for name in sample.columns}
    chosen = {field_name: (profiles[column], "given") for field_name, column in given.items() if column in profiles}
    free = [profile for name, profile in profiles.items() if name not in given.values()]
    for field_name, choose in _CHOICES.items():
        if field_name not in given and (choice := choose(free)):
            chosen[field_name] = choice
            free.remove(choice[0])
    times = chosen["created_at"][0].times if "created_at" in chosen else None
    properties, undecided = _of_times(chosen["created_at"][0].name, times) if times else ({}, {})
    rating = chosen["rating"][0] if "rating" in chosen else None
    properties |= _of_rating(rating, list(profiles.values()))
    columns = {
        name: Suggested(chosen[name][0].name, chosen[name][1]) for name in Columns.model_fields if name in chosen
    }
    return Suggestion(columns, properties, undecided, times)


def _of_times(column: str, times: WrittenTimes) -> tuple[dict[str, Suggested], dict[str, str]]:
    properties: dict[str, Suggested] = {}
    undecided: dict[str, str] = {}
    why = f"the times in {column!r}, such as {times.example!r}"
    if times.epoch_unit:
        properties["epoch_unit"] = Suggested(times.epoch_unit, f"the size of {why}")
    if times.other_format:
        undecided["time_format"] = (
            f"{times.time_format} or {times.other_format}: no value in {column!r} tells the day from the month "
            f"(such as {times.example!r})"
        )
    elif times.time_format:
        properties["time_format"] = Suggested(times.time_format, why)
    if times.time_zone:
        properties["time_zone"] = Suggested(times.time_zone, f"{why}, name it")
    elif times.lacks_zone:
        undecided["time_zone"] = f"{why}, have no offset: without the zone that they are written in each is refused"
    return properties, undecided


def _of_rating(rating: "_Profile | None", profiles: "Sequence[_Profile]") -> dict[str, Suggested]:
    found: dict[str, Suggested] = {}
    numeric = [profile for profile in profiles if profile.is_number and profile.share(_THOUSANDS) < 1]
    for profile in [rating] if rating and rating.share(_FRACTION) else numeric:
        fractions = profile.values.filter(profile.values.str.contains(_FRACTION))
        for mark in (",", "."):
            if marked := fractions.filter(fractions.str.contains(mark, literal=True)).to_list():
                found.setdefault("decimal_mark", Suggested(mark, f"{marked[0]!r} in {profile.name!r}"))
    if rating and rating.numbers:
        seen = f"the numbers in {rating.name!r} go from {_span(rating.numbers)}"
        scale = next((scale for scale in _SCALES if _share_within(rating.numbers, *scale) >= _NEARLY_ALL), None)
        if scale:
            found["rating_range"] = Suggested(scale, seen)
    return found


class _Profile:
    """A column's name, and what its values look like."""

    def __init__(self, column: pl.Series) -> None:
        stripped = column.str.strip_chars()
        self.name = column.name
        self.records = column.len()
        self.values = stripped.filter(stripped.fill_null("") != "")

    def named(self, field_name: str) -> int:
        return weight(field_name, self.name)

    def share(self, pattern: str) -> float:
        """Share of the values that fit a pattern."""
        return int(self.values.str.contains(pattern).sum()) / max(self.values.len(), 1)

    @cached_property
    def distinct(self) -> int:
        return self.values.n_unique()

    @cached_property
    def characters(self) -> float:
        """Mean length over all records, blank ones included."""
        return int(self.values.str.len_chars().sum()) / max(self.records, 1)

    @cached_property
    def is_number(self) -> bool:
        return self.share(_NUMBER) >= USUAL_SHARE

    @cached_property
    def numbers(self) -> list[float]:
        return [float(value.replace(",", ".")) for value in self.values.filter(self.values.str.contains(_NUMBER))]

    @cached_property
    def times(self) -> WrittenTimes | None:
        return written_times(self.values, may_be_numbers=self.named("created_at") > 0)

    @cached_property
    def is_text(self) -> bool:
        """Whether people may have written its values, and not a program."""
        return (
            self.values.len() > 0
            and not self.is_number
            and self.times is None
            and self.share(_MADE_BY_PROGRAMS) < USUAL_SHARE
        )

    @cached_property
    def is_varied(self) -> bool:
        """Whether its values are more than a few over and over."""
        return self.records < _LEAST_RECORDS or self.distinct > self.values.len() / 10

    def because(self, field_name: str, content: str) -> str:
        return f"its name; {content}" if self.named(field_name) > 0 else f"its values alone: {content}"

    @property
    def example(self) -> str:
        return str(self.values[0])[:_SHOWN_CHARACTERS] if self.values.len() else ""


_Choice: TypeAlias = tuple[_Profile, str]


def _best(found: Sequence[_Profile], score: Callable[[_Profile], float]) -> _Profile | None:
    """The first with the highest score, if that is above 0."""
    best = max(found, key=score, default=None)
    return best if best and score(best) > 0 else None


def _created_at(free: Sequence[_Profile]) -> _Choice | None:
    best = _best(free, lambda one: one.named("created_at") + 1 if one.times else 0)
    return (best, best.because("created_at", f"times such as {best.example!r}")) if best else None


def _rating(free: Sequence[_Profile]) -> _Choice | None:
    def score(one: _Profile) -> int:
        named = one.named("rating")
        if not one.is_number or named < 0:
            return 0
        if named:
            return named if _share_within(one.numbers, 0, 100) >= USUAL_SHARE else 0
        is_scale = _share_within(one.numbers, 0, 10) == 1 and one.distinct <= one.values.len() / 2
        return int(is_scale and one.records >= _LEAST_RECORDS)

    best = _best(free, score)
    return (
        (best, best.because("rating", f"{best.distinct} different numbers from {_span(best.numbers)}"))
        if best
        else None
    )


def _text(free: Sequence[_Profile]) -> _Choice | None:
    found = [one for one in free if one.is_text]
    longest = max((one.characters for one in found), default=1.0)

    def score(one: _Profile) -> float:
        named = one.named("text") - (0 if one.is_varied else _LENGTH_WEIGHT)
        is_long = one.characters >= _TEXT_CHARACTERS and one.share(_SEVERAL_WORDS) >= 1 / 2
        return named + _LENGTH_WEIGHT * one.characters / longest if named > 0 or is_long else 0

    best = _best(found, score)
    if best is None:
        return None
    most = "the longest texts, " if best.characters == longest and len(found) > 1 else ""
    return best, best.because("text", f"{most}{best.characters:.0f} characters on average")


def _source_record_id(free: Sequence[_Profile]) -> _Choice | None:
    def score(one: _Profile) -> int:
        named, count = one.named("source_record_id"), one.values.len()
        if one.times or count < USUAL_SHARE * one.records or one.share(_CODE) < USUAL_SHARE:
            return 0
        if named > 0:
            return named if one.distinct >= USUAL_SHARE * count else 0
        return int(named == 0 and one.distinct == count >= _LEAST_RECORDS and one.share(_FRACTION) == 0)

    best = _best(free, score)
    if best is None:
        return None
    repeated = best.values.len() - best.distinct
    content = f"{repeated:,} values stand there before" if repeated else "no value stands twice"
    return best, best.because("source_record_id", content)


def _language(free: Sequence[_Profile]) -> _Choice | None:
    def score(one: _Profile) -> int:
        if not one.values.len() or one.share(_LANGUAGE_CODE) < USUAL_SHARE:
            return 0
        return one.named("language") or int(one.values.is_in(DETECTED).all() and one.records >= _LEAST_RECORDS)

    best = _best(free, score)
    return (best, best.because("language", f"codes such as {best.example!r}")) if best else None


def _author_id(free: Sequence[_Profile]) -> _Choice | None:
    def score(one: _Profile) -> int:
        is_short = one.times is None and one.characters <= _LONGEST_CODE
        is_code = one.share(_CODE) >= USUAL_SHARE
        return one.named("author_id") + is_code if one.values.len() and is_short and one.named("author_id") > 0 else 0

    best = _best(free, score)
    return (best, best.because("author_id", f"such as {best.example!r}")) if best else None


def _channel(free: Sequence[_Profile]) -> _Choice | None:
    best = _best(free, lambda one: one.named("channel") if one.is_text and one.distinct <= _FEW else 0)
    return (best, best.because("channel", f"such as {best.example!r}")) if best else None


_CHOICES: Final[Mapping[str, Callable[[Sequence[_Profile]], _Choice | None]]] = {
    "created_at": _created_at,
    "rating": _rating,
    "text": _text,
    "source_record_id": _source_record_id,
    "language": _language,
    "author_id": _author_id,
    "channel": _channel,
}
"""How each of our fields finds its column; those first whose values tell most, as a column is taken once."""


def _span(numbers: Sequence[float]) -> str:
    return f"{min(numbers):g} to {max(numbers):g}"


def _share_within(numbers: Sequence[float], low: float, high: float) -> float:
    return sum(low <= number <= high for number in numbers) / max(len(numbers), 1)
