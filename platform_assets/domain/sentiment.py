"""How a customer feels, by a lexicon, for the languages that the lexicon serves.

The lexicon is VADER (Hutto and Gilbert, ICWSM 2014), made for short informal English.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

Sentiment = Literal["negative", "neutral", "positive", "mixed"]

SERVED_LANGUAGES: Final = frozenset({"en"})

_NEUTRAL_BAND: Final = 0.05
"""Compound scores within ±0.05 are neutral, as the lexicon's authors set it."""
_MIXED_SHARE: Final = 0.12
"""A text is mixed where at least this share of its words is positive and this share negative."""
_WORDLESS_CONFIDENCE: Final = 0.5
_CONTRADICTED: Final = 0.5
"""A rating on the other side halves the confidence: irony and mistaken stars look like this."""


@dataclass(frozen=True)
class Feeling:
    """A sentiment, its score from −1 to 1, and the confidence from 0 to 1."""

    sentiment: Sentiment
    score: float
    confidence: float


def feeling_of(text: str, language: str, rating: float | None, rating_range: tuple[float, float]) -> Feeling | None:
    """The sentiment of one text.

    In a language that the lexicon serves: `score` is VADER's compound; confidence is (1 + |compound|) / 2 for a
    polar text, the ratio of the weaker to the stronger share for a mixed one, and 0.5 where the lexicon knows no
    word. In other languages the rating alone gives a guess of confidence 0; without a rating there is None.
    """
    stars = _from_rating(rating, rating_range)
    if language not in SERVED_LANGUAGES:
        return None if stars is None else Feeling(_side(stars), stars, 0.0)
    shares = _lexicon().polarity_scores(text)
    compound, positive, negative = shares["compound"], shares["pos"], shares["neg"]
    if min(positive, negative) >= _MIXED_SHARE:
        return Feeling("mixed", compound, min(positive, negative) / max(positive, negative))
    sentiment = _side(compound)
    confidence = _WORDLESS_CONFIDENCE if sentiment == "neutral" else (1 + abs(compound)) / 2
    if stars is not None and stars * compound < 0:
        confidence *= _CONTRADICTED
    return Feeling(sentiment, compound, confidence)


def _from_rating(rating: float | None, rating_range: tuple[float, float]) -> float | None:
    low, high = rating_range
    return None if rating is None else 2 * (rating - low) / (high - low) - 1


def _side(score: float) -> Sentiment:
    if abs(score) < _NEUTRAL_BAND:
        return "neutral"
    return "positive" if score > 0 else "negative"


@cache
def _lexicon() -> "SentimentIntensityAnalyzer":
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()
