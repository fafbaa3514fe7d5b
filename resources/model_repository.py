"""The folder a model server serves from: which models and versions it holds, and how a version gets into it.

A version is written once and never changed; beside its files lies `model.json`, its card. What is inside a
model's files, and whether it fits its configuration, is not known here.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from resources.errors import ConfigurationError

CARD_NAME = "model.json"
CONFIG_NAME = "config.pbtxt"

_VERSION = re.compile(r"[1-9][0-9]*")  # the server ignores every other folder name
_STAGING = ".staging-"
# What a card says about its origin and its measuring, not about the model.
_NOT_SERVED = {"version", "source", "created_at", "variants"}


def _as_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


class Variant(BaseModel):
    """One of the graphs that were made for a version, measured against the original."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="What kind of graph it is.")
    bytes: int = Field(ge=0, description="Its size.")
    texts: int = Field(ge=0, description="How many texts it was compared on.")
    mean_cosine: float = Field(description="Cosine of both vectors of a text, mean over the texts.")
    min_cosine: float = Field(description="The least such cosine.")
    alone_versus_batch: float = Field(description="Greatest difference of a component, a text alone and beside others.")
    short_texts_per_s: float = Field(description="Texts of 16 tokens per second, one thread.")
    long_texts_per_s: float = Field(description="Texts of 128 tokens per second, one thread.")
    served: bool = Field(default=False, description="Whether a CPU serves this one.")


class ModelCard(BaseModel):
    """What is known about one version of a model; fields it does not name are refused.

    `model`, `version` and `files` are filled in when the version is added.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(default="", description="The model's name; empty until the version is added.")
    version: int = Field(default=0, ge=0, description="The version's number; 0 until it is added.")
    source: str = Field(description="Where the model comes from, as its builder names it.")
    files: dict[str, str] = Field(default_factory=dict, description="SHA-256 (hex) of each file by name.")
    dims: int | None = Field(default=None, ge=1, description="Components of a vector, if the model has vectors.")
    token_limit: int | None = Field(default=None, ge=1, description="Tokens of the longest text it reads.")
    created_at: Annotated[AwareDatetime, AfterValidator(_as_utc)] = Field(description="When it was built (UTC).")
    details: dict[str, str | int | float] = Field(
        default_factory=dict, description="Further facts that the builder of the model wants to keep."
    )
    variants: tuple[Variant, ...] = Field(default=(), description="The graphs it was chosen from, as measured.")

    def served(self) -> str:
        """The part that decides what is served, as canonical JSON: equal for equal models."""
        return json.dumps(self.model_dump(mode="json", exclude=_NOT_SERVED), sort_keys=True)


class ModelRepository:
    """A folder with one folder a model: `<model>/config.pbtxt` and `<model>/<version>/`."""

    def __init__(self, path: Path) -> None:
        """Names the folder; nothing is read until a method is called."""
        self.path = path

    def models(self) -> list[str]:
        """The folders that hold a config.pbtxt, by name.

        Raises:
            ConfigurationError: The repository is not a folder.
        """
        if not self.path.is_dir():
            raise ConfigurationError(f"{self.path} is not a folder: name the folder of the model repository")
        return sorted(config.parent.name for config in self.path.glob(f"*/{CONFIG_NAME}"))

    def configs(self, model: str) -> list[Path]:
        """The configuration of a model and its alternatives `configs/*.pbtxt`, the default first."""
        folder = self._folder(model)
        return [folder / CONFIG_NAME, *sorted(folder.glob("configs/*.pbtxt"))]

    def versions(self, model: str) -> list[int]:
        """The complete versions, ascending: those with a card and every file it lists."""
        return [number for number in self.version_folders(model) if self._complete(model, number)]

    def version_folders(self, model: str) -> list[int]:
        """Every folder that a server takes for a version, complete or not, ascending."""
        folder = self._folder(model)
        return sorted(
            int(entry.name) for entry in folder.iterdir() if entry.is_dir() and _VERSION.fullmatch(entry.name)
        )

    def version_path(self, model: str, version: int) -> Path:
        """The folder of a version, whether it exists or not."""
        return self.path / model / str(version)

    def card(self, model: str, version: int) -> ModelCard:
        """The card of a version.

        Raises:
            ConfigurationError: There is no such version, or its card cannot be read.
        """
        path = self.version_path(model, version) / CARD_NAME
        try:
            return ModelCard.model_validate_json(path.read_bytes())
        except FileNotFoundError as error:
            raise ConfigurationError(f"{path} is missing: {model} has no version {version}; build it") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ConfigurationError(
                f"{path}: {where}: {first['msg']}; remove the version and build it again"
            ) from error

    def add_version(self, model: str, files: Mapping[str, bytes | Path], card: ModelCard, *, above: int = 0) -> int:
        """Adds a version, whole or not at all: a server never sees a part of it.

        Content that is already the newest version is not written again, by however many processes at once.

        Args:
            model: A model that has a configuration.
            files: The content of each file, or the file to copy, by plain file name.
            card: What is known; its model, version and files are set here.
            above: A new version's number is greater than this: one that was given away before and then lost
                must not come to mean something else.

        Returns:
            The version's number: that of the newest version if it serves the same, else one more than any.

        Raises:
            ConfigurationError: There is no such model, a file name is not a plain name, or the repository
                cannot be written.
        """
        import filelock

        folder = self._folder(model)
        for name in files:
            if not name or name != Path(name).name or name == CARD_NAME:
                raise ConfigurationError(f"{name!r} cannot be a file of a version: give a plain file name")
        hashes = {name: sha256(content) for name, content in sorted(files.items())}
        card = card.model_copy(update={"model": model, "files": hashes})

        try:
            with filelock.FileLock(self.path / f".{model}.lock"):
                existing = self.versions(model)
                if existing and existing[-1] >= above and self.card(model, existing[-1]).served() == card.served():
                    return existing[-1]
                return self._write_version(folder, files, card, above)
        except OSError as error:
            raise ConfigurationError(
                f"{folder} cannot be written ({error.strerror}): allow writing there, or free some space"
            ) from error

    def _write_version(self, folder: Path, files: Mapping[str, bytes | Path], card: ModelCard, above: int) -> int:
        with tempfile.TemporaryDirectory(prefix=_STAGING, dir=folder, ignore_cleanup_errors=True) as name:
            # A folder inside it, because the temporary one is removed at the end in any case.
            staging = Path(name) / "version"
            staging.mkdir()
            for file, content in files.items():
                _write(staging / file, content)
            return self._publish(staging, folder, card, above)

    def remove_version(self, model: str, version: int) -> None:
        """Removes a version at once; a version that does not exist is left alone."""
        with (
            tempfile.TemporaryDirectory(prefix=_STAGING, dir=self._folder(model)) as leaving,
            contextlib.suppress(FileNotFoundError),
        ):
            self.version_path(model, version).rename(Path(leaving) / "version")

    def fingerprint(self) -> str:
        """A hash (hex) of configurations, versions and cards; it changes when what is served would change."""
        digest = hashlib.sha256()
        for model in self.models():
            for path in self.configs(model):
                digest.update(f"{path.relative_to(self.path).as_posix()} {sha256(path)}\n".encode())
            for version in self.version_folders(model):
                digest.update(f"{model} {version} {self._content(model, version)}\n".encode())
        return digest.hexdigest()

    def _folder(self, model: str) -> Path:
        folder = self.path / model
        if model != Path(model).name or not (folder / CONFIG_NAME).is_file():
            raise ConfigurationError(f"{self.path} has no model {model!r} (it has {self.models()})")
        return folder

    def _content(self, model: str, version: int) -> str:
        """What stands for a version's content: its card, or the state of files put there by hand."""
        if self._complete(model, version):
            return self.card(model, version).served()
        folder = self.version_path(model, version)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        states = [(path.relative_to(folder).as_posix(), path.stat()) for path in files]
        return " ".join(f"{name} {state.st_size} {state.st_mtime_ns}" for name, state in states)

    def _complete(self, model: str, version: int) -> bool:
        folder = self.version_path(model, version)
        if not (folder / CARD_NAME).is_file():
            return False
        try:
            card = self.card(model, version)
        except ConfigurationError:
            return False
        return all((folder / name).is_file() for name in card.files)

    def _publish(self, staging: Path, folder: Path, card: ModelCard, above: int) -> int:
        """Gives the staged folder the next free number; a hand that copies one in may take it first."""
        while True:
            version = max([*self.version_folders(folder.name), above]) + 1
            text = card.model_copy(update={"version": version}).model_dump_json(indent=2) + "\n"
            _write(staging / CARD_NAME, text.encode())
            _sync(staging)
            try:
                staging.rename(folder / str(version))
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                continue
            _sync(folder)
            return version


def sha256(content: bytes | Path) -> str:
    """The SHA-256 (hex) of some bytes or of a file."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, content: bytes | Path) -> None:
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        shutil.copyfile(content, path)
    _sync(path)


def _sync(path: Path) -> None:
    """Makes a file or the entries of a folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
