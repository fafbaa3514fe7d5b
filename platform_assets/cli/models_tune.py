"""`feedback models tune`: how texts are best sent to the embedder on the machine at hand."""

from pathlib import Path
from typing import Final

import click
import yaml

from platform_assets.cli.console import Command, format_option, print_json, print_table, say
from platform_assets.cli.project import open_settings
from platform_assets.settings import Settings, TunedPace, TunedSettings
from resources.encoder_pace import CPU_BUDGETS, GPU_BUDGETS, Trial, choose, counts_to_try
from resources.encoder_tuning import encoder_at, sample_texts, scratch_servers, set_instances, sweep
from resources.errors import ConfigurationError
from resources.model_repository import CONFIG_NAME
from resources.whole_file import write_whole

_TOKENIZER: Final = "tokenizer"
_EMBEDDER: Final = "text_embedder"
_ENSEMBLE: Final = "feedback_encoder"
_SAMPLE: Final = 20_000
_HEADER: Final = """\
# Written by `feedback models tune`: what was fastest, by machine or by address of a server elsewhere. An entry counts
# only there; without one, and where platform.yaml says otherwise, it is not read. Remove an entry to go back.
"""


@click.command(cls=Command)
@click.option(
    "--texts",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A UTF-8 file of texts like yours, one a line; default: a built-in set of made-up ones.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=120,
    show_default=True,
    help="About how long to measure.",
)
@click.option("--dry-run", is_flag=True, help="Print the table and write nothing.")
@format_option("table", "json")
def tune(*, file: Path | None, seconds: float, dry_run: bool, form: str) -> None:
    """Find and keep the token budget, requests in flight and instances that embed fastest here.

    The embedder is served beside the one that may run, with different numbers of instances; with a server elsewhere
    (TRITON_URL) it is used as it is. Run it while nothing else keeps the machine busy.
    """
    settings = open_settings()
    texts = _texts(file)
    trials = (
        _on_a_server_elsewhere(settings, texts, seconds) if settings.triton_url() else _here(settings, texts, seconds)
    )
    chosen = choose(trials)
    if not dry_run:
        _keep(settings, chosen)
    best = max(trial.rate for trial in trials)
    rows = [
        (
            trial.instances or None,
            trial.pace.token_budget,
            trial.pace.in_flight,
            round(trial.rate, 1),
            round(trial.rate / best, 3),
            trial is chosen,
        )
        for trial in trials
    ]
    names = ("instances", "token_budget", "in_flight", "texts_per_s", "ratio_to_best", "chosen")
    if form == "json":
        print_json({"for": settings.tuned_for(), "trials": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    print_table(
        ["instances", "token budget", "in flight", "texts/s", "÷ best", ""],
        [(*row[:-1], "chosen" if row[-1] else "") for row in rows],
    )
    click.echo(_said(settings, chosen, dry_run=dry_run))


def _texts(file: Path | None) -> list[str]:
    if file is None:
        return sample_texts(_SAMPLE)
    try:
        texts = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read ({error}): give a UTF-8 file of texts, one a line") from None
    if not texts:
        raise ConfigurationError(f"{file} holds no text: give texts, one a line")
    return texts


def _here(settings: Settings, texts: list[str], seconds: float) -> list[Trial]:
    counts = counts_to_try()
    say(f"serving {_EMBEDDER} with {', '.join(map(str, counts))} instances beside each other, then measuring")
    models = (_TOKENIZER, _EMBEDDER, _ENSEMBLE)
    with scratch_servers(settings.triton(), models, _EMBEDDER, counts) as servers:
        encoders = {count: encoder_at(server, *models) for count, server in servers.items()}
        return sweep(encoders, CPU_BUDGETS, texts, seconds)


def _on_a_server_elsewhere(settings: Settings, texts: list[str], seconds: float) -> list[Trial]:
    say(f"measuring {_EMBEDDER} at {settings.triton_url()} with the instances that it has")
    encode = encoder_at(settings.triton(), _TOKENIZER, _EMBEDDER, _ENSEMBLE)
    return sweep({0: encode}, (*CPU_BUDGETS, *GPU_BUDGETS), texts, seconds)


def _keep(settings: Settings, chosen: Trial) -> None:
    """Writes the choice into tuned.yaml, and the number of instances where the server reads it."""
    pace = TunedPace(instances=chosen.instances, in_flight=chosen.pace.in_flight, token_budget=chosen.pace.token_budget)
    tuned = TunedSettings(machines={**settings.tuned.machines, settings.tuned_for(): pace})
    if chosen.instances:
        set_instances(_config(settings), chosen.instances)
    write_whole(settings.tuned_file(), _HEADER + yaml.safe_dump(tuned.model_dump(), allow_unicode=True))


def _config(settings: Settings) -> Path:
    return Path(settings.path(settings.platform.triton.repository)) / _EMBEDDER / CONFIG_NAME


def _said(settings: Settings, chosen: Trial, *, dry_run: bool) -> str:
    what = f"token_budget {chosen.pace.token_budget}, in_flight {chosen.pace.in_flight}"
    if dry_run:
        instances = f"{chosen.instances} instances, " if chosen.instances else ""
        return f"fastest for {settings.tuned_for()}: {instances}{what}; nothing was written"
    said = f"{settings.tuned_file()} now holds {what} for {settings.tuned_for()}"
    if chosen.instances:
        said += f"; {_config(settings)} serves {chosen.instances} instances"
    stated = sorted(settings.platform.triton.model_fields_set & {"in_flight", "token_budget"})
    return said + (f"; remove {' and '.join(stated)} from config/platform.yaml, which goes before it" if stated else "")
