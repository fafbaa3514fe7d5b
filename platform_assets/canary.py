"""Replaying a sample through two versions of a model, and holding what differs against the limits.

Loading the versions and switching between them belongs to `platform_assets/model_swap.py`, the arithmetic to
`domain/version_comparison.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median
from typing import TYPE_CHECKING, Final

import polars as pl

from platform_assets.current_model import DETECTOR, current_model
from platform_assets.domain.measurement import Measurement, Verdict
from platform_assets.domain.raw_feedback import sendable
from platform_assets.domain.thresholds import Limit, PromotionLimits
from platform_assets.domain.vectors import matrix, sound
from platform_assets.domain.version_comparison import cosine_losses, neighbours_changed, rank_loss
from platform_assets.promotions import EMBEDDER, TOKENIZER
from platform_assets.settings import Settings
from resources.delta_lake import DeltaLakeResource
from resources.text_encoder import TextEncoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from resources.triton import TritonResource

    Floats = NDArray[np.float32]

DAYS: Final = 7
"""Recent days that a sample is taken from: a week has its rhythm."""
_TIMED: Final = 64
"""Rows of the sample that the versions are timed with."""


@dataclass(frozen=True)
class Compared:
    """One figure of a comparison.

    Attributes:
        name: Its name in thresholds.yaml.
        measurement: What differs, held against its limit.
        served: The served version's own number; None where there is only the difference.
        new: The new version's.
        blocks: Whether a breach refuses the new version, and does not only warn.
        excusable: Whether a model that is meant to be another may breach it.
    """

    name: str
    measurement: Measurement
    served: float | None
    new: float | None
    blocks: bool
    excusable: bool = True

    def refuses(self, *, accept_differences: bool) -> bool:
        """Whether the new version may not serve because of it."""
        failed = self.measurement.verdict is Verdict.FAILED
        return failed and self.blocks and not (accept_differences and self.excusable)


@dataclass(frozen=True)
class TextSample:
    """Texts to replay, and a line that says what they are."""

    texts: list[str]
    origin: str


@dataclass(frozen=True)
class Memory:
    """Bytes that the server holds, before and after the new version was loaded beside the served one; 0 if unknown."""

    before: int
    after: int


def text_sample(settings: Settings, size: int) -> TextSample:
    """Different texts of the last days, the same ones each time; without any, the examples of the taxonomy."""
    lake = settings.lake()
    days = _last_days(lake, "raw_feedback")
    found = [
        lake.scan_partition("raw_feedback", day)
        .filter(sendable())
        .select("content_hash", "text")
        .unique("content_hash", keep="any")
        # The hash is as good as a draw, and always the same.
        .bottom_k(-(-size // len(days)), by="content_hash")
        .collect()
        for day in days
    ]
    if found and (texts := pl.concat(found).unique("content_hash").sort("content_hash")["text"].to_list()[:size]):
        fewer = "" if len(texts) == size else f" (they hold no {size})"
        return TextSample(texts, f"{len(texts)} texts of {min(days)} to {max(days)}{fewer}")
    examples = [example for category in settings.taxonomy.categories for example in category.examples][:size]
    return TextSample(examples, f"{len(examples)} examples of config/taxonomy.yaml, because no feedback is stored yet")


def compare_encoders(
    triton: TritonResource,
    served: Mapping[str, int],
    new: Mapping[str, int],
    texts: Sequence[str],
    limits: PromotionLimits,
    *,
    same_encoder: bool,
    memory: Memory,
    lake: DeltaLakeResource,
    served_hash: str,
) -> list[Compared]:
    """Gives the same texts to two versions of the encoder that are loaded beside each other.

    Args:
        triton: The server.
        served: The versions of the parts that serve.
        new: Those that are to serve.
        texts: The sample.
        limits: What the differences are held against.
        same_encoder: Whether both claim to be the same encoder, so that their vectors lie in one space.
        memory: Of the server, before and after loading.
        lake: Where the anomaly model is recorded; its scores are compared if it was fitted on the served encoder.
        served_hash: The hash of the served embedder.
    """
    vectors, new_vectors = encode(triton, served, texts), encode(triton, new, texts)
    is_sound, is_new_sound = sound(vectors), sound(new_vectors)
    both = is_sound & is_new_sound
    lost = int((is_sound & ~is_new_sound).sum())
    a, b = vectors[both], new_vectors[both]
    figures = [
        _judged(
            "failed_texts",
            "texts that only the served version gives a vector for",
            lost,
            limits.failed_texts,
            len(texts),
            excusable=False,
        ),
        _judged(
            "neighbours_changed",
            f"share of each text's {limits.neighbours} nearest that are others",
            neighbours_changed(a, b, limits.neighbours),
            limits.neighbours_changed,
            len(a),
        ),
    ]
    if same_encoder and len(a):
        mean, greatest = cosine_losses(a, b)
        what = "1 − cosine of a text's two vectors"
        figures += [
            _judged("mean_cosine_loss", f"{what}, mean", mean, limits.mean_cosine_loss, len(a)),
            _judged("greatest_cosine_loss", f"{what}, greatest", greatest, limits.greatest_cosine_loss, len(a)),
        ]
        cells = current_model(lake)
        if cells is not None and (cells["embedder_version"][0], cells["embedder_hash"][0]) == (
            str(served[EMBEDDER]),
            served_hash,
        ):
            version, threshold = int(cells["model_version"][0]), float(cells["threshold"][0])
            scores, new_scores = _score(triton, version, a), _score(triton, version, b)
            figures.append(_ranks("score_rank_loss", scores, new_scores, limits.score_rank_loss))
            figures.append(_shares((scores, threshold), (new_scores, threshold), limits))
    few = sorted(texts, key=len)[:: max(1, len(texts) // _TIMED)][:_TIMED]
    figures.append(
        _latency(lambda: encode(triton, served, few), lambda: encode(triton, new, few), len(few), len(texts), limits)
    )
    figures.append(_memory(memory, limits))
    return figures


def encode(triton: TritonResource, parts: Mapping[str, int], texts: Sequence[str]) -> Floats:
    """The vectors (n, dims) of texts by these versions of tokenizer and embedder; NaN for a text that fails."""
    versions = {part: str(parts[part]) for part in (TOKENIZER, EMBEDDER)}
    return TextEncoder(triton, versions=versions).encode(texts).embeddings


def compare_detectors(
    triton: TritonResource,
    served: pl.DataFrame,
    new: pl.DataFrame,
    vectors: Floats,
    limits: PromotionLimits,
    memory: Memory,
) -> list[Compared]:
    """Gives the same vectors to two fitted anomaly models, named by their rows of the table `anomaly_model`."""
    versions = [int(cells["model_version"][0]) for cells in (served, new)]
    scores, new_scores = (_score(triton, version, vectors) for version in versions)
    few = vectors[:_TIMED]
    return [
        _ranks("fit_rank_loss", scores, new_scores, limits.fit_rank_loss),
        _shares((scores, float(served["threshold"][0])), (new_scores, float(new["threshold"][0])), limits),
        _latency(
            lambda: _score(triton, versions[0], few),
            lambda: _score(triton, versions[1], few),
            len(few),
            len(vectors),
            limits,
        ),
        _memory(memory, limits),
    ]


def vector_sample(lake: DeltaLakeResource, embedder_version: str, embedder_hash: str, size: int) -> Floats:
    """Vectors of one encoder, of different texts of the last days, the same ones each time; none gives (0, 0)."""
    days = _last_days(lake, "feedback_embeddings")
    found = [
        lake.scan_partition("feedback_embeddings", day)
        .filter(
            pl.col("status") == "ok",
            pl.col("model_version") == embedder_version,
            pl.col("model_hash") == embedder_hash,
        )
        .select("content_hash", "embedding")
        .unique("content_hash", keep="any")
        .bottom_k(-(-size // len(days)), by="content_hash")
        .collect()
        for day in days
    ]
    rows = pl.concat(found) if found else pl.DataFrame({"embedding": []}, schema={"embedding": pl.List(pl.Float32)})
    return matrix(rows["embedding"][:size])


def _last_days(lake: DeltaLakeResource, table: str) -> list[date]:
    if not lake.exists(table):
        return []
    days = lake.scan(table).select("partition_date").unique().collect()["partition_date"]
    return sorted(days, reverse=True)[:DAYS]


def _score(triton: TritonResource, version: int, vectors: Floats) -> Floats:
    import numpy as np

    if not len(vectors):
        return np.empty(0, dtype=np.float32)
    answer = triton.infer(DETECTOR, {"embeddings": vectors}, version=str(version))
    return np.asarray(answer["score"].reshape(-1), dtype=np.float32)


def _ranks(name: str, scores: Floats, new_scores: Floats, limit: Limit) -> Compared:
    what = "1 − rank correlation of the anomaly scores"
    return _judged(name, what, rank_loss(scores, new_scores), limit, len(scores))


def _shares(served: tuple[Floats, float], new: tuple[Floats, float], limits: PromotionLimits) -> Compared:
    """Scores, and the threshold above which one is an anomaly, of both versions."""
    rows = len(served[0])
    share, new_share = (float((scores > threshold).mean()) if rows else 0.0 for scores, threshold in (served, new))
    return _judged(
        "share_anomalous",
        "share of anomalies, new − served",
        new_share - share if rows else None,
        limits.share_anomalous,
        rows,
        own=(share, new_share) if rows else (None, None),
    )


def _latency(
    served: Callable[[], object], new: Callable[[], object], timed: int, rows: int, limits: PromotionLimits
) -> Compared:
    def seconds(work: Callable[[], object]) -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    pairs = []
    for number in range(limits.rounds if timed else 0):
        # The order changes each round: what runs second finds warmer caches.
        if number % 2:
            after, before = seconds(new), seconds(served)
        else:
            before, after = seconds(served), seconds(new)
        pairs.append((before, after))
    return _judged(
        "latency_ratio",
        f"time of {timed} rows, new ÷ served, median of {len(pairs)} paired rounds (own: milliseconds a row)",
        median(after / before for before, after in pairs) if pairs else None,
        limits.latency_ratio,
        rows,
        own=(
            median(before for before, _ in pairs) / timed * 1e3 if pairs else None,
            median(after for _, after in pairs) / timed * 1e3 if pairs else None,
        ),
    )


def _memory(memory: Memory, limits: PromotionLimits) -> Compared:
    return _judged(
        "memory_ratio",
        "memory of the server with both loaded ÷ before (own: MB)",
        memory.after / memory.before if memory.before and memory.after else None,
        limits.memory_ratio,
        1,
        own=(memory.before / 1e6 or None, memory.after / 1e6 or None),
        lack="the server's memory cannot be seen from here",
    )


def _judged(
    name: str,
    what: str,
    value: float | None,
    limit: Limit,
    rows: int,
    *,
    own: tuple[float | None, float | None] = (None, None),
    excusable: bool = True,
    lack: str = "too few or all alike",
) -> Compared:
    measurement = Measurement(
        value=value,
        limit=limit.limit,
        rows=rows,
        what=what,
        reason=limit.reason,
        min_rows=limit.min_rows,
        lack=lack,
    )
    return Compared(name, measurement, *own, blocks=limit.severity == "block", excusable=excusable)
