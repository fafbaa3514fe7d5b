"""The columns of every table, in order: the contract that the rest of the platform and its users rely on."""

from typing import Final

import polars as pl

from platform_assets.domain.errors import FeedbackError

Schema = dict[str, pl.DataType]

UTC_TIME: Final = pl.Datetime("us", "UTC")
TEXTS: Final = pl.List(pl.String())

RAW_FEEDBACK: Final[Schema] = {
    "feedback_id": pl.String(),
    "source": pl.String(),
    "source_record_id": pl.String(),
    "text": pl.String(),
    "created_at": UTC_TIME,
    "received_at": UTC_TIME,
    "partition_date": pl.Date(),
    "rating": pl.Float64(),
    "author_id": pl.String(),
    "channel": pl.String(),
    "language": pl.String(),
    "metadata": pl.String(),
    "content_hash": pl.String(),
    "file_uri": pl.String(),
    "line_no": pl.Int64(),
    "flags": TEXTS,
}

QUARANTINED_FEEDBACK: Final[Schema] = {
    "partition_date": pl.Date(),
    "source": pl.String(),
    "file_uri": pl.String(),
    "line_no": pl.Int64(),
    "raw": pl.String(),
    "reason": pl.String(),
    "detail": pl.String(),
    "quarantined_at": UTC_TIME,
}

LANDED_FILES: Final[Schema] = {
    "partition_date": pl.Date(),
    "file_uri": pl.String(),
    "content_hash": pl.String(),
    "source": pl.String(),
    "size_bytes": pl.Int64(),
    "modified_at": UTC_TIME,
    "landed_at": UTC_TIME,
    "records": pl.Int64(),
    "loaded": pl.Int64(),
    "quarantined": pl.Int64(),
    "problem": pl.String(),
    "contract_hash": pl.String(),
    "etag": pl.String(),
    "same_as": pl.String(),
    "gone": pl.Boolean(),
}

FEEDBACK_EMBEDDINGS: Final[Schema] = {
    "feedback_id": pl.String(),
    "partition_date": pl.Date(),
    "content_hash": pl.String(),
    "embedding": pl.List(pl.Float32()),
    "status": pl.String(),
    "token_count": pl.Int32(),
    "truncated": pl.Boolean(),
    "failure": pl.String(),
    "model_name": pl.String(),
    "model_version": pl.String(),
    "model_hash": pl.String(),
}

ANOMALY_MODEL: Final[Schema] = {
    "model_version": pl.Int64(),
    "model_hash": pl.String(),
    "embedder_version": pl.String(),
    "embedder_hash": pl.String(),
    "cell": pl.Int64(),
    "cell_size": pl.Int64(),
    "nearest_feedback_id": pl.String(),
    "threshold": pl.Float64(),
    "reference_mean": pl.Float64(),
    "reference_sd": pl.Float64(),
    "reference_rows": pl.Int64(),
    "reference_from": pl.Date(),
    "reference_to": pl.Date(),
}

ANOMALY_SCORES: Final[Schema] = {
    "feedback_id": pl.String(),
    "partition_date": pl.Date(),
    "score": pl.Float64(),
    "threshold": pl.Float64(),
    "is_anomaly": pl.Boolean(),
    "nearest_feedback_id": pl.String(),
    "model_name": pl.String(),
    "model_version": pl.String(),
    "model_hash": pl.String(),
}

NORMALIZED_FEEDBACK: Final[Schema] = {
    "feedback_id": pl.String(),
    "partition_date": pl.Date(),
    "language": pl.String(),
    "sentiment": pl.String(),
    "sentiment_score": pl.Float64(),
    "category": pl.String(),
    "urgency": pl.String(),
    "summary": pl.String(),
    "entities": TEXTS,
    "evidence": TEXTS,
    "confidence": pl.Float64(),
    "normalizer": pl.String(),
    "route_reason": pl.String(),
    "status": pl.String(),
    "model": pl.String(),
    "prompt_version": pl.String(),
    "schema_version": pl.String(),
    "prompt_tokens": pl.Int64(),
    "completion_tokens": pl.Int64(),
    "cost_usd": pl.Float64(),
}

DAILY_SUMMARY: Final[Schema] = {
    "partition_date": pl.Date(),
    "source": pl.String(),
    "category": pl.String(),
    "volume": pl.Int64(),
    "negative": pl.Int64(),
    "neutral": pl.Int64(),
    "positive": pl.Int64(),
    "mixed": pl.Int64(),
    "mean_sentiment_score": pl.Float64(),
    "anomalies": pl.Int64(),
    "urgent": pl.Int64(),
    "deferred": pl.Int64(),
}

MODEL_PROMOTIONS: Final[Schema] = {
    "model": pl.String(),
    "number": pl.Int64(),
    "model_version": pl.Int64(),
    "former_version": pl.Int64(),
    "action": pl.String(),
    "promoted_at": UTC_TIME,
    "source": pl.String(),
    "model_hash": pl.String(),
    "embedder_version": pl.String(),
    "figures": pl.String(),
}

TABLES: Final[dict[str, Schema]] = {
    "raw_feedback": RAW_FEEDBACK,
    "quarantined_feedback": QUARANTINED_FEEDBACK,
    "landed_files": LANDED_FILES,
    "feedback_embeddings": FEEDBACK_EMBEDDINGS,
    "anomaly_model": ANOMALY_MODEL,
    "anomaly_scores": ANOMALY_SCORES,
    "normalized_feedback": NORMALIZED_FEEDBACK,
    "daily_summary": DAILY_SUMMARY,
    "model_promotions": MODEL_PROMOTIONS,
}


def conform(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Put the columns into the contract's order and types.

    Raises:
        FeedbackError: a column is missing or cannot take its type without loss.
    """
    try:
        return frame.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
    except pl.exceptions.PolarsError as error:
        raise FeedbackError(f"a table does not fit its contract: {str(error).splitlines()[0]}") from error


def schema_breaches(found: Schema, declared: Schema) -> list[str]:
    """One line for each column that is missing, unknown or of another type; empty where all fit."""
    missing = [f"{name} is missing" for name in declared if name not in found]
    unknown = [f"{name} is not in the contract" for name in found if name not in declared]
    other = [
        f"{name} is {found[name]}, the contract says {dtype}"
        for name, dtype in declared.items()
        if name in found and found[name] != dtype
    ]
    return missing + unknown + other
