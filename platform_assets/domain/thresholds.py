"""The limits of every check and rule: the typed form of `config/thresholds.yaml`, each with its reason."""

from typing import Literal

from pydantic import Field, field_validator

from platform_assets.domain.strict_model import StrictModel


class Limit(StrictModel):
    """The limit of one check."""

    limit: float = Field(allow_inf_nan=False, description="The greatest value that passes.")
    reason: str = Field(min_length=10, description="Why this limit and no other.")
    severity: Literal["warn", "block"] = "warn"
    min_rows: int = Field(1, ge=1, description="Below this many rows the outcome is 'not enough data'.")


class CheckLimits(StrictModel):
    """One limit for each check that has one to set; structure (limit 0) is not the owner's to loosen."""

    share_quarantined: Limit
    share_failed_embeddings: Limit
    share_anomalous: Limit
    novelty_drift: Limit
    share_deferred: Limit
    language_mix: Limit


class LocalTier(StrictModel):
    """When the local tier counts as sure."""

    min_language_confidence: float = Field(ge=0, le=1)
    min_category_confidence: float = Field(ge=0, le=1)
    min_sentiment_confidence: float = Field(ge=0, le=1)
    category_temperature: float = Field(gt=0, description="Cosine × this is the logit of a category.")
    reason: str = Field(min_length=10)


class AnomalyModelLimits(StrictModel):
    """How the anomaly model is fitted."""

    reference_days: int = Field(ge=1, description="First days with vectors that form the reference window.")
    min_reference_vectors: int = Field(ge=20)
    vectors_per_cell: int = Field(ge=2, description="Number of cells = reference vectors / this.")
    max_cells: int = Field(ge=2)
    false_alarm_rate: float = Field(gt=0, lt=0.5, description="Share of reference-like records above the threshold.")
    reason: str = Field(min_length=10)


class EncoderFidelity(StrictModel):
    """How far a graph that is made of an encoder may be from the original to be served."""

    mean_cosine: float = Field(0.999, gt=0, le=1, description="Least mean cosine of both vectors of a text.")
    min_cosine: float = Field(0.995, gt=0, le=1, description="Least such cosine of any text.")
    alone_versus_batch: float = Field(
        1e-6, ge=0, allow_inf_nan=False, description="Greatest difference of a component, a text alone and in a batch."
    )
    reason: str = Field(min_length=10)


class PromotionLimits(StrictModel):
    """What `feedback models promote` compares a new version of a model by."""

    sample: int = Field(ge=1, description="Texts, or vectors, that both versions are given.")
    rounds: int = Field(ge=3, description="Times that each version is timed, in turn with the other.")
    neighbours: int = Field(ge=1, description="Nearest neighbours of a text that are compared.")
    failed_texts: Limit
    neighbours_changed: Limit
    mean_cosine_loss: Limit
    greatest_cosine_loss: Limit
    score_rank_loss: Limit
    fit_rank_loss: Limit
    share_anomalous: Limit
    latency_ratio: Limit
    memory_ratio: Limit


class Thresholds(StrictModel):
    """Everything in `config/thresholds.yaml`."""

    checks: CheckLimits
    local_tier: LocalTier
    anomaly_model: AnomalyModelLimits
    encoder_fidelity: EncoderFidelity
    promotion: PromotionLimits

    @field_validator("checks")
    @classmethod
    def _shares_are_shares(cls, value: CheckLimits) -> CheckLimits:
        for name, limit in value:
            if name.startswith("share_") and not 0 <= limit.limit <= 1:
                raise ValueError(f"{name}: limit {limit.limit} is no share; use a number from 0 to 1")
        return value
