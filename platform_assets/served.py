"""What serves: as the configurations and the record of promotions say it, and as a server does.

Changing it belongs to `platform_assets/model_swap.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from platform_assets.current_model import DETECTOR, current_model
from platform_assets.promotions import EMBEDDER, ENCODER, TOKENIZER, before, newest
from platform_assets.settings import Settings
from resources.delta_lake import DeltaLakeResource
from resources.errors import ConfigurationError
from resources.model_promotion import served_parts, version_with
from resources.model_repository import ModelCard, ModelRepository
from resources.triton import ModelNotReadyError, TritonResource
from resources.version_pins import step_versions


@dataclass(frozen=True)
class Served:
    """One model.

    Attributes:
        model: Its name.
        version: The version that the server answers with; None where it has none ready.
        pinned: The version that it should answer with; None where nothing says so.
        loaded: The versions that the server has ready.
        since: When the version was promoted, or made where it serves from the start (UTC).
        former: What a rollback would go to.
        source: Where it comes from, by its card.
        sha256: Of its main file; empty where it is not at hand.
    """

    model: str
    version: int | None
    pinned: int | None
    loaded: tuple[int, ...]
    since: datetime | None
    former: int | None
    source: str
    sha256: str

    @property
    def breach(self) -> str:
        """One line where the server answers with another version than it should; else empty."""
        if self.pinned is None or self.version == self.pinned:
            return ""
        found = f"version {self.version}" if self.version else "none"
        return f"{self.model}: version {self.pinned} is to serve, the server has {found}"


def pinned_versions(settings: Settings, lake: DeltaLakeResource) -> dict[str, int]:
    """The version of each model that is to serve, asked of no server: by configuration, and the detector's by record.

    Models without a version are left out.
    """
    repository = ModelRepository(Path(settings.triton().repository))
    pinned: dict[str, int] = {}
    if repository.path.is_dir():
        models = repository.models()
        parts = step_versions(repository, ENCODER) if ENCODER in models else {}
        pinned |= {part: version for part, version in parts.items() if version}
        if pinned and (ensemble := _ensemble(repository, pinned)):
            pinned[ENCODER] = ensemble
    cells = current_model(lake)
    if cells is not None:
        pinned[DETECTOR] = int(cells["model_version"][0])
    return pinned


def served_models(settings: Settings, lake: DeltaLakeResource, triton: TritonResource) -> Iterator[Served]:
    """What the server answers with, beside what it should; asks the server.

    Raises:
        ServerUnavailableError: The server cannot be reached.
    """
    repository = ModelRepository(Path(triton.repository))
    pinned = pinned_versions(settings, lake)
    parts = served_parts(triton, ENCODER)
    answering = {ENCODER: _ensemble(repository, parts), **parts, DETECTOR: pinned.get(DETECTOR)}
    for model in (ENCODER, TOKENIZER, EMBEDDER, DETECTOR):
        loaded = _loaded(triton, model)
        version = answering.get(model)
        if model == DETECTOR and version not in loaded:
            version = None
        yield _described(lake, repository, model, version, pinned.get(model), loaded)


def _described(
    lake: DeltaLakeResource,
    repository: ModelRepository,
    model: str,
    version: int | None,
    pinned: int | None,
    loaded: tuple[int, ...],
) -> Served:
    card = _card(repository, model, version)
    # The parts of the encoder are promoted with it.
    is_part = model in (TOKENIZER, EMBEDDER)
    promoted = newest(lake, ENCODER if is_part else model)
    counts = promoted is not None and (is_part or promoted.version == version)
    return Served(
        model=model,
        version=version,
        pinned=pinned,
        loaded=loaded,
        since=promoted.promoted_at if promoted and counts else card.created_at if card else None,
        former=before(lake, model) if counts and not is_part else None,
        source=card.source if card else "",
        sha256=next(iter(card.files.values()), "") if card else "",
    )


def _ensemble(repository: ModelRepository, parts: dict[str, int]) -> int | None:
    try:
        return version_with(repository, ENCODER, parts)
    except ConfigurationError:
        return None


def _loaded(triton: TritonResource, model: str) -> tuple[int, ...]:
    try:
        return tuple(int(version) for version in triton.metadata(model).versions)
    except ModelNotReadyError:
        return ()


def _card(repository: ModelRepository, model: str, version: int | None) -> ModelCard | None:
    if version is None or not repository.path.is_dir() or version not in repository.versions(model):
        return None
    return repository.card(model, version)
