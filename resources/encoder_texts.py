"""Texts to try an encoder on: made, not collected, and the same for the same tokenizer.

Sentences of what people write to a company, in six languages, filled with words of the tokenizer's own vocabulary; of
one word to several hundred tokens. Calibration and evaluation share neither sentences nor words.
"""

import random
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_EVALUATION = (
    "The {} arrived two days late and the {} was open.",
    "I cannot find the {} in the app any more, please help!",
    "Why was I charged twice for one {}?",
    "Great service, the {} even called me back about my {}.",
    "{} and {}: both broken after a week.",
    "How do I change my {} without losing the {}?",
    "I'd like a refund; order no. 48213, the {} never worked.",
    "It is fine, I suppose, though the old {} was better than this {}.",
    "your site is slow and the {} page does not load AT ALL",
    "Nobody could tell me whether the {} covers a {} abroad.",
    "After the update my {} shows $1,249.00 instead of $124.90 - is that a mistake with the {}?",
    "{}?",
    "Ok, {}.",
    "Die {} ist seit gestern kaputt, und niemand antwortet auf meine Frage nach dem {}.",
    "Schnelle Lieferung, aber die Rechnung für {} fehlt.",
    "Le {} est arrivé cassé et le service après-vente ne répond pas.",
    "Merci pour le {}, tout était parfait !",
    "El {} no funciona y quiero que me devuelvan el dinero.",
    "Muy contento con {}, lo recomiendo.",
    "{} è arrivato in ritardo, ma il {} era gentile.",
    "{}が届きません。いつ発送されますか。",
    "Worst {} ever!!! 1/5 stars :( never again",
)
_CALIBRATION = (
    "We ordered a {} for our office and got a {} instead.",
    "Is there a way to cancel the {} before Monday?",
    "My {} says pending since last week, what is happening to the {}?",
    "Thanks to your team, the {} works again.",
    "The price of the {} went up by 15% and nobody told us about the {}.",
    "please remove my {} and every {} you have stored",
    "Very disappointed: no {}, no {}, no answer.",
    "What does {} mean on my statement?",
    "The {} looks nice but feels cheap; I expected more {}.",
    "Perfect {}, thank you.",
    "Wann bekomme ich den {} zurück, den ich letzte Woche eingeschickt habe?",
    "Bonjour, je voudrais modifier mon {} mais la page {} affiche une erreur.",
    "La {} llegó tarde y sin {}.",
    "Non riesco ad aprire {} dal telefono.",
    "アプリの{}が動かなくなりました。",
    "{} {} {}",
    "{}!",
    "no {}.",
)

_SHORTEST_WORD = 3  # letters; shorter ones are mostly parts of words
# Sentences of a text: most are short, a few fill the longest batches.
_SENTENCES = (1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 3, 1, 1, 5, 1, 2, 1, 1, 8, 1, 1, 1, 2, 1, 12)


def evaluation_texts(tokenizer: "Tokenizer", count: int = 1024) -> list[str]:
    """Texts to measure an encoder on."""
    return _texts(_EVALUATION, _words(tokenizer)[0::2], count, seed=1)


def calibration_texts(tokenizer: "Tokenizer", count: int = 300) -> list[str]:
    """Texts to learn the range of an encoder's states from."""
    return _texts(_CALIBRATION, _words(tokenizer)[1::2], count, seed=2)


def _texts(sentences: Sequence[str], words: Sequence[str], count: int, seed: int) -> list[str]:
    chance = random.Random(seed)  # noqa: S311  # the same texts each time, not secrets

    def sentence() -> str:
        return re.sub(r"\{\}", lambda _: chance.choice(words), chance.choice(sentences))

    return [" ".join(sentence() for _ in range(_SENTENCES[number % len(_SENTENCES)])) for number in range(count)]


def _words(tokenizer: "Tokenizer") -> list[str]:
    """The whole words of a vocabulary, without its marks for the beginning of a word, in the order of their ids."""
    vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    words = [token.lstrip("▁Ġ") for token in vocabulary]
    return [word for word in words if len(word) >= _SHORTEST_WORD and word.isalpha()]
