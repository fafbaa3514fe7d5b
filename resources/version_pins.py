"""Which versions a repository's configurations name: read, and written without touching anything else in them.

The steps of an ensemble say which version of each part it runs, the version policy of a model which versions are
loaded. Asking a server, and deciding what to name, belongs to `resources.model_promotion`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from resources.errors import ConfigurationError
from resources.model_config import parse_config, read_config
from resources.model_repository import CONFIG_NAME, ModelRepository

_POLICY: Final = re.compile(r"^version_policy\s*:?\s*\{(?:[^{}]|\{[^{}]*\})*\}", re.MULTILINE)
_STEP_VERSION: Final = re.compile(r"^(\s*model_version:\s*)-?\d+", re.MULTILINE)
_NEWEST: Final = "version_policy { latest { num_versions: 1 } }"


def step_versions(repository: ModelRepository, ensemble: str) -> dict[str, int]:
    """The version of each part that an ensemble runs as it is configured; 0 where there is none.

    A step that asks for the newest gets the newest of those that its part's policy loads.

    Raises:
        ConfigurationError: There is no such ensemble, or a configuration cannot be read.
    """
    config = read_config(repository.configs(ensemble)[0])
    if not config.steps:
        raise ConfigurationError(f"{repository.path / ensemble / CONFIG_NAME} has no steps: name an ensemble")
    return {
        step.model: step.version if step.version > 0 else max(loaded_versions(repository, step.model), default=0)
        for step in config.steps
    }


def loaded_versions(repository: ModelRepository, model: str) -> list[int]:
    """The versions of a model that a server loads as it is configured, ascending."""
    config = read_config(repository.configs(model)[0])
    return config.versions.served(repository.version_folders(model))


def is_pinned(repository: ModelRepository, ensemble: str) -> bool:
    """Whether a step of an ensemble names its part's version by number."""
    return any(step.version > 0 for step in read_config(repository.configs(ensemble)[0]).steps)


def pin_steps(
    repository: ModelRepository, ensemble: str, parts: Mapping[str, int], own: int | None = None
) -> dict[Path, str]:
    """The texts of an ensemble's configurations, with its steps at these versions.

    Args:
        repository: Where they lie.
        ensemble: The ensemble.
        parts: The version of each part.
        own: The version of the ensemble that stands for them, to be loaded under that number; None leaves it.

    Raises:
        ConfigurationError: A step has no `model_version` to write to.
    """

    def edit(text: str, path: Path) -> str:
        text = _with_steps(text, parts, path)
        return text if own is None else _with_policy(text, _policy([own]))

    return _edited(repository, ensemble, edit)


def pin_loaded(repository: ModelRepository, model: str, versions: Sequence[int]) -> dict[Path, str]:
    """The texts of a model's configurations, with a policy that loads these versions."""
    return _edited(repository, model, lambda text, _path: _with_policy(text, _policy(versions)))


def unpinned(repository: ModelRepository, ensemble: str) -> dict[Path, str]:
    """The texts of an ensemble's and its parts' configurations, with the newest version of each."""
    parts = [step.model for step in read_config(repository.configs(ensemble)[0]).steps]
    texts = pin_steps(repository, ensemble, dict.fromkeys(parts, -1))
    texts = {path: _with_policy(text, _NEWEST) for path, text in texts.items()}
    for part in parts:
        texts |= _edited(repository, part, lambda text, _path: _with_policy(text, _NEWEST))
    return texts


def without_pins(text: str) -> str:
    """A configuration without the versions it names: equal for two that a running server can change between."""
    text = _STEP_VERSION.sub(r"\g<1>-1", _POLICY.sub("", text))
    return "\n".join(line for line in text.splitlines() if line.strip())


def _edited(repository: ModelRepository, model: str, edit: Callable[[str, Path], str]) -> dict[Path, str]:
    return {path: edit(path.read_text(encoding="utf-8"), path) for path in repository.configs(model)}


def _with_steps(text: str, parts: Mapping[str, int], path: Path) -> str:
    for part, version in parts.items():
        # Up to the step's first map: a step names its model and its version before what it maps.
        step = re.compile(rf'(model_name:\s*"{re.escape(part)}"[^{{}}]*?model_version:\s*)-?\d+')
        text = step.sub(rf"\g<1>{version}", text)
    found = {step.model: step.version for step in parse_config(text, path).steps}
    if lacking := [part for part, version in parts.items() if found.get(part) != version]:
        raise ConfigurationError(
            f'{path}: write the step of {lacking[0]} as `model_name: "{lacking[0]}" model_version: -1`, then its maps'
        )
    return text


def _policy(versions: Sequence[int]) -> str:
    numbers = ", ".join(str(version) for version in sorted(set(versions)))
    return f"version_policy {{ specific {{ versions: [ {numbers} ] }} }}"


def _with_policy(text: str, policy: str) -> str:
    if _POLICY.search(text):
        return _POLICY.sub(policy, text, count=1)
    return f"{text.rstrip()}\n{policy}\n"
