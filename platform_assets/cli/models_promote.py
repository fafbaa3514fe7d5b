"""`feedback models promote` and `rollback`: which version of a model serves, changed while it serves."""

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Final

import click
import dagster as dg

from platform_assets.canary import Compared
from platform_assets.cli.console import Command, Exit, Json, format_option, print_json, print_table, say
from platform_assets.cli.embedded_server import embedded_server
from platform_assets.cli.project import dagster_instance, load_definitions, open_settings
from platform_assets.cli.run_execution import Runner
from platform_assets.current_model import DETECTOR
from platform_assets.domain.measurement import shown
from platform_assets.model_swap import Swap, promote, roll_back, served_encoder
from platform_assets.only_one import only_one
from platform_assets.promotions import EMBEDDER, ENCODER, TOKENIZER
from platform_assets.settings import Settings
from platform_assets.stale_days import days_of_other_detectors, days_of_other_encoders, detector_fits
from resources.errors import ConfigurationError
from resources.model_promotion import version_with
from resources.model_repository import ModelRepository
from resources.process_memory import tree_memory
from resources.triton import TritonResource

_PARTS: Final = (EMBEDDER, TOKENIZER)
_PATIENCE_S: Final = 1.0


@click.command("promote", cls=Command)
@click.argument("model", type=click.Choice([ENCODER, DETECTOR, *_PARTS]), metavar="MODEL")
@click.argument("version", type=click.IntRange(min=1))
@click.option("--dry-run", is_flag=True, help="Compare only.")
@click.option(
    "--accept-differences",
    is_flag=True,
    help="It is meant to be another model: only texts that it loses keep it from serving.",
)
@format_option("table", "json")
def promote_model(*, model: str, version: int, dry_run: bool, accept_differences: bool, form: str) -> int:
    """Have VERSION of MODEL (feedback_encoder or anomaly_detector) serve, if a canary finds nothing against it.

    Both versions are loaded beside each other and given the same texts of recent days; the comparison is held
    against `promotion` in config/thresholds.yaml. No request is lost in the switch, and a run that has begun ends
    on the version that it began with. The exit code is 1 if the version is refused.
    """
    settings = open_settings()
    triton = settings.triton()
    if model in _PARTS:
        version = version_with(ModelRepository(Path(triton.repository)), ENCODER, part := {model: version})
        say(f"{model} {part[model]} is served as a part of {ENCODER} version {version}: that is what is promoted")
        model = ENCODER
    with only_one(settings, "promotion", "models", wait_s=_PATIENCE_S):
        triton.server_version()  # starts the embedded server
        swap = promote(
            settings,
            triton,
            model,
            version,
            server_memory=_server_memory(triton),
            accept_differences=accept_differences,
            dry_run=dry_run,
        )
    lines = _outcome(swap, dry_run=dry_run)
    if swap.switched:
        lines += _afterwards(settings, triton, swap.model)
    _tell(swap, lines, form)
    return Exit.FAILED if swap.refused else Exit.FINE


@click.command("rollback", cls=Command)
@click.argument("model", type=click.Choice([ENCODER, DETECTOR]), metavar="MODEL")
@format_option("table", "json")
def rollback_model(*, model: str, form: str) -> None:
    """Have the version of MODEL serve that served before its last promotion; another rollback goes further back."""
    settings = open_settings()
    triton = settings.triton()
    with only_one(settings, "promotion", "models", wait_s=_PATIENCE_S):
        triton.server_version()
        swap = roll_back(settings, triton, model)
    _tell(swap, [*_outcome(swap, dry_run=False), *_afterwards(settings, triton, model)], form)


def _server_memory(triton: TritonResource) -> Callable[[], int]:
    def held() -> int:
        server = None if triton.url else embedded_server(triton).status()
        return tree_memory(server.server_pid) if server else 0

    return held


def _outcome(swap: Swap, *, dry_run: bool) -> list[str]:
    if swap.refused:
        why = "; ".join(_breach(one) for one in swap.refused)
        excusable = all(one.excusable for one in swap.refused)
        hint = " (if it is meant to be another model: --accept-differences)" if excusable else ""
        return [f"{swap.model} version {swap.version} is refused, version {swap.former} serves on: {why}{hint}"]
    if not swap.compared and not swap.switched:
        return [f"{swap.model} version {swap.version} serves already"]
    if dry_run:
        return [f"{swap.model} version {swap.version} would be accepted; version {swap.former} serves on"]
    stays = f"; version {swap.former} stays loaded for the runs that have begun with it" if swap.former else ""
    return [f"{swap.model} version {swap.version} serves now{stays}"]


def _breach(one: Compared) -> str:
    found = one.measurement
    return f"{one.name} {shown(found.value)} > {shown(found.limit)} ({found.reason})"


def _afterwards(settings: Settings, triton: TritonResource, model: str) -> list[str]:
    """Show in Dagster what serves now, and say what was made by the version before."""
    _show_in_dagster(settings)
    lake = settings.lake()
    if model == DETECTOR:
        if not (days := days_of_other_detectors(lake)):
            return []
        rest = f"--from {days[0]} --to {days[-1]} --select anomaly_scores normalized_feedback daily_summary"
        return [f"{_span(days)} have scores of another version: `feedback run {rest}`"]
    encoder = served_encoder(triton)
    lines = []
    if days := days_of_other_encoders(lake, encoder.embedder_version, encoder.embedder_hash):
        lines.append(f"{_span(days)} have vectors of another version: `feedback models reembed`")
    if not detector_fits(lake, encoder.embedder_version, encoder.embedder_hash):
        lines.append(
            f"{DETECTOR} was fitted on another encoder and scores nothing until it fits: `feedback models reembed` "
            f"fits it again; `feedback models rollback {DETECTOR}` goes back to a former one"
        )
    return lines


def _span(days: Sequence[date]) -> str:
    return f"{len(days)} day{'s' if len(days) > 1 else ''} ({days[0]} to {days[-1]})"


def _show_in_dagster(settings: Settings) -> None:
    """Materialize the asset `served_models`; the switch stands whether that works or not."""
    try:
        with dagster_instance(settings) as instance:
            runner = Runner(load_definitions(settings), instance, on_step=lambda _: None, on_retry=lambda *_: None)
            result = runner.run([dg.AssetKey("served_models")], None)
            problem = "; ".join(result.problems)
    except ConfigurationError as error:
        problem = str(error)
    if problem:
        say(f"the asset served_models does not show it yet: {problem}")


def _tell(swap: Swap, lines: Sequence[str], form: str) -> None:
    if form == "json":
        print_json(
            {
                "model": swap.model,
                "version": swap.version,
                "former": swap.former,
                "switched": swap.switched,
                "sample": swap.sample,
                "figures": [_figure(one) for one in swap.compared],
                "refused": [one.name for one in swap.refused],
                "messages": list(lines),
            }
        )
        return
    if swap.compared:
        print_table(
            ["figure", "what", "served", "new", "value", "limit", "verdict"],
            [
                (
                    one.name,
                    one.measurement.what,
                    one.served,
                    one.new,
                    one.measurement.value,
                    one.measurement.limit,
                    one.measurement.verdict.value if one.blocks else f"{one.measurement.verdict.value} (warns only)",
                )
                for one in swap.compared
            ],
            title=f"{swap.model}: version {swap.former} serves, version {swap.version} is new; {swap.sample}",
        )
        click.echo("")
    click.echo("\n".join(lines))


def _figure(one: Compared) -> dict[str, Json]:
    found = one.measurement
    return {
        "name": one.name,
        "what": found.what,
        "served": one.served,
        "new": one.new,
        "value": found.value,
        "limit": found.limit,
        "rows": found.rows,
        "verdict": found.verdict.value,
        "blocks": one.blocks,
        "reason": found.reason,
    }
