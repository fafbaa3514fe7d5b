"""`feedback models`: the models that Triton serves, as their repository holds them."""

from typing import Final

import click

from platform_assets.cli.console import Command, Group, format_option, print_json, print_table
from platform_assets.cli.models_build import build
from platform_assets.cli.models_promote import promote_model, rollback_model
from platform_assets.cli.models_reembed import reembed
from platform_assets.cli.models_tune import tune
from platform_assets.cli.models_validate import validate
from platform_assets.cli.project import open_settings, repository_of
from platform_assets.served import pinned_versions

_MADE_BY: Final = {"anomaly_detector": "feedback run --select anomaly_model"}


def made_by(model: str) -> str:
    """The command that makes a version of a model."""
    return _MADE_BY.get(model, "feedback models build")


@click.group(cls=Group)
def models() -> None:
    """List, build and validate the model repository."""


@models.command("list", cls=Command)
@format_option("table", "json")
def list_models(*, form: str) -> None:
    """List every version of every model, with where it comes from and whether it is the one that serves."""
    settings = open_settings()
    repository = repository_of(settings)
    pinned = pinned_versions(settings, settings.lake())
    rows: list[tuple[str, int | None, bool, int | None, str, str]] = []
    for model in repository.models():
        versions = repository.versions(model)
        for version in versions:
            card = repository.card(model, version)
            sha = next(
                (card.files[name] for name in ("model.onnx", "tokenizer.json", "model.py") if name in card.files), ""
            )
            rows.append((model, version, version == pinned.get(model), card.dims, card.source, sha))
        if not versions:
            rows.append((model, None, False, None, f"no version yet: run `{made_by(model)}`", ""))
    if form == "json":
        names = ("model", "version", "served", "dims", "source", "sha256")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(
            ["model", "version", "", "dims", "source", "sha256"],
            [
                (model, version, "serves" if serves else "", dims, source, sha[:12])
                for model, version, serves, dims, source, sha in rows
            ],
        )


models.add_command(build)
models.add_command(promote_model)
models.add_command(reembed)
models.add_command(rollback_model)
models.add_command(tune)
models.add_command(validate)
