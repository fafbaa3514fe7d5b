"""Serving other versions of an ensemble's parts, without a request lost in between.

Both versions are loaded beside each other, and the ensemble's steps move from one to the other in one load, so that
whoever has taken the old version keeps it. Editing configurations belongs to `resources.version_pins`; whether the
new version is any good, and who wants it, is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from resources.errors import ConfigurationError, ResourceError
from resources.model_config import read_config
from resources.model_repository import ModelRepository
from resources.triton_endpoints import addresses
from resources.version_pins import (
    is_pinned,
    loaded_versions,
    pin_loaded,
    pin_steps,
    step_versions,
    unpinned,
)
from resources.whole_file import write_whole

if TYPE_CHECKING:
    from resources.triton import TritonResource


def parts_of(repository: ModelRepository, ensemble: str, version: int) -> dict[str, int]:
    """The version of each part that a version of an ensemble stands for, as its card says.

    Raises:
        ConfigurationError: There is no such version, or its card names no parts.
    """
    if version not in (versions := repository.versions(ensemble)):
        known = ", ".join(map(str, versions)) or "none"
        raise ConfigurationError(f"{ensemble} has no version {version} (it has {known}): build it, or name another")
    details = repository.card(ensemble, version).details
    try:
        return {part: int(details[f"{part}_version"]) for part in step_versions(repository, ensemble)}
    except KeyError as error:
        raise ConfigurationError(
            f"the card of {ensemble} version {version} names no {error.args[0]}: remove the version and build it again"
        ) from error


def version_with(repository: ModelRepository, ensemble: str, parts: Mapping[str, int]) -> int:
    """The newest version of an ensemble that stands for these versions of its parts, or of some of them.

    Raises:
        ConfigurationError: There is none.
    """
    for version in reversed(repository.versions(ensemble)):
        if parts.items() <= parts_of(repository, ensemble, version).items():
            return version
    raise ConfigurationError(f"no version of {ensemble} is made of {_named(parts)}: build it, or name another")


def served_parts(triton: TritonResource, ensemble: str) -> dict[str, int]:
    """The version of each part that a server's ensemble runs now; asks the server."""
    steps = triton.metadata(ensemble).steps
    return {part: int(version or triton.metadata(part).version) for part, version in steps.items()}


@contextmanager
def beside(
    repository: ModelRepository, triton: TritonResource, ensemble: str, version: int
) -> Iterator[Callable[[], None]]:
    """Loads the parts of an ensemble's version beside those that are served; gives what switches to them.

    Until the switch the served ones answer every request that names no version. Left without a switch, or by an
    error, configurations and server are as they were. After the switch both stay loaded: the former for who has
    taken it.

    Args:
        repository: The repository that the server serves from.
        triton: The server.
        ensemble: The ensemble.
        version: The version to load, and to switch to.

    Raises:
        ConfigurationError: There is no such version, it cannot be served beside the other, or the server does not
            serve from this repository.
    """
    served, wanted = served_parts(triton, ensemble), parts_of(repository, ensemble, version)
    if why := _unservable(repository, wanted, beside=served):
        raise ConfigurationError(f"{ensemble} version {version} cannot be served beside {_named(served)}: {why}")
    if step_versions(repository, ensemble) != served:
        # The server has not looked at the folder since: what it serves counts, also if this comes to nothing.
        _write(_held(repository, ensemble, served))
    with _change(repository, triton, [ensemble, *wanted]) as change:
        # Steps that ask for the newest would move to the new version as soon as it is loaded.
        _write(_pinned(repository, ensemble, served))
        _load(triton, [ensemble])
        _refuse_other_steps(repository, triton, ensemble, served)
        for part, former in served.items():
            _write(pin_loaded(repository, part, [former, wanted[part]]))
        _load(triton, list(wanted))
        _refuse_absent(repository, triton, wanted)

        def switch() -> None:
            _write(pin_steps(repository, ensemble, wanted, version))
            _load(triton, [ensemble])
            _refuse_other_steps(repository, triton, ensemble, wanted)
            change.kept = True

        yield switch


@contextmanager
def loaded_together(
    repository: ModelRepository, triton: TritonResource, model: str, versions: Sequence[int]
) -> Iterator[Callable[[], None]]:
    """Has a server load these versions of a model, which no ensemble runs; gives what keeps them loaded.

    Its configuration changes only where it would load others. Left without keeping them, or by an error,
    configuration and server are as they were.

    Raises:
        ConfigurationError: A version is missing, or the server does not serve from this repository.
    """
    if missing := sorted(set(versions) - set(repository.versions(model))):
        raise ConfigurationError(
            f"{model} version {missing[0]} is not in {repository.path}: name another, or restore it"
        )
    with _change(repository, triton, [model]) as change:
        if not set(versions) <= set(loaded_versions(repository, model)):
            _write(pin_loaded(repository, model, versions))
        _load(triton, [model])
        for version in versions:
            _refuse_absent(repository, triton, {model: version})

        def keep() -> None:
            change.kept = True

        yield keep


def hold_served(repository: ModelRepository, ensemble: str, before: Sequence[int], built: int) -> str:
    """Keeps a build from switching what is served: called at the end of one.

    The first version is served as it comes. A newer one waits to be promoted, unless the one before it cannot be
    served any more, because its files are gone or are not what the configurations ask for.

    Args:
        repository: The repository that was built into.
        ensemble: The ensemble that was built.
        before: The ensemble's versions before the build.
        built: Its version now.

    Returns:
        One line that says what is served, where that is not simply the newest; else nothing.

    Raises:
        ConfigurationError: A configuration cannot be read or written.
    """
    newest = parts_of(repository, ensemble, built)
    if is_pinned(repository, ensemble):
        served = step_versions(repository, ensemble)
    elif before and built not in before:
        served = parts_of(repository, ensemble, max(before))
    else:
        return ""
    if served == newest:
        return ""
    if why := _unservable(repository, served, beside=newest):
        _write(unpinned(repository, ensemble))
        return f"{ensemble} version {built} is served from now on: {_named(served)} cannot be any more, because {why}"
    if not is_pinned(repository, ensemble):
        _write(_held(repository, ensemble, served))
    return (
        f"{ensemble} version {built} is built and not served; {_named(served)} still serve: "
        f"`feedback models promote {ensemble} {built}`"
    )


class _Change:
    """Whether changed configurations stay."""

    kept = False


@contextmanager
def _change(repository: ModelRepository, triton: TritonResource, models: Sequence[str]) -> Iterator[_Change]:
    """Puts the configurations of some models back, and has them loaded again, unless they are kept."""
    before = {path: path.read_text(encoding="utf-8") for model in models for path in repository.configs(model)}
    change = _Change()
    try:
        yield change
    except BaseException:
        _write(before)
        # What went wrong is the error to tell; a server that is away reads the configurations when it comes back.
        with suppress(ResourceError):
            _load(triton, models)
        raise
    if not change.kept:
        _write(before)
        _load(triton, models)


def _unservable(repository: ModelRepository, parts: Mapping[str, int], *, beside: Mapping[str, int]) -> str:
    """Why the configurations, which fit the versions in `beside`, do not fit these; empty if they do."""
    for part, version in parts.items():
        if version not in repository.versions(part):
            return f"{part} version {version} is not in {repository.path}"
        card, file = repository.card(part, version), read_config(repository.configs(part)[0]).file
        if file and file not in card.files:
            return f"{part} version {version} has no {file}, which its configuration asks for"
        if beside[part] in repository.versions(part) and card.dims != (
            other := repository.card(part, beside[part]).dims
        ):
            return f"{part} version {version} gives vectors of {card.dims} numbers, version {beside[part]} of {other}"
    return ""


def _held(repository: ModelRepository, ensemble: str, served: Mapping[str, int]) -> dict[Path, str]:
    """The configurations with what is served named by number."""
    texts = _pinned(repository, ensemble, served)
    for part, version in served.items():
        if version not in loaded_versions(repository, part):
            texts |= pin_loaded(repository, part, [version])
    return texts


def _pinned(repository: ModelRepository, ensemble: str, parts: Mapping[str, int]) -> dict[Path, str]:
    """The ensemble's configurations at these parts, under the number that stands for them where one does."""
    own = None
    with suppress(ConfigurationError):
        own = version_with(repository, ensemble, parts)
    return pin_steps(repository, ensemble, parts, own)


def _write(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        if path.read_text(encoding="utf-8") != text:
            write_whole(path, text)


def _each(triton: TritonResource) -> list[TritonResource]:
    """The servers behind a resource one by one: a request goes to any of them, a change must go to all."""
    if not triton.url:
        return [triton]
    return [triton.model_copy(update={"url": url}) for url in addresses(triton.url)]


def _load(triton: TritonResource, models: Sequence[str]) -> None:
    for model in models:
        for server in _each(triton):
            try:
                server.load_model(model)
            except ResourceError as error:
                if "not allowed" in str(error):
                    raise ConfigurationError(
                        f"{server.url} takes no change of models: start it with --model-control-mode=explicit ({error})"
                    ) from error
                raise


def _refuse_other_steps(
    repository: ModelRepository, triton: TritonResource, ensemble: str, parts: Mapping[str, int]
) -> None:
    """Makes sure that the servers have read what was written here."""
    for server in _each(triton):
        if served_parts(server, ensemble) != parts:
            raise _elsewhere(repository, server)


def _refuse_absent(repository: ModelRepository, triton: TritonResource, versions: Mapping[str, int]) -> None:
    for server in _each(triton):
        for model, version in versions.items():
            if str(version) not in server.metadata(model).versions:
                raise _elsewhere(repository, server)


def _elsewhere(repository: ModelRepository, triton: TritonResource) -> ConfigurationError:
    return ConfigurationError(
        f"the server at {triton.url or 'this machine'} does not serve from {repository.path}: "
        "promote where its repository lies, or name that as triton.repository in config/platform.yaml"
    )


def _named(parts: Mapping[str, int]) -> str:
    return " and ".join(f"{part} {version}" for part, version in parts.items())
