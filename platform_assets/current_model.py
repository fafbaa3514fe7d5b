"""Which models count: the anomaly model that scores are made with and checked against, and what a model file is."""

from pathlib import Path
from typing import Final

import polars as pl

from platform_assets.promotions import DETECTOR, newest
from resources.delta_lake import DeltaLakeResource
from resources.model_repository import ModelRepository

__all__ = ["DETECTOR", "current_model", "is_fitted", "model_hash", "model_of"]

_GRAPH: Final = "model.onnx"
_HASH_DIGITS: Final = 16


def current_model(lake: DeltaLakeResource) -> pl.DataFrame | None:
    """The rows of the model that scores, by cell, or None before the first fit.

    That is the one that was fitted, promoted or gone back to last; in a lake without a record of that, the newest.
    """
    if not lake.exists("anomaly_model"):
        return None
    cells = lake.scan("anomaly_model").collect()
    version: pl.Expr | int = pl.col("model_version").max()
    if (promoted := newest(lake, DETECTOR)) and promoted.version in cells["model_version"]:
        version = promoted.version
    return cells.filter(pl.col("model_version") == version).sort("cell")


def model_of(lake: DeltaLakeResource, version: str) -> pl.DataFrame | None:
    """The rows of one fitted model, by cell, or None if there is no such version."""
    if not lake.exists("anomaly_model"):
        return None
    cells = lake.scan("anomaly_model").filter(pl.col("model_version") == int(version)).collect()
    return cells.sort("cell") if cells.height else None


def is_fitted(lake: DeltaLakeResource, repository: Path) -> bool:
    """Whether there is a model to score with: recorded in the table, its file in the repository.

    Where the repository is not at hand, as for a server elsewhere, the table has to do.
    """
    cells = current_model(lake)
    if cells is None:
        return False
    return not repository.is_dir() or int(cells["model_version"][0]) in ModelRepository(repository).versions(DETECTOR)


def model_hash(repository: Path, model: str, version: str, file: str = "") -> str:
    """The first 16 hex digits of the SHA-256 of a version's graph, by its card; `file` is the graph that is served.

    Empty where the version is not at hand, as for a server elsewhere: its number has to do.

    Raises:
        ConfigurationError: the version is here, but its card cannot be read.
    """
    models = ModelRepository(repository)
    if not models.version_path(model, int(version)).is_dir():
        return ""
    return models.card(model, int(version)).files.get(file or _GRAPH, "")[:_HASH_DIGITS]
