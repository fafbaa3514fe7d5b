"""Which language a text is written in.

The detector is lingua, which was made for short texts. A language that the source declares is taken as a prior,
because two words are rarely enough to tell neighbours apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lingua import LanguageDetector

UNDETERMINED: Final = "und"
"""ISO 639-2 code for a text whose language cannot be told, such as one of emoji alone."""

DECLARED_PRIOR: Final = 0.5
"""Belief in a declared language before the text is read. Help desks set it from the browser or the shop, and
customers of a German shop write in English, too: more belief than this outvotes a whole English sentence."""

DETECTED: Final = (
    "en", "de", "es", "zh", "fr", "it", "pt", "nl", "pl", "ru", "uk", "tr", "sv", "da", "fi", "cs", "ja", "ko", "ar",
)  # fmt: skip
"""Languages that the detector tells apart; more would make short texts less certain and cost memory."""


@dataclass(frozen=True)
class Detected:
    """A language and the probability that it is right, from 0 to 1."""

    language: str
    confidence: float


def detect_languages(texts: Sequence[str], declared: Sequence[str | None]) -> list[Detected]:
    """Detect the language of each text.

    The result is the greatest posterior: detector probability × prior, normalized, where the prior is
    `DECLARED_PRIOR` for the declared language and equal shares of the rest for the others (flat if none is
    declared).

    Args:
        texts: any texts, empty ones included.
        declared: for each text what its source says, such as `en`, `de-DE` or None.
    """
    results = _detector().compute_language_confidence_values_in_parallel(list(texts))
    detected: list[Detected] = []
    for values, claim in zip(results, declared, strict=True):
        prior = primary_subtag(claim)
        weights = {value.language.iso_code_639_1.name.lower(): value.value for value in values if value.value > 0}
        if prior in DETECTED:
            rest = (1 - DECLARED_PRIOR) / (len(DETECTED) - 1)
            weights = {code: p * (DECLARED_PRIOR if code == prior else rest) for code, p in weights.items()}
        total = sum(weights.values())
        if total == 0:
            detected.append(Detected(UNDETERMINED, 0.0))
            continue
        best = max(weights, key=lambda code: weights[code])
        detected.append(Detected(best, weights[best] / total))
    return detected


def primary_subtag(tag: str | None) -> str | None:
    """The language of a BCP 47 tag in lower case: `de-DE` and `de_DE` give `de`."""
    return tag.replace("_", "-").split("-")[0].strip().lower() or None if tag else None


@cache
def _detector() -> "LanguageDetector":
    from lingua import IsoCode639_1, LanguageDetectorBuilder

    codes = [getattr(IsoCode639_1, code.upper()) for code in DETECTED]
    return LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()
