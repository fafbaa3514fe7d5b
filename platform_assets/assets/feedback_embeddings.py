"""`feedback_embeddings`: a vector for every text of the day that has anything to read, from Triton."""

from pathlib import Path

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
from platform_assets.domain.vectors import column, sound
from platform_assets.failures import clear_failures
from platform_assets.partitions import ARRIVAL_DAYS
from platform_assets.settings import SettingsResource
from resources.text_encoder import EncodedTexts, TextEncoder
from resources.triton import TritonResource


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
    triton: dg.ResourceParam[TritonResource],
) -> dg.Output[pl.DataFrame]:
    """One row for each row of raw_feedback: its vector, or why it has none (`no_text`, `failed`).

    Equal texts are sent once. A text longer than the model reads is cut and flagged `truncated`.
    """
    rows = raw_feedback.select("feedback_id", "partition_date", "content_hash", "text").collect()
    texts = rows.filter(sendable()).unique("content_hash", keep="first", maintain_order=True)
    with clear_failures():
        encoder = TextEncoder(triton, token_budget=settings.get().platform.triton.token_budget)
        encoded = encoder.encode(texts["text"].to_list())
        file_hash = model_hash(Path(triton.repository), encoded.model_name, encoded.model_version)
    table = rows.join(_vectors(texts, encoded), on="content_hash", how="left", maintain_order="left").with_columns(
        status=pl.col("status").fill_null("no_text"),
        model_name=pl.lit(encoded.model_name),
        model_version=pl.lit(encoded.model_version),
        model_hash=pl.lit(file_hash),
    )
    counts = dict(table.group_by("status").len().iter_rows())
    return dg.Output(
        conform(table, FEEDBACK_EMBEDDINGS),
        metadata={
            "texts_sent": texts.height,
            "tokens_read": int(encoded.token_count.sum()),
            "truncated": int(encoded.truncated.sum()),
            "statuses": counts,
            "model": f"{encoded.model_name}:{encoded.model_version}",
        },
    )


def _vectors(texts: pl.DataFrame, encoded: EncodedTexts) -> pl.DataFrame:
    is_sound = pl.Series(sound(encoded.embeddings), dtype=pl.Boolean)
    return pl.DataFrame(
        {
            "content_hash": texts["content_hash"],
            "embedding": column(encoded.embeddings),
            "token_count": pl.Series(encoded.token_count, dtype=pl.Int32),
            "truncated": pl.Series(encoded.truncated, dtype=pl.Boolean),
            "is_sound": is_sound,
        }
    ).with_columns(
        status=pl.when("is_sound").then(pl.lit("ok")).otherwise(pl.lit("failed")),
        embedding=pl.when("is_sound").then("embedding"),
    )
