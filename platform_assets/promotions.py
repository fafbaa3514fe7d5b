"""The record of promotions: which version of each model serves, since when, and what it was compared by.

Promoting belongs to `platform_assets/model_swap.py`, what the record means to `domain/promotions.py`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import polars as pl

from platform_assets.domain.promotions import Action, Step, former_version
from platform_assets.domain.tables import MODEL_PROMOTIONS, conform
from resources.delta_lake import DeltaLakeResource

TABLE: Final = "model_promotions"
DETECTOR: Final = "anomaly_detector"
"""The anomaly model's name in Triton."""
ENCODER: Final = "feedback_encoder"
"""The ensemble from texts to vectors."""
TOKENIZER: Final = "tokenizer"
EMBEDDER: Final = "text_embedder"
"""The parts of the ensemble; vectors name the embedder's version."""


@dataclass(frozen=True)
class Promotion:
    """A version that came to be served.

    Attributes:
        model: The ensemble of the encoder, or the detector.
        version: Its version.
        former: What was served until then; None for the first.
        action: How it came to be served.
        promoted_at: When (UTC).
        source: Where it comes from, by its card.
        model_hash: Of the embedder's graph, or the detector's; empty where it is not at hand.
        embedder_version: The embedder of the encoder, or the one that the detector was fitted on.
        figures: What it was compared by, by name.
    """

    model: str
    version: int
    former: int | None
    action: Action
    promoted_at: datetime
    source: str
    model_hash: str
    embedder_version: str
    figures: Mapping[str, float | None] = field(default_factory=dict)


def record(lake: DeltaLakeResource, promotion: Promotion) -> None:
    """Add a promotion to the record, which is only ever added to; one process at a time does."""
    number = len(recorded(lake, promotion.model)) + 1
    row = {
        "model": promotion.model,
        "number": number,
        "model_version": promotion.version,
        "former_version": promotion.former,
        "action": promotion.action.value,
        "promoted_at": promotion.promoted_at,
        "source": promotion.source,
        "model_hash": promotion.model_hash,
        "embedder_version": promotion.embedder_version,
        "figures": json.dumps(dict(promotion.figures)),
    }
    table = conform(pl.DataFrame([row], schema=MODEL_PROMOTIONS), MODEL_PROMOTIONS)
    lake.replace(TABLE, table, {"model": promotion.model, "number": number})


def recorded(lake: DeltaLakeResource, model: str) -> list[Promotion]:
    """The promotions of a model, the oldest first; none before the first."""
    if not lake.exists(TABLE):
        return []
    rows = lake.scan(TABLE).filter(pl.col("model") == model).collect().sort("number")
    return [
        Promotion(
            model,
            row["model_version"],
            row["former_version"],
            Action(row["action"]),
            row["promoted_at"],
            row["source"],
            row["model_hash"],
            row["embedder_version"],
            json.loads(row["figures"]),
        )
        for row in rows.iter_rows(named=True)
    ]


def newest(lake: DeltaLakeResource, model: str) -> Promotion | None:
    """The promotion that counts now."""
    return next(reversed(recorded(lake, model)), None)


def before(lake: DeltaLakeResource, model: str) -> int | None:
    """The version that a rollback goes to; None where there is none."""
    return former_version(Step(one.action, one.version, one.former) for one in recorded(lake, model))
