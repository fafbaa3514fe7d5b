"""Promoting a version of a model, and going back: canary, switch and record, or nothing of it.

What a canary compares belongs to `platform_assets/canary.py`, moving a server to `resources/model_promotion.py`, and
which days hold what older models made to `platform_assets/stale_days.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import polars as pl

from platform_assets import promotions
from platform_assets.canary import (
    Compared,
    Memory,
    compare_detectors,
    compare_encoders,
    text_sample,
    vector_sample,
)
from platform_assets.current_model import DETECTOR, current_model, model_hash, model_of
from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.promotions import Action
from platform_assets.promotions import EMBEDDER, ENCODER, Promotion
from platform_assets.settings import Settings
from resources.model_promotion import beside, loaded_together, parts_of, served_parts, version_with
from resources.model_repository import ModelRepository
from resources.triton import TritonResource

_ORIGIN: Final = ("encoder_sha256", "tokenizer_sha256")
"""What the card of an embedder says about the encoder it was made from."""


@dataclass(frozen=True)
class Swap:
    """What came of a promotion or a rollback.

    Attributes:
        model: The ensemble of the encoder, or the detector.
        version: The version that was asked for.
        former: The version that served until then.
        sample: What was replayed; empty where nothing was.
        compared: What differs.
        refused: The figures that kept it from serving.
        switched: Whether the version serves now and did not before.
    """

    model: str
    version: int
    former: int | None
    sample: str = ""
    compared: Sequence[Compared] = ()
    refused: Sequence[Compared] = field(default=())
    switched: bool = False


@dataclass(frozen=True)
class ServedEncoder:
    """The encoder that a server runs: the number of its ensemble, and what its vectors are known by."""

    version: int
    embedder_version: str
    embedder_hash: str


def served_encoder(triton: TritonResource) -> ServedEncoder:
    """The encoder that serves; asks the server, and the repository for its hash."""
    parts = served_parts(triton, ENCODER)
    return _encoder(triton, version_with(ModelRepository(Path(triton.repository)), ENCODER, parts), parts[EMBEDDER])


def promote(
    settings: Settings,
    triton: TritonResource,
    model: str,
    version: int,
    *,
    server_memory: Callable[[], int],
    accept_differences: bool = False,
    dry_run: bool = False,
) -> Swap:
    """Has a version of a model serve, if a canary finds it within the limits of thresholds.yaml.

    Args:
        settings: The project.
        triton: The server.
        model: `feedback_encoder` or `anomaly_detector`.
        version: Its version.
        server_memory: Bytes that the server holds now; 0 where that cannot be seen.
        accept_differences: Whether it is meant to be another model: then only lost texts refuse it.
        dry_run: Whether to compare only.

    Raises:
        FeedbackError: There is no such fitted model, or it was fitted on another encoder.
        ConfigurationError: The version cannot be served beside the one that serves.
    """
    if model == ENCODER:
        return _promote_encoder(settings, triton, version, server_memory, accept_differences, dry_run)
    return _promote_detector(settings, triton, version, server_memory, accept_differences, dry_run)


def roll_back(settings: Settings, triton: TritonResource, model: str) -> Swap:
    """Has the version serve that served before the last promotion that still stands.

    Raises:
        FeedbackError: No promotion is recorded, or all were taken back.
        ConfigurationError: The former version cannot be served any more.
    """
    lake, repository = settings.lake(), ModelRepository(Path(triton.repository))
    version = promotions.before(lake, model)
    if version is None:
        raise FeedbackError(f"nothing was promoted over another version of {model}: there is nothing to go back to")
    if model == DETECTOR:
        cells = _fitted(lake_cells=model_of(lake, str(version)), version=version)
        with loaded_together(repository, triton, DETECTOR, [version]) as keep:
            former = _current_version(current_model(lake))
            _record_detector(settings, repository, cells, former, Action.ROLLED_BACK, ())
            keep()
        return Swap(model, version, former, switched=True)
    former = version_with(repository, ENCODER, served_parts(triton, ENCODER))
    if former != version:
        with beside(repository, triton, ENCODER, version) as switch:
            switch()
            _record_encoder(settings, triton, version, former, Action.ROLLED_BACK, ())
    else:
        _record_encoder(settings, triton, version, former, Action.ROLLED_BACK, ())
    return Swap(model, version, former, switched=former != version)


def _promote_encoder(
    settings: Settings,
    triton: TritonResource,
    version: int,
    server_memory: Callable[[], int],
    accept_differences: bool,
    dry_run: bool,
) -> Swap:
    lake, repository, limits = settings.lake(), ModelRepository(Path(triton.repository)), settings.thresholds.promotion
    served, wanted = served_parts(triton, ENCODER), parts_of(repository, ENCODER, version)
    former = version_with(repository, ENCODER, served)
    if served == wanted:
        # It may have been switched to by a process that died before it could note so.
        last = promotions.newest(lake, ENCODER)
        if last is not None and last.version != version and not dry_run:
            _record_encoder(settings, triton, version, last.version, Action.PROMOTED, ())
        return Swap(ENCODER, version, former)
    before = server_memory()
    with beside(repository, triton, ENCODER, version) as switch:
        sample = text_sample(settings, limits.sample)
        compared = compare_encoders(
            triton,
            served,
            wanted,
            sample.texts,
            limits,
            same_encoder=_same_encoder(repository, served[EMBEDDER], wanted[EMBEDDER]),
            memory=Memory(before, server_memory()),
            lake=lake,
            served_hash=_encoder(triton, former, served[EMBEDDER]).embedder_hash,
        )
        refused = [one for one in compared if one.refuses(accept_differences=accept_differences)]
        switches = not refused and not dry_run
        if switches:
            switch()
            _record_encoder(settings, triton, version, former, Action.PROMOTED, compared)
    return Swap(ENCODER, version, former, sample.origin, compared, refused, switched=switches)


def _promote_detector(
    settings: Settings,
    triton: TritonResource,
    version: int,
    server_memory: Callable[[], int],
    accept_differences: bool,
    dry_run: bool,
) -> Swap:
    lake, repository, limits = settings.lake(), ModelRepository(Path(triton.repository)), settings.thresholds.promotion
    new = _fitted(lake_cells=model_of(lake, str(version)), version=version)
    served = current_model(lake)
    former = _current_version(served)
    encoder = served_encoder(triton)
    fitted_on = (new["embedder_version"][0], new["embedder_hash"][0])
    if fitted_on != (encoder.embedder_version, encoder.embedder_hash):
        raise FeedbackError(
            f"{DETECTOR} version {version} was fitted on {EMBEDDER} {' '.join(fitted_on).strip()}, "
            f"{encoder.embedder_version} {encoder.embedder_hash} serves: promote that encoder first, or fit a new one "
            "with `feedback run --select anomaly_model`"
        )
    if served is None or former == version:
        return Swap(DETECTOR, version, former)
    before = server_memory()
    with loaded_together(repository, triton, DETECTOR, [former or 0, version]) as keep:
        vectors = vector_sample(lake, *fitted_on, limits.sample)
        compared = compare_detectors(triton, served, new, vectors, limits, Memory(before, server_memory()))
        refused = [one for one in compared if one.refuses(accept_differences=accept_differences)]
        switches = not refused and not dry_run
        if switches:
            _record_detector(settings, repository, new, former, Action.PROMOTED, compared)
            keep()
    origin = f"{len(vectors)} vectors of recent days"
    return Swap(DETECTOR, version, former, origin, compared, refused, switched=switches)


def _encoder(triton: TritonResource, version: int, embedder_version: int) -> ServedEncoder:
    file = triton.metadata(EMBEDDER, str(embedder_version)).file
    found = model_hash(Path(triton.repository), EMBEDDER, str(embedder_version), file)
    return ServedEncoder(version, str(embedder_version), found)


def _same_encoder(repository: ModelRepository, *versions: int) -> bool:
    """Whether versions of the embedder claim to come from the same encoder."""
    origins = [repository.card(EMBEDDER, version).details for version in versions]
    return all(
        _ORIGIN[0] in origin and [origin.get(name) for name in _ORIGIN] == [origins[0].get(name) for name in _ORIGIN]
        for origin in origins
    )


def _fitted(*, lake_cells: pl.DataFrame | None, version: int) -> pl.DataFrame:
    if lake_cells is None:
        raise FeedbackError(f"no {DETECTOR} version {version} was fitted: see `feedback models list`")
    return lake_cells


def _current_version(cells: pl.DataFrame | None) -> int | None:
    return int(cells["model_version"][0]) if cells is not None else None


def _record_encoder(
    settings: Settings,
    triton: TritonResource,
    version: int,
    former: int | None,
    action: Action,
    compared: Sequence[Compared],
) -> None:
    repository = ModelRepository(Path(triton.repository))
    encoder = _encoder(triton, version, parts_of(repository, ENCODER, version)[EMBEDDER])
    promotions.record(
        settings.lake(),
        Promotion(
            ENCODER,
            version,
            former,
            action,
            datetime.now(UTC),
            repository.card(ENCODER, version).source,
            encoder.embedder_hash,
            encoder.embedder_version,
            _figures(compared),
        ),
    )


def _record_detector(
    settings: Settings,
    repository: ModelRepository,
    cells: pl.DataFrame,
    former: int | None,
    action: Action,
    compared: Sequence[Compared],
) -> None:
    version = int(cells["model_version"][0])
    promotions.record(
        settings.lake(),
        Promotion(
            DETECTOR,
            version,
            former,
            action,
            datetime.now(UTC),
            repository.card(DETECTOR, version).source,
            cells["model_hash"][0],
            cells["embedder_version"][0],
            _figures(compared),
        ),
    )


def _figures(compared: Sequence[Compared]) -> dict[str, float | None]:
    return {one.name: one.measurement.value for one in compared}
