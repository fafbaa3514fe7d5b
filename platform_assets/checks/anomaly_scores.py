"""Checks of `anomaly_scores`: every vector is scored; how many are anomalous, and whether the day drifted."""

from dataclasses import replace

import polars as pl

from platform_assets.checks.factory import Check, Day, limited, schema_check, structure
from platform_assets.current_model import model_of
from platform_assets.domain.drift import novelty_z
from platform_assets.domain.measurement import Measurement, breaches, share
from platform_assets.domain.normalized_feedback import summary_of
from platform_assets.domain.thresholds import CheckLimits


def checks(limits: CheckLimits) -> list[Check]:
    """All checks of this asset."""
    return [
        structure(
            "one_score_per_vector",
            "Each row of feedback_embeddings has one row here, scored wherever there is a vector and a model.",
            lambda day: one_score_each(day.rows("feedback_embeddings"), day.rows("anomaly_scores")),
        ),
        schema_check("anomaly_scores"),
        limited(
            "share_anomalous",
            "Share of scored records that are unlike the reference.",
            anomalous,
            limits.share_anomalous,
        ),
        limited(
            "novelty_drift",
            "How many standard errors the day's mean novelty score lies above that of the reference.",
            novelty_drift,
            limits.novelty_drift,
        ),
    ]


def one_score_each(embeddings: pl.DataFrame, scores: pl.DataFrame) -> Measurement:
    """Compare the two tables row by row; rows made before the first fit name no model and need no score."""
    has_model = scores["model_version"].is_not_null().any()
    wanted = embeddings.select("feedback_id", ((pl.col("status") == "ok") & has_model).alias("wants_score"))
    held = scores.group_by("feedback_id").agg(
        pl.len().alias("rows"), (pl.col("score").is_not_null() & pl.col("score").is_finite()).all().alias("scored")
    )
    wrong = (
        wanted.join(held, on="feedback_id", how="full", coalesce=True)
        .filter(
            pl.col("wants_score").is_null()
            | pl.col("rows").fill_null(0).ne(1)
            | (pl.col("wants_score") & ~pl.col("scored").fill_null(value=False))
        )
        .sort("feedback_id")
    )
    found = [f"{identity}: {rows or 0} rows, scored: {scored}" for identity, _, rows, scored in wrong.iter_rows()]
    return breaches(found, rows=embeddings.height, what="vectors without exactly one score")


def share_anomalous(scores: pl.DataFrame) -> Measurement:
    """Anomalies ÷ scored records; without a model nothing is scored."""
    scored = scores.filter(pl.col("score").is_not_null())
    return share(int(scored["is_anomaly"].sum()), scored.height, "share anomalous")


def _outside_reference(day: Day, scores: pl.DataFrame) -> tuple[pl.DataFrame | None, str]:
    """The model that made the scores, or why the day cannot be judged by it."""
    versions = scores["model_version"].drop_nulls().unique().to_list()
    cells = model_of(day.lake, versions[0]) if versions else None
    if cells is None:
        return None, "no anomaly model has scored the day yet"
    if cells["reference_from"][0] <= day.date <= cells["reference_to"][0]:
        # The model was fitted on these very records: they cannot look new to it.
        return None, "the day is part of the anomaly model's reference window"
    return cells, ""


def anomalous(day: Day) -> Measurement:
    """The share of anomalies on a day that the model was not fitted on."""
    scores = day.rows("anomaly_scores")
    cells, lack = _outside_reference(day, scores)
    found = share_anomalous(scores)
    return found if cells is not None else replace(found, value=None, lack=lack)


def novelty_drift(day: Day) -> Measurement:
    """The first drift measure: new kinds of text raise the mean novelty score."""
    scores = day.rows("anomaly_scores").drop_nulls("score")
    cells, lack = _outside_reference(day, scores)
    value = None
    if cells is not None and scores.height and cells["reference_sd"][0] > 0:
        value = novelty_z(
            float(scores.select(pl.col("score").mean()).item()),
            scores.height,
            cells["reference_mean"][0],
            cells["reference_sd"][0],
        )
    unlike = (
        scores.sort("score", descending=True)
        .head(5)
        .join(
            day.rows("raw_feedback").select("feedback_id", "text"), on="feedback_id", how="left", maintain_order="left"
        )
    )
    return Measurement(
        value=value,
        limit=0,
        rows=scores.height,
        what="mean novelty above the reference",
        unit=" standard errors",
        reason="",
        lack=lack or "nothing to compare with",
        examples=[
            f"{score:.3f}: {summary_of(text or '')} ({identity})"
            for identity, score, text in unlike["feedback_id", "score", "text"].iter_rows()
        ],
    )
