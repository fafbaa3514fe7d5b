"""`feedback doctor`: what is configured, reachable and ready, and what to do about the rest.

It looks only: nothing is started, and what it makes to see whether it can, it removes.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

import click

from platform_assets.cli.console import Command, Exit, format_option, print_json, print_table
from platform_assets.cli.embedded_server import embedded_server
from platform_assets.cli.models import made_by
from platform_assets.cli.project import open_settings, repository_of
from platform_assets.pulls import missing_variables, pulled_sources
from platform_assets.settings import TRITON_URL_VARIABLE, Settings
from resources.errors import ConfigurationError, ResourceError
from resources.repository_validation import validate_repository
from resources.server_environment import ServerEnvironment
from resources.triton_pause import PauseSwitch

_OLDEST: Final = (3, 11)
_PATIENCE_S: Final = 5.0


class Finding(NamedTuple):
    """One line of the report."""

    what: str
    state: Literal["ok", "warn", "fail"]
    detail: str
    """What was found, and what to do where it is not ok."""


@click.command(cls=Command)
@format_option("table", "json")
def doctor(*, form: str) -> int:
    """Look over the project and its surroundings; the exit code is 1 if something fails."""
    findings = list(_findings())
    if form == "json":
        print_json([finding._asdict() for finding in findings])
    else:
        print_table(["", "what", "found"], [(state, what, detail) for what, state, detail in findings])
    return Exit.FAILED if any(finding.state == "fail" for finding in findings) else Exit.FINE


def _findings() -> Iterator[Finding]:
    yield _python()
    try:
        settings = open_settings()
    except ConfigurationError as error:
        yield Finding("project", "fail", str(error))
        return
    yield Finding("project", "ok", str(settings.project))
    configuration = list(_configuration(settings))
    yield from configuration
    if configuration[0].state == "fail":
        return  # platform.yaml says where everything else is
    yield _writable("landing zone", settings.path(settings.platform.landing))
    yield _writable("tables", settings.path(settings.platform.lake))
    yield from _pulls(settings)
    yield from _models(settings)
    yield from _triton(settings)
    yield _dagster(settings)
    yield Finding("LLM", "warn", "no endpoint is configured: records that the local tier is unsure of stay `deferred`")


def _python() -> Finding:
    found = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] >= _OLDEST:
        return Finding("Python", "ok", found)
    return Finding("Python", "fail", f"{found}: install 3.11 or newer, then `make setup`")


def _configuration(settings: Settings) -> Iterator[Finding]:
    for name in ("platform", "sources", "taxonomy", "thresholds"):
        try:
            getattr(settings, name)
            yield Finding(f"config/{name}.yaml", "ok", "valid")
        except ResourceError as error:
            yield Finding(f"config/{name}.yaml", "fail", str(error))


def _writable(what: str, place: str) -> Finding:
    if "://" in place:
        return Finding(what, "ok", f"{place}, not tried here")
    nearest = Path(place)
    while not nearest.exists():
        nearest = nearest.parent
    try:
        # Tried, not asked: for root, and on file systems such as /proc, the permission bits say nothing.
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=nearest):
            return Finding(what, "ok", place)
    except OSError as error:
        return Finding(what, "fail", f"{nearest} cannot be written ({error.strerror}): change config/platform.yaml")


def _pulls(settings: Settings) -> Iterator[Finding]:
    try:
        sources = pulled_sources(settings)
    except ConfigurationError:
        return  # said already
    for name, source in sources.items():
        kind = source.pull.kind if source.pull else ""
        if missing := missing_variables(source):
            detail = f"pulled ({kind}), but not set in the environment: {', '.join(missing)}"
            yield Finding(f"source {name}", "fail", detail)
        else:
            yield Finding(f"source {name}", "ok", f"pulled ({kind}), what it needs is set; not tried here")


def _models(settings: Settings) -> Iterator[Finding]:
    repository = repository_of(settings)
    try:
        problems = validate_repository(repository)
        versions = {model: repository.versions(model) for model in repository.models()}
    except ConfigurationError as error:
        yield Finding("models", "fail", str(error))
        return
    for model, numbers in versions.items():
        about = [problem for problem in problems if model in problem]
        if about:
            yield Finding(f"model {model}", "fail", f"{about[0]} (`{made_by(model)}`)")
        elif numbers:
            yield Finding(f"model {model}", "ok", f"version {numbers[-1]}")
        else:
            yield Finding(f"model {model}", "warn", f"no version yet: `{made_by(model)}`")


def _triton(settings: Settings) -> Iterator[Finding]:
    resource = settings.triton()
    if hint := settings.foreign_tuning():
        yield Finding("pace", "warn", hint)
    if paused := PauseSwitch(Path(resource.state)).paused():
        yield Finding("inference", "warn", f"{paused}: `feedback triton resume` lets it go on")
    if resource.url:
        named_by = TRITON_URL_VARIABLE if os.environ.get(TRITON_URL_VARIABLE) else "config/platform.yaml"
        try:
            version = resource.model_copy(update={"timeout_s": _PATIENCE_S, "attempts": 1}).server_version()
            yield Finding("Triton", "ok", f"{version} at {resource.url} ({named_by})")
        except ResourceError as error:
            yield Finding("Triton", "fail", f"{error} ({named_by})")
        return
    try:
        ServerEnvironment.find(Path(resource.environment))
        yield Finding("Triton environment", "ok", resource.environment)
    except ConfigurationError as error:
        yield Finding("Triton environment", "fail", str(error))
    server = embedded_server(resource).status()
    if server:
        yield Finding("Triton", "ok", f"embedded, at {server.url} since {server.started_at}")
    else:
        yield Finding("Triton", "ok", f"embedded, starts when it is needed ({TRITON_URL_VARIABLE} is not set)")


def _dagster(settings: Settings) -> Finding:
    home = os.environ.get("DAGSTER_HOME")
    place = Path(home) if home else settings.project
    if not place.is_absolute():
        return Finding("Dagster", "fail", f"DAGSTER_HOME={home} is no absolute path: correct it, or unset it")
    if not (place / "dagster.yaml").is_file():
        return Finding("Dagster", "fail", f"{place} holds no dagster.yaml: restore it, or correct DAGSTER_HOME")
    return Finding("Dagster", "ok", f"{place}/dagster.yaml" + ("" if home else " (DAGSTER_HOME is not set)"))
