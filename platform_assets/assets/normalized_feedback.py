"""`normalized_feedback`: language, sentiment, category and urgency of each record, by the local tier."""

from datetime import date
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
from platform_assets.domain.categories import Prototypes, prototypes
from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.normalized_feedback import normalize
from platform_assets.domain.taxonomy import Taxonomy
from platform_assets.failures import clear_failures
from platform_assets.landed_sources import rating_ranges
from platform_assets.partitions import ARRIVAL_DAYS
from platform_assets.settings import SettingsResource
from resources.landing_zone import LandingZoneResource
from resources.text_encoder import TextEncoder
from resources.triton import TritonResource


@dg.asset(
    partitions_def=ARRIVAL_DAYS,
    io_manager_key=LAKE_IO,
    group_name="normalization",
    kinds={"polars", "deltalake"},
    metadata=table_metadata("normalized_feedback"),
    retry_policy=SERVER_RETRIES,
    automation_condition=WHEN_UPSTREAM_CHANGES,
)
def normalized_feedback(
    context: dg.AssetExecutionContext,
    raw_feedback: pl.LazyFrame,
    feedback_embeddings: pl.LazyFrame,
    anomaly_scores: pl.LazyFrame,
    settings: SettingsResource,
    landing: dg.ResourceParam[LandingZoneResource],
    triton: dg.ResourceParam[TritonResource],
) -> dg.Output[pl.DataFrame]:
    """One row for each row of raw_feedback; where the local tier is not sure, the status is `deferred`.

    A deferred row keeps the local guess and its confidence, and says in `route_reason` why it is no answer.
    """
    config = settings.get()
    feedback = (
        raw_feedback.select("feedback_id", "partition_date", "source", "text", "language", "rating")
        .join(
            feedback_embeddings.select(
                "feedback_id", "embedding", "model_version", "model_hash", pl.col("status").alias("embedding_status")
            ),
            on="feedback_id",
            how="left",
            maintain_order="left",
        )
        .join(anomaly_scores.select("feedback_id", "is_anomaly"), on="feedback_id", how="left", maintain_order="left")
        .collect()
    )
    with clear_failures():
        text_encoder = TextEncoder(triton, token_budget=config.pace().token_budget)
        pinned = text_encoder.pinned
        encoder = (
            pinned.embedder_version,
            model_hash(Path(triton.repository), pinned.embedder, pinned.embedder_version, pinned.file),
        )
        _refuse_other_encoder(feedback, encoder)
        table = normalize(
            feedback,
            taxonomy_prototypes(config.taxonomy, text_encoder),
            config.thresholds.local_tier,
            model=f"text_embedder:{':'.join(encoder)} taxonomy:{config.taxonomy.version}",
            rating_ranges=rating_ranges(date.fromisoformat(context.partition_key), landing, config),
        )
    return dg.Output(
        table,
        metadata={
            "statuses": dict(table.group_by("status").len().iter_rows()),
            "route_reasons": dict(table.drop_nulls("route_reason").group_by("route_reason").len().iter_rows()),
        },
    )


def taxonomy_prototypes(taxonomy: Taxonomy, encoder: TextEncoder) -> Prototypes:
    """Encode the taxonomy's examples."""
    owner = [index for index, category in enumerate(taxonomy.categories) for _ in category.examples]
    encoded = encoder.encode([example for category in taxonomy.categories for example in category.examples])
    keys = [category.key for category in taxonomy.categories]
    return prototypes(keys, owner, encoded.embeddings)


def _refuse_other_encoder(feedback: pl.DataFrame, encoder: tuple[str, str]) -> None:
    """Vectors of two encoders lie in two spaces; their cosine means nothing."""
    readable = feedback.filter(pl.col("embedding_status") == "ok")
    if other := [each for each in readable.select("model_version", "model_hash").unique().rows() if each != encoder]:
        raise FeedbackError(
            f"the day's vectors come from text_embedder {' '.join(other[0]).strip()}, "
            f"{' '.join(encoder).strip()} serves now: "
            "materialize feedback_embeddings of this day again"
        )
