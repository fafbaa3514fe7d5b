"""`feedback models validate`: what would keep a server from serving the models."""

import click

from platform_assets.cli.console import Command, Exit, format_option, print_json
from platform_assets.cli.project import open_settings, repository_of
from resources.repository_validation import validate_repository


@click.command(cls=Command)
@click.option(
    "--config-name",
    metavar="NAME",
    default="",
    help="Ask for a server with `--model-config-name=NAME`, such as gpu; default: one that reads config.pbtxt.",
)
@click.option(
    "--gpus",
    type=click.IntRange(min=0),
    metavar="N",
    help="GPUs of the host that will serve; default: those of this one.",
)
@format_option("table", "json")
def validate(*, config_name: str, gpus: int | None, form: str) -> int:
    """Look for what would keep a server from serving the models; the exit code is 1 if there is anything."""
    settings = open_settings()
    repository = repository_of(settings)
    problems = validate_repository(repository, config_name=config_name, gpus=gpus)
    if form == "json":
        print_json({"valid": not problems, "problems": problems})
    else:
        click.echo("\n".join(problems) or "every model can be served")
    return Exit.FAILED if problems else Exit.FINE
