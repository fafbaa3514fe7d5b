"""`feedback models reembed`: the backfill after another version of the encoder came to serve."""

from datetime import date
from typing import Final

import click

from platform_assets.cli.console import DAY, Command, Exit, format_option, print_json
from platform_assets.cli.project import check_known, open_settings
from platform_assets.cli.run import run
from platform_assets.cli.run_plan import MODEL
from platform_assets.model_swap import served_encoder
from platform_assets.stale_days import days_of_other_encoders, detector_fits

_AFTER: Final = ("anomaly_scores", "normalized_feedback", "daily_summary")


@click.command(cls=Command)
@click.option("--from", "first", type=DAY, help="Leave the days before this one.")
@click.option("--to", "last", type=DAY, help="Leave the days after this one.")
@click.option("--dry-run", is_flag=True, help="Say which days only.")
@format_option("table", "json")
def reembed(*, first: date | None, last: date | None, dry_run: bool, form: str) -> int:
    """Make the vectors of days anew that another version of the encoder made, and what follows from them.

    The anomaly model is fitted again if it was fitted on another version. The exit code is 1 if a day fails.
    """
    for day in (first, last):
        check_known(day)
    settings = open_settings()
    lake, encoder = settings.lake(), served_encoder(settings.triton())
    embedder = (encoder.embedder_version, encoder.embedder_hash)
    days = [
        day
        for day in days_of_other_encoders(lake, *embedder)
        if (first is None or day >= first) and (last is None or day <= last)
    ]
    select = ["feedback_embeddings", *([] if detector_fits(lake, *embedder) else [MODEL]), *_AFTER]
    if not days or dry_run:
        line = (
            f"{len(days)} days would be made anew: {', '.join(map(str, days))}; {', '.join(select)}"
            if days
            else f"every vector of these days is by feedback_encoder version {encoder.version}"
        )
        if form == "json":
            print_json({"success": True, "days": [str(day) for day in days], "message": line})
        else:
            click.echo(line)
        return Exit.FINE
    # Days between them that are right already cost little: their vectors are found and not made.
    code: int = click.get_current_context().invoke(
        run, partition=None, first=days[0], last=days[-1], select=select, more=(), form=form
    )
    return code
