"""Folders and files that lie where a server does not look for them.

What is inside a version belongs to `versions`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from resources.model_repository import CONFIG_NAME, ModelRepository

_VERSION = re.compile(r"[1-9][0-9]*")
_MEANT_AS_VERSION = re.compile(r"(v|version[-_. ]?)?[0-9][0-9._-]*", re.IGNORECASE)
_WEIGHTS = {".onnx", ".plan", ".pt", ".savedmodel", ".graphdef"}


def stray_folders(repository: ModelRepository) -> Iterator[str]:
    """Folders that look like a model and have no configuration."""
    for folder in sorted(repository.path.iterdir()):
        if folder.is_dir() and not folder.name.startswith(".") and not (folder / CONFIG_NAME).is_file():
            entries = list(folder.iterdir())
            if any(_is_model_part(entry) for entry in entries):
                yield f"{folder} has no {CONFIG_NAME}: write one, or remove the folder"


def layout_problems(repository: ModelRepository, model: str) -> Iterator[str]:
    """Weights outside a version folder, and folders that are meant as a version and are not taken for one."""
    for entry in sorted((repository.path / model).iterdir()):
        if entry.suffix in _WEIGHTS:
            yield f"{entry} lies outside a version: move it into {entry.parent / '1'}"
        elif entry.is_dir() and _MEANT_AS_VERSION.fullmatch(entry.name) and not _VERSION.fullmatch(entry.name):
            yield f"{entry} is no version: name the folder by a whole number from 1, without a leading zero"


def _is_model_part(entry: Path) -> bool:
    if entry.is_dir():
        return entry.name == "configs" or _MEANT_AS_VERSION.fullmatch(entry.name) is not None
    return entry.suffix in _WEIGHTS or entry.suffix == ".pbtxt"
