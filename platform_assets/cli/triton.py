"""`feedback triton`: the servers of the models, looked at without starting one, run by hand, or left in peace."""

from dataclasses import asdict, dataclass
from pathlib import Path

import click

from platform_assets.cli.console import (
    Command,
    Exit,
    Group,
    Json,
    format_option,
    print_json,
    print_table,
    say,
)
from platform_assets.cli.embedded_server import embedded_server
from platform_assets.cli.models import made_by
from platform_assets.cli.project import open_settings, repository_of
from platform_assets.settings import Settings
from resources.embedded_triton import EmbeddedServer
from resources.errors import ConfigurationError, ServerUnavailableError
from resources.triton import ModelStatus, TritonResource
from resources.triton_endpoints import addresses
from resources.triton_pause import Pause, PauseSwitch


@click.group(cls=Group)
def triton() -> None:
    """Serve, look at and stop the embedded Triton server; pause inference on any."""


@triton.command(cls=Command)
def serve() -> None:
    """Serve the models until Ctrl-C; what needs the server meanwhile uses this one."""
    settings = open_settings()
    _refuse_other(settings.triton())

    def ready(server: EmbeddedServer) -> None:
        say(f"Triton serves at {server.url} (gRPC), log: {server.log_file}; Ctrl-C ends it")

    embedded_server(settings.triton()).serve_foreground(ready)


@triton.command(cls=Command)
@format_option("table", "json")
def stop(*, form: str) -> None:
    """Stop the embedded server, whoever started it."""
    resource = open_settings().triton()
    _refuse_other(resource)
    stopped = embedded_server(resource).stop()
    if form == "json":
        print_json({"stopped": stopped})
    else:
        click.echo("stopped" if stopped else "no embedded server is running")


@triton.command(cls=Command)
@click.option("--reason", default="", help="Why, for whoever wonders.")
def pause(*, reason: str) -> None:
    """Stop all inference of this project: runs that need a model fail until `resume`."""
    found = _switch(open_settings().triton()).turn_off(reason)
    click.echo(f"inference is {found}; `feedback triton resume` lets it go on")


@triton.command(cls=Command)
def resume() -> None:
    """Let inference go on after `pause`."""
    found = _switch(open_settings().triton()).turn_on()
    click.echo(f"inference goes on; it was {found}" if found else "inference was not paused")


@dataclass(frozen=True)
class _Server:
    """An address, and what answers there."""

    url: str
    version: str | None
    problem: str | None


@dataclass(frozen=True)
class _Status:
    """The servers, at least one of which runs."""

    servers: list[_Server]
    embedded: EmbeddedServer | None
    models: list[dict[str, Json]]
    paused: Pause | None


@triton.command(cls=Command)
@format_option("table", "json")
def status(*, form: str) -> int:
    """Show the server and its models; never starts one. The exit code is 1 if none runs."""
    settings = open_settings()
    resource = settings.triton()
    paused = _switch(resource).paused()
    pause_fields: dict[str, Json] = {"paused": dict(asdict(paused)) if paused else None}
    embedded = None if resource.url else embedded_server(resource).status()
    url = resource.url or (embedded.url if embedded else "")
    if not url:
        if form == "json":
            print_json({"running": False, "server_version": None, "url": None, "models": [], **pause_fields})
        else:
            _tell_pause(paused)
            click.echo("no server is running: `feedback run` starts one, and so does `feedback triton serve`")
        return Exit.FAILED
    # With an address of its own, the resource asks that server and starts none.
    servers = [_asked(resource, one) for one in addresses(url)]
    running = [one.url for one in servers if one.version]
    if not running:
        problem = servers[0].problem or ""
        if form != "json":
            _tell_pause(paused)
            raise ServerUnavailableError(problem)
        fields: dict[str, Json] = {"running": False, "server_version": None, "url": url, "models": []}
        print_json({**fields, "problem": problem, **pause_fields})
        return Exit.FAILED
    served = resource.model_copy(update={"url": ",".join(running), "attempts": 1}).models()
    _tell(_Status(servers, embedded, _models(settings, served), paused), form)
    return Exit.FINE


def _asked(resource: TritonResource, url: str) -> _Server:
    try:
        version = resource.model_copy(update={"url": url, "attempts": 1}).server_version()
    except ServerUnavailableError as error:
        return _Server(url, None, str(error))
    return _Server(url, version, None)


def _switch(resource: TritonResource) -> PauseSwitch:
    return PauseSwitch(Path(resource.state))


def _tell_pause(paused: Pause | None) -> None:
    if paused:
        click.echo(f"inference is {paused}; `feedback triton resume` lets it go on")


def _models(settings: Settings, served: list[ModelStatus]) -> list[dict[str, Json]]:
    """What the server says of its models, and what the repository says of those that it cannot serve yet."""
    repository = repository_of(settings)
    unmade = {
        model for model in (repository.models() if repository.path.is_dir() else []) if not repository.versions(model)
    }
    rows: list[dict[str, Json]] = [
        {
            "name": model.name,
            "version": model.version or None,
            "state": model.state,
            "reason": model.reason,
            "inference_count": model.inference_count,
        }
        for model in served
        if model.name not in unmade
    ]
    rows += [
        {
            "name": model,
            "version": None,
            "state": "no version yet",
            "reason": f"run `{made_by(model)}`",
            "inference_count": 0,
        }
        for model in sorted(unmade)
    ]
    return rows


def _tell(found: _Status, form: str) -> None:
    server = found.embedded
    if form == "json":
        print_json(
            {
                "running": True,
                "server_version": next(one.version for one in found.servers if one.version),
                "url": ",".join(one.url for one in found.servers),
                "servers": [dict(asdict(one)) for one in found.servers],
                "embedded": server is not None,
                "pid": server.server_pid if server else None,
                "log": str(server.log_file) if server else None,
                "models": found.models,
                "paused": dict(asdict(found.paused)) if found.paused else None,
            }
        )
        return
    _tell_pause(found.paused)
    for one in found.servers:
        click.echo(f"Triton {one.version} at {one.url}" if one.version else str(one.problem))
    if server:
        click.echo(f"embedded: process {server.server_pid}, since {server.started_at}, log {server.log_file}")
    click.echo("")
    print_table(
        ["model", "version", "state", "rows inferred", "why"],
        [
            (
                str(model["name"]),
                str(model["version"] or "–"),
                str(model["state"]),
                int(str(model["inference_count"])),
                str(model["reason"]) or None,
            )
            for model in found.models
        ],
    )


def _refuse_other(resource: TritonResource) -> None:
    if resource.url:
        raise ConfigurationError(
            f"the models are served by {resource.url}, not by this machine's embedded server: "
            "to use that, unset TRITON_URL and `triton.url` in config/platform.yaml"
        )
