"""How a customer feels: by a lexicon for the languages that it serves, and by the stars that were given.

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
_CONTRADICTED: Final = 0.5
"""Words on the other side of the stars halve the confidence: irony and mistaken stars look like this."""


@dataclass(frozen=True)
class Feeling:
    """A sentiment, its score from −1 to 1, and the confidence from 0 to 1."""

    sentiment: Sentiment
    score: float
    confidence: float


def feeling_of(text: str, language: str, rating: float | None, rating_range: tuple[float, float]) -> Feeling | None:
    """The sentiment of one text, or None where there is neither a lexicon for its language nor a rating.

    Words and stars both give a score from −1 to 1 (VADER's compound; the rating's place in its range).
    Stars off the middle decide the side, with a confidence of (1 + |stars|) / 2, halved where the words contradict.
    Words alone have a confidence of |compound|: polite words in a complaint look positive to a lexicon.
    Words that are strong on both sides make a text mixed, with the weaker share ÷ the stronger as confidence.
    Stars alone, in a language without a lexicon, are a guess of confidence 0.
    """
    stars = _from_rating(rating, rating_range)
    if language not in SERVED_LANGUAGES:
        return None if stars is None else Feeling(_side(stars), stars, 0.0)
    shares = _lexicon().polarity_scores(text)
    compound, positive, negative = shares["compound"], shares["pos"], shares["neg"]
    if min(positive, negative) >= _MIXED_SHARE:
        return Feeling("mixed", compound, min(positive, negative) / max(positive, negative))
    if not stars:
        return Feeling(_side(compound), compound, abs(compound))
    score = stars + (compound - stars) / 2 if stars * compound >= 0 else stars / 2
    confidence = (1 + abs(stars)) / 2
    if stars * compound < 0 and _side(compound) != "neutral":
        confidence *= _CONTRADICTED
    return Feeling(_side(stars), score, confidence)


def _from_rating(rating: float | None, rating_range: tuple[float, float]) -> float | None:
    low, high = rating_range
    return None if rating is None else max(-1.0, min(1.0, 2 * (rating - low) / (high - low) - 1))


def _side(score: float) -> Sentiment:
    if abs(score) < _NEUTRAL_BAND:
        return "neutral"
    return "positive" if score > 0 else "negative"


@cache
def _lexicon() -> "SentimentIntensityAnalyzer":
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()
