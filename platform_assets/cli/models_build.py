"""`feedback models build`: the encoder's models, made from the encoder that the project names."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from platform_assets.cli.console import Command, format_option, print_json, print_table, say
from platform_assets.cli.project import open_settings, repository_of
from resources.encoder_build import EMBEDDER, build_encoder
from resources.encoder_variants import FidelityLimits
from resources.model_promotion import hold_served

_CACHE: Final = ".cache/encoders"


@click.command(cls=Command)
@click.option(
    "--source",
    metavar="SOURCE",
    help="wheels:NAME, dir:FOLDER or hf:REPOSITORY[@REVISION]; default: the encoder of config/platform.yaml.",
)
@format_option("table", "json")
def build(*, source: str | None, form: str) -> None:
    """Build the encoder's models, each as a new version unless the same is there.

    Beside a version that is served already, a new one waits until it is promoted. Prints the graphs that were made,
    measured against the original, and which of them a CPU serves.
    """
    settings = open_settings()
    repository = repository_of(settings)
    before = {model: repository.versions(model) for model in repository.models()}
    fidelity = settings.thresholds.encoder_fidelity
    built = build_encoder(
        repository,
        source or settings.platform.encoder.source,
        Path(settings.path(_CACHE)),
        datetime.now(UTC),
        say,
        FidelityLimits(fidelity.mean_cosine, fidelity.min_cosine, fidelity.alone_versus_batch),
    )
    ensemble = "feedback_encoder"
    if ensemble in built and (line := hold_served(repository, ensemble, before[ensemble], built[ensemble])):
        say(line)
    variants = repository.card(EMBEDDER, built[EMBEDDER]).variants
    if form == "json":
        print_json({"versions": built, "variants": [variant.model_dump() for variant in variants]})
        return
    print_table(
        ["graph", "MB", "mean cosine", "min cosine", "alone vs. batch", "short texts/s", "long texts/s", ""],
        [
            (
                variant.name,
                round(variant.bytes / 1e6, 1),
                f"{variant.mean_cosine:.5f}",
                f"{variant.min_cosine:.5f}",
                f"{variant.alone_versus_batch:.0e}",
                round(variant.short_texts_per_s),
                round(variant.long_texts_per_s, 1),
                "on a CPU" if variant.served else "",
            )
            for variant in variants
        ],
    )
    print_table(
        ["model", "version", ""],
        [(model, number, "unchanged" if number in before[model] else "new") for model, number in sorted(built.items())],
    )
