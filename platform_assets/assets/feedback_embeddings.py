"""`feedback_embeddings`: a vector for every text of the day that has anything to read, from Triton."""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

import dagster as dg
import polars as pl

from platform_assets.assets.common import (
    LAKE_IO,
    SERVER_RETRIES,
    WHEN_UPSTREAM_CHANGES,
    table_metadata,
)
from platform_assets.current_model import model_hash
from platform_assets.domain.raw_feedback import sendable
from platform_assets.domain.tables import FEEDBACK_EMBEDDINGS, conform
from platform_assets.domain.vectors import column, unsound
from platform_assets.failures import clear_failures
from platform_assets.partitions import ARRIVAL_DAYS
from platform_assets.settings import SettingsResource
from platform_assets.stored_vectors import TABLE, HashRange, Model, StoredVectors, hash_ranges
from resources.delta_lake import DeltaLakeResource
from resources.staged_partition import StagedPartition
from resources.text_encoder import EncodedTexts, TextEncoder
from resources.triton import TritonResource

_CHUNK_BYTES: Final = 32 << 20
"""Of text, that are in memory together, about."""

_COMPUTED: Final = ("content_hash", "embedding", "token_count", "truncated", "failure", "status")
_COUNTS: Final = ("texts_sent", "texts_reused", "texts_resumed", "texts_failed", "tokens_read", "truncated")


@dg.asset(
    partitions_def=ARRIVAL_DAYS,
    io_manager_key=LAKE_IO,
    group_name="models",
    kinds={"triton", "deltalake"},
    metadata=table_metadata("feedback_embeddings"),
    retry_policy=SERVER_RETRIES,
    automation_condition=WHEN_UPSTREAM_CHANGES,
)
def feedback_embeddings(
    context: dg.AssetExecutionContext,
    raw_feedback: pl.LazyFrame,
    settings: SettingsResource,
    lake: dg.ResourceParam[DeltaLakeResource],
    triton: dg.ResourceParam[TritonResource],
) -> Iterator[dg.Output[StagedPartition]]:
    """One row for each row of raw_feedback: its vector, or why it has none (`no_text`, `failed`).

    Equal texts are sent once; a text whose vector by the same model is stored already, on one of the days before or by
    a run that was killed, is not sent again. A text longer than the model reads is cut and flagged `truncated`. Rows
    are in order of their content hash.
    """
    day = date.fromisoformat(context.partition_key)
    config = settings.get()
    chunk_rows = config.platform.triton.chunk_rows
    with clear_failures():
        encoder = TextEncoder(triton, token_budget=config.pace().token_budget, one_trip=config.platform.triton.one_trip)
        pinned = encoder.pinned
        version = pinned.embedder_version
        model = Model(
            pinned.embedder, version, model_hash(Path(triton.repository), pinned.embedder, version, pinned.file)
        )
        stored = StoredVectors(lake, day, model, config.platform.triton.reuse_days)
        staged = lake.stage(TABLE, FEEDBACK_EMBEDDINGS, day, part_rows=chunk_rows, sorted_by="content_hash")
        try:
            ranges = hash_ranges(_count(raw_feedback, chunk_rows))
            counts: Counter[str] = Counter()
            parts = (_read(raw_feedback, within, stored) for within in ranges)
            for done, (part, encoded) in enumerate(embedded(parts, encoder), start=1):
                computed = _computed(part, encoded)
                # The last one is followed by the table itself.
                if computed.height and done < len(ranges):
                    stored.keep(computed.filter(pl.col("status") == "ok"), part.within)
                staged.add(_rows(part, computed, model))
                counts += _counted(part, computed)
            metadata: dict[str, dg.RawMetadataValue] = {name: counts[name] for name in _COUNTS}
            metadata |= {"statuses": staged.counts("status"), "model": f"{model.name}:{model.version}"}
            yield dg.Output(staged, metadata=metadata)
            stored.forget()
        finally:
            staged.discard()


@dataclass(frozen=True)
class Part:
    """The day's rows of one range of content hashes, and what is known of their vectors.

    Attributes:
        within: The range.
        rows: The rows, without their texts, in order of their hashes.
        known: The vectors that are stored already, by hash.
        resumed: How many of them a killed run left.
        new: Hash and text of what has to be sent.
    """

    within: HashRange
    rows: pl.DataFrame
    known: pl.DataFrame
    resumed: int
    new: pl.DataFrame


def _count(raw_feedback: pl.LazyFrame, chunk_rows: int) -> int:
    """In how many ranges the day is embedded."""
    sizes = raw_feedback.select(pl.len(), pl.col("text").str.len_bytes().sum()).collect(engine="streaming")
    rows, size = map(int, sizes.row(0))
    return max(-(-rows // chunk_rows), -(-size // _CHUNK_BYTES), 1)


def embedded(parts: Iterator[Part], encoder: TextEncoder) -> Iterator[tuple[Part, EncodedTexts | None]]:
    """The parts of a day, each with the vectors of those texts that had to be sent; few of them are held at a time."""
    waiting: deque[Part] = deque()

    def texts() -> Iterator[list[str]]:
        for part in parts:
            waiting.append(part)
            if part.new.is_empty():
                # It gets no answer, behind which it could be handed on: a day of which all is known would pile up.
                return
            yield part.new["text"].to_list()

    while True:
        for encoded in encoder.encode_all(texts()):
            yield waiting.popleft(), encoded
        if not waiting:
            return
        yield waiting.popleft(), None


def _read(raw_feedback: pl.LazyFrame, within: HashRange, stored: StoredVectors) -> Part:
    rows = (
        raw_feedback.filter(within.holds())
        .select("feedback_id", "partition_date", "content_hash", "text")
        .collect()
        .sort("content_hash", "feedback_id")
    )
    texts = rows.filter(sendable()).unique("content_hash", keep="first", maintain_order=True)
    known, resumed = stored.of(texts["content_hash"], within)
    new = texts.select("content_hash", "text").join(known, on="content_hash", how="anti", maintain_order="left")
    return Part(within, rows.drop("text"), known, resumed, new)


def _computed(part: Part, encoded: EncodedTexts | None) -> pl.DataFrame:
    """The vectors that were sent for, or why there is none."""
    if encoded is None:
        return pl.DataFrame(schema={name: FEEDBACK_EMBEDDINGS[name] for name in _COMPUTED})
    reasons = {**unsound(encoded.embeddings), **encoded.failures}
    failure = pl.Series([reasons.get(place) for place in range(part.new.height)], dtype=pl.String)
    return pl.DataFrame(
        {
            "content_hash": part.new["content_hash"],
            "embedding": column(encoded.embeddings),
            "token_count": pl.Series(encoded.token_count, dtype=pl.Int32),
            "truncated": pl.Series(encoded.truncated, dtype=pl.Boolean),
            "failure": failure,
        }
    ).with_columns(
        status=pl.when(pl.col("failure").is_null()).then(pl.lit("ok")).otherwise(pl.lit("failed")),
        embedding=pl.when(pl.col("failure").is_null()).then("embedding"),
    )


def _rows(part: Part, computed: pl.DataFrame, model: Model) -> pl.DataFrame:
    known = part.known.with_columns(failure=pl.lit(None, pl.String), status=pl.lit("ok"))
    vectors = pl.concat([known.select(_COMPUTED), computed.select(_COMPUTED)])
    table = part.rows.join(vectors, on="content_hash", how="left", maintain_order="left").with_columns(
        status=pl.col("status").fill_null("no_text"),
        model_name=pl.lit(model.name),
        model_version=pl.lit(model.version),
        model_hash=pl.lit(model.hash),
    )
    return conform(table, FEEDBACK_EMBEDDINGS)


def _counted(part: Part, computed: pl.DataFrame) -> Counter[str]:
    return Counter(
        texts_sent=computed.height,
        texts_reused=part.known.height - part.resumed,
        texts_resumed=part.resumed,
        texts_failed=computed["failure"].count(),
        tokens_read=int(computed["token_count"].sum()),
        truncated=int(computed["truncated"].sum()),
    )
