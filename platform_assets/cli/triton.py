"""`feedback triton`: the server that serves the models, looked at without starting it, or run by hand."""

from dataclasses import dataclass

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
from platform_assets.cli.models import made_by, repository_of
from platform_assets.cli.project import open_settings
from platform_assets.settings import Settings
from resources.embedded_triton import EmbeddedServer
from resources.errors import ConfigurationError, ServerUnavailableError
from resources.triton import ModelStatus, TritonResource


@click.group(cls=Group)
def triton() -> None:
    """Serve, look at and stop the embedded Triton server."""


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


@dataclass(frozen=True)
class _Status:
    """A server that runs."""

    url: str
    server_version: str
    embedded: EmbeddedServer | None
    models: list[dict[str, Json]]


@triton.command(cls=Command)
@format_option("table", "json")
def status(*, form: str) -> int:
    """Show the server and its models; never starts one. The exit code is 1 if none runs."""
    settings = open_settings()
    resource = settings.triton()
    embedded = None if resource.url else embedded_server(resource).status()
    url = resource.url or (embedded.url if embedded else "")
    if not url:
        if form == "json":
            print_json({"running": False, "server_version": None, "url": None, "models": []})
        else:
            click.echo("no server is running: `feedback run` starts one, and so does `feedback triton serve`")
        return Exit.FAILED
    # With an address of its own, the resource asks that server and starts none.
    asked = resource.model_copy(update={"url": url})
    try:
        found = _Status(url, asked.server_version(), embedded, _models(settings, asked.models()))
    except ServerUnavailableError as error:
        if form != "json":
            raise
        print_json({"running": False, "server_version": None, "url": url, "models": [], "problem": str(error)})
        return Exit.FAILED
    _tell(found, form)
    return Exit.FINE


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
                "server_version": found.server_version,
                "url": found.url,
                "embedded": server is not None,
                "pid": server.server_pid if server else None,
                "log": str(server.log_file) if server else None,
                "models": found.models,
            }
        )
        return
    click.echo(f"Triton {found.server_version} at {found.url}")
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
