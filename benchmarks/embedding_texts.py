"""The texts that the embedding benchmarks read: Banking77 where it lies beside the project, else generated ones."""

import csv
import random
from dataclasses import dataclass
from pathlib import Path

from resources.encoder_tuning import sample_texts

PROJECT = Path(__file__).parents[1]
BANKING77 = PROJECT.parent / "shared" / "data" / "banking77" / "train.csv"
SHORT = 10_003
LONG = 2_000
_LONG_WORDS = 125  # of Banking77 these are 141 tokens


@dataclass(frozen=True)
class Texts:
    """Texts and what they are, in a few words."""

    what: str
    texts: list[str]

    def some(self, count: int) -> "Texts":
        """A fixed choice among them."""
        if count >= len(self.texts):
            return self
        return Texts(f"{count:,} of {self.what}", random.Random(77).sample(self.texts, count))


def short_texts() -> Texts:
    """The 10,003 customer queries of Banking77's training set (CC BY 4.0), or as many generated sentences."""
    if BANKING77.is_file():
        with BANKING77.open(encoding="utf-8", newline="") as file:
            texts = [row["text"] for row in csv.DictReader(file)]
        return Texts(f"Banking77's {len(texts):,} texts", texts)
    return Texts(f"{SHORT:,} generated texts", sample_texts(SHORT))


def long_texts() -> Texts:
    """2,000 texts of about 141 tokens, joined from short ones."""
    short = short_texts()
    chance = random.Random(141)
    texts: list[str] = []
    for _ in range(LONG):
        words: list[str] = []
        while len(words) < _LONG_WORDS:
            words += chance.choice(short.texts).split()
        texts.append(" ".join(words[:_LONG_WORDS]))
    return Texts(f"{LONG:,} texts of {_LONG_WORDS} words of {short.what}", texts)
