"""Measuring the graphs made of one encoder, and choosing the one that a CPU serves.

The graphs come from elsewhere; what they are made of is not known here.
"""

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from resources.encoder_runtime import Ids, Vectors, difference, embed, open_session, open_tokenizer, padded
from resources.encoder_texts import evaluation_texts
from resources.model_repository import Variant

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_BATCH_TOKENS = 512  # padded: the size of batch that a client sends to a CPU
_SHORT, _LONG = 16, 128  # tokens of a text in the timed batches
_LONGEST = 128  # tokens: a longer text costs time and shows nothing new
_ROUNDS = 7
_EVERY = 16  # one text in so many is also embedded alone and beside a long text


@dataclass(frozen=True)
class FidelityLimits:
    """How far a graph may be from the original to be served.

    Attributes:
        mean_cosine: The least mean over the texts of the cosine between both vectors of a text.
        min_cosine: The least such cosine of any text.
        alone_versus_batch: The greatest absolute difference of a component between a text alone and beside others.
    """

    mean_cosine: float = 0.999
    min_cosine: float = 0.995
    alone_versus_batch: float = 1e-6

    def keep(self, variant: Variant) -> bool:
        """Whether a variant is within the limits; a value that is not a number is not."""
        return (
            variant.mean_cosine >= self.mean_cosine
            and variant.min_cosine >= self.min_cosine
            and variant.alone_versus_batch <= self.alone_versus_batch
        )


def measure_variants(
    graphs: Mapping[str, bytes], tokenizer: Path, token_limit: int, texts: Sequence[str] | None = None
) -> list[Variant]:
    """Measures each graph against the first, which stands for the original.

    Fidelity on about a thousand made-up texts, in batches of similar length; speed on one batch of short and one
    of long texts, by the median of interleaved rounds, with one thread.

    Args:
        graphs: The serialized graphs by name, the original first.
        tokenizer: The tokenizer.json.
        token_limit: Tokens of the longest text.
        texts: Other texts to measure fidelity on.

    Returns:
        One row a graph, in their order.

    Raises:
        ConfigurationError: The tokenizer cannot be read, or a dependency is missing.
    """
    reader = open_tokenizer(tokenizer, min(token_limit, _LONGEST))
    given = _Texts(*padded(reader, evaluation_texts(reader) if texts is None else texts))
    sessions = {name: open_session(graph) for name, graph in graphs.items()}
    vectors = {name: given.embedded(session) for name, session in sessions.items()}
    original = next(iter(vectors.values())).astype(np.float64)
    short, long = (_texts_per_s(sessions, given.timed(tokens)) for tokens in (_SHORT, _LONG))

    measured = []
    for name, session in sessions.items():
        # Vectors have length 1: the product is the cosine.
        cosines = (vectors[name] * original).sum(axis=1)
        measured.append(
            Variant(
                name=name,
                bytes=len(graphs[name]),
                texts=len(cosines),
                mean_cosine=float(cosines.mean()),
                min_cosine=float(cosines.min()),
                alone_versus_batch=_alone_versus_batch(session, given, vectors[name]),
                short_texts_per_s=short[name],
                long_texts_per_s=long[name],
            )
        )
    return measured


def choose_variant(variants: Sequence[Variant], limits: FidelityLimits) -> Variant | None:
    """The fastest within the limits, short and long texts weighing the same; None if there is none."""
    kept = [variant for variant in variants if limits.keep(variant)]
    return max(kept, key=lambda variant: variant.short_texts_per_s * variant.long_texts_per_s, default=None)


class _Texts:
    """Tokenized texts, longest first."""

    def __init__(self, ids: Ids, mask: Ids) -> None:
        order = np.argsort(-mask.sum(axis=1), kind="stable")
        self._ids, self._mask = ids[order], mask[order]
        self._lengths = np.maximum(self._mask.sum(axis=1), 1)

    def batch(self, *rows: int) -> tuple[Ids, Ids]:
        """Ids and mask of some texts, padded to the longest of them."""
        longest = int(self._lengths[list(rows)].max())
        return self._ids[list(rows), :longest], self._mask[list(rows), :longest]

    def embedded(self, session: "InferenceSession") -> Vectors:
        """Every text's vector, in batches within the token budget, on all cores."""
        batches, at = [], 0
        while at < len(self._lengths):
            rows = range(at, min(at + self._budgeted(at), len(self._lengths)))
            batches.append(self.batch(*rows))
            at = rows.stop
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            return np.concatenate(list(threads.map(lambda batch: embed(session, *batch), batches)))

    def timed(self, tokens: int) -> tuple[Ids, Ids]:
        """A batch of the token budget whose texts have that many tokens, or as many as any has."""
        at = int(np.abs(self._lengths - tokens).argmin())
        return self.batch(*[at] * self._budgeted(at))

    def sampled(self) -> range:
        """Some of the texts, of every length."""
        return range(0, len(self._lengths), _EVERY)

    def _budgeted(self, row: int) -> int:
        return max(1, _BATCH_TOKENS // int(self._lengths[row]))


def _alone_versus_batch(session: "InferenceSession", texts: _Texts, together: Vectors) -> float:
    """The greatest difference between a text in its batch, alone, and beside the longest of all texts."""
    differences = [0.0]
    for row in texts.sampled():
        alone = embed(session, *texts.batch(row))[0]
        beside = embed(session, *texts.batch(row, 0))[0]
        differences += [difference(alone, together[row]), difference(alone, beside)]
    return max(differences)


def _texts_per_s(sessions: "Mapping[str, InferenceSession]", batch: tuple[Ids, Ids]) -> dict[str, float]:
    """Texts per second of each session on one batch."""
    seconds: dict[str, list[float]] = {name: [] for name in sessions}
    for turn in range(_ROUNDS + 1):
        # The order turns every round, so that a drifting machine favours none.
        for name in list(sessions)[:: -1 if turn % 2 else 1]:
            start = time.perf_counter()
            embed(sessions[name], *batch)
            seconds[name].append(time.perf_counter() - start)
    # The first round warms up.
    return {name: len(batch[0]) / statistics.median(taken[1:]) for name, taken in seconds.items()}
