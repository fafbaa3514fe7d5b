"""Checks of `feedback_embeddings`: every readable record has one sound vector."""

import polars as pl

from platform_assets.checks.factory import Check, Day, limited, schema_check, structure
from platform_assets.domain.measurement import Measurement, breaches, share
from platform_assets.domain.raw_feedback import sendable
from platform_assets.domain.thresholds import CheckLimits
from platform_assets.domain.vectors import is_sound


def checks(limits: CheckLimits) -> list[Check]:
    """All checks of this asset."""
    return [
        structure(
            "one_vector_per_sendable_row",
            "Each row of raw_feedback has one row here, and each with something to read was sent.",
            lambda day: one_vector_each(
                day.rows("raw_feedback", "feedback_id", "text"),
                day.rows("feedback_embeddings", "feedback_id", "status"),
            ),
        ),
        structure(
            "vectors_sound",
            "Every vector is finite, of the model's dimension and of unit length.",
            lambda day: vectors_sound(day.scan("feedback_embeddings", "feedback_id", "status", "embedding")),
        ),
        schema_check("feedback_embeddings"),
        limited(
            "share_failed_embeddings",
            "Share of sent texts for which the model gave no sound vector.",
            share_failed,
            limits.share_failed_embeddings,
        ),
    ]


def one_vector_each(raw: pl.DataFrame, embeddings: pl.DataFrame) -> Measurement:
    """Compare the two tables row by row."""
    wanted = raw.select("feedback_id", sendable().alias("sendable"))
    held = embeddings.group_by("feedback_id").agg(
        pl.len().alias("rows"), pl.col("status").is_in(["ok", "failed"]).any().alias("sent")
    )
    wrong = (
        wanted.join(held, on="feedback_id", how="full", coalesce=True)
        .filter(
            pl.col("sendable").is_null()
            | pl.col("rows").fill_null(0).ne(1)
            | pl.col("sent").fill_null(value=False).ne(pl.col("sendable"))
        )
        .sort("feedback_id")
    )
    found = [f"{identity}: {rows or 0} rows, sent: {sent}" for identity, _, rows, sent in wrong.iter_rows()]
    return breaches(found, rows=raw.height, what="records without exactly one vector")


def vectors_sound(embeddings: pl.LazyFrame) -> Measurement:
    """Judge the stored vectors; `ok` promises a sound one, of the dimension that the day's vectors share."""
    judged = (
        embeddings.filter(pl.col("status") == "ok")
        .select("feedback_id", is_sound().alias("sound"), pl.col("embedding").list.len().fill_null(0).alias("dims"))
        .collect(engine="streaming")
    )
    if judged.is_empty():
        return breaches([], rows=0, what="unsound vectors")
    dims = int(judged["dims"].mode().sort().to_list()[-1])
    odd = judged.filter(pl.col("dims") != dims)
    bad = judged.filter(pl.col("dims") == dims, ~pl.col("sound"))
    found = [f"{identity}: {count} numbers, not {dims}" for identity, count in odd.select("feedback_id", "dims").rows()]
    found += [f"{identity}: not finite, or not of unit length" for identity in bad["feedback_id"]]
    return breaches(found, rows=judged.height, what="unsound vectors")


def share_failed(day: Day) -> Measurement:
    """Failed ÷ sent."""
    sent = day.rows("feedback_embeddings", "status").filter(pl.col("status") != "no_text")
    return share(sent.filter(pl.col("status") == "failed").height, sent.height, "share of texts without a vector")
