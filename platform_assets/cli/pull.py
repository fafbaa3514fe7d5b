"""`feedback pull`: fetches from the pulled sources into the landing zone, as their sensors do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from platform_assets.cli.console import Command, Exit, format_option, print_json, print_table, say
from platform_assets.cli.project import open_settings
from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.sources import Source
from platform_assets.pulls import pull_once, pulled_sources
from platform_assets.settings import Settings
from resources.errors import ConfigurationError, ResourceError

_NONE: Final = (
    "no source is pulled: give one a `pull` in config/sources.yaml, which shows examples of a folder or bucket, of "
    "PostgreSQL and of Kafka"
)


@dataclass
class _Outcome:
    """What came of one source."""

    source: str
    kind: str
    files: int = 0
    records: int = 0
    more: bool | None = None
    """None where the last pull failed."""
    error: ResourceError | None = None


@click.command(cls=Command)
@click.argument("names", nargs=-1, metavar="[SOURCE]…")
@click.option("--until-empty", is_flag=True, help="Pull each source until it holds nothing more.")
@format_option("table", "json")
def pull(*, names: Sequence[str], until_empty: bool, form: str) -> int:
    """Fetch one batch from each pulled source, or from those named, into the landing zone.

    A source that fails does not keep the others from being pulled.
    """
    settings = open_settings()
    outcomes = [_pull(name, source, settings, until_empty) for name, source in _chosen(names, settings).items()]
    if form == "json":
        print_json(
            [
                {
                    "source": one.source,
                    "kind": one.kind,
                    "files": one.files,
                    "records": one.records,
                    "more": one.more,
                    "error": str(one.error) if one.error else None,
                }
                for one in outcomes
            ]
        )
    else:
        print_table(
            ["source", "kind", "files", "records", "more"],
            [(one.source, one.kind, one.files, one.records, one.more) for one in outcomes],
        )
        _advise(outcomes, until_empty)
    errors = [one.error for one in outcomes if one.error]
    if any(isinstance(error, ConfigurationError) for error in errors):
        return Exit.USAGE
    return Exit.FAILED if errors else Exit.FINE


def _chosen(names: Sequence[str], settings: Settings) -> dict[str, Source]:
    known = pulled_sources(settings)
    if not known:
        raise FeedbackError(_NONE)
    for name in names:
        if name not in known:
            raise FeedbackError(
                f"no source {name!r} is pulled (pulled are: {', '.join(known)}): correct the name, or give it a `pull` "
                "in config/sources.yaml"
            )
    return {name: known[name] for name in names or known}


def _pull(name: str, source: Source, settings: Settings, until_empty: bool) -> _Outcome:
    outcome = _Outcome(name, source.pull.kind if source.pull else "")
    while True:
        try:
            pulled = pull_once(name, source, settings)
        except ResourceError as error:
            say(f"Error: {error}")
            outcome.more, outcome.error = None, error
            return outcome
        for warning in pulled.warnings:
            say(f"Warning: {warning}")
        outcome.files += len(pulled.landed)
        outcome.records += pulled.records
        outcome.more = pulled.more
        if not (until_empty and pulled.more):
            return outcome


def _advise(outcomes: Sequence[_Outcome], until_empty: bool) -> None:
    if not until_empty and any(one.more for one in outcomes):
        say("\nMore waits: `feedback pull --until-empty`")
    if any(one.files for one in outcomes):
        say("\nNext: `feedback run`")
