"""`feedback ingest`: looks files over and lands them, whole or not at all, for the next run; or only proposes how.

What a column means belongs to `domain/sources.py`; how a record becomes a row, to `domain/raw_feedback.py`.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import click

from platform_assets.cli.console import DAY, Command, format_option, print_json, print_table, say
from platform_assets.cli.file_inspection import Inspection, inspect
from platform_assets.cli.ingest_plan import Landing, landings, mapped_source, note_for, refuse_replacing
from platform_assets.cli.project import check_known, open_settings
from platform_assets.cli.source_entry import name_of, save
from platform_assets.cli.source_options import given_columns, given_properties
from platform_assets.cli.source_suggestion import propose
from platform_assets.cli.suggestion_report import NO_TEXT, report
from platform_assets.domain.sources import check_source_name
from resources.errors import ConfigurationError


@click.command(cls=Command)
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(path_type=Path))
@click.option("--source", metavar="NAME", help="Whose files these are; else the file's name has to tell.")
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="OUR=COLUMN",
    help="Which column holds our text, source_record_id, created_at, rating, author_id, language or channel.",
)
@click.option(
    "--set",
    "properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="With --map or --inspect: time_zone, time_format, epoch_unit, encoding, delimiter, decimal_mark, "
    "record_path, sheet, channel, dedupe, rating_range=1..5.",
)
@click.option("--partition", type=DAY, help="The day of arrival to land in; default: today in UTC.")
@click.option("--replace", is_flag=True, help="Let a file take the place of another of its name, and of its records.")
@click.option("--inspect", "only_inspect", is_flag=True, help="Land nothing: propose how to read one FILE, and why.")
@click.option("--save", "keep", is_flag=True, help="With --inspect: add the proposal to config/sources.yaml.")
@format_option("table", "json")
def ingest(
    *,
    files: Sequence[Path],
    source: str | None,
    mapping: Sequence[str],
    properties: Sequence[str],
    partition: date | None,
    replace: bool,
    only_inspect: bool,
    keep: bool,
    form: str,
) -> None:
    """Land CSV, TSV, JSONL, JSON, Parquet or XLSX files, or a folder with one sub-folder a day.

    Every file is looked over before any is landed: what the next run could not read is refused.
    A file takes the place of an earlier one of its name, and of its records, only with --replace.
    A file of a source that config/sources.yaml does not know is landed with --source and --map; --inspect proposes
    what to say of it, and --inspect --save says it in config/sources.yaml.
    """
    if only_inspect:
        if partition or replace:
            raise click.UsageError("--inspect lands nothing: leave out --partition and --replace")
        _propose(files, source, mapping, properties, keep=keep, form=form)
        return
    if keep:
        raise click.UsageError("--save goes with --inspect: it keeps what that proposes")
    check_known(partition)
    settings = open_settings()
    contract = mapped_source(settings, source, mapping, properties)
    planned = landings(settings, [file.absolute() for file in files], source, contract, partition or _today())
    note = note_for(settings, planned, contract) if contract else None
    if not replace:
        refuse_replacing(settings, planned)
    inspections = [inspect(landing.file, landing.source) for landing in planned]
    zone = settings.landing()
    if note:
        zone.write_text(note.uri, note.text)
    rows = []
    for landing, inspection in zip(planned, inspections, strict=True):
        is_new = not landing.lies_there(zone)
        landed = zone.land(landing.file, landing.day, landing.folder)
        rows.append((landing, inspection, landed.uri, landed.size_bytes, is_new))
    for landing, inspection in zip(planned, inspections, strict=True):
        _warn(landing, inspection)
    if form == "json":
        print_json(
            [
                {
                    "uri": uri,
                    "source": landing.source_name,
                    "records": inspection.records,
                    "bytes": size,
                    "new": is_new,
                }
                for landing, inspection, uri, size, is_new in rows
            ]
        )
        return
    print_table(
        ["landed", "source", "records", "bytes", "new"],
        [
            (uri, landing.source_name, inspection.records, size, is_new)
            for landing, inspection, uri, size, is_new in rows
        ],
    )
    say("\nNext: `feedback run`")


def _propose(
    files: Sequence[Path], name: str | None, mapping: Sequence[str], properties: Sequence[str], *, keep: bool, form: str
) -> None:
    """Say how the one file might be read, and keep it if asked to."""
    if len(files) != 1 or files[0].is_dir():
        raise click.UsageError("--inspect looks at one file: name it alone")
    file = files[0]
    if not file.exists():
        raise ConfigurationError(f"{file} does not exist: correct the path")
    if name is not None:
        _check_name(name)
    name = name or name_of(file.name)
    proposal = propose(file, given_columns(mapping), given_properties(properties))
    saved = None
    if keep:
        if proposal.source is None:
            raise ConfigurationError(f"{file}: {NO_TEXT}; nothing was saved")
        if not name:
            raise click.UsageError("the file's name suggests no name for its source: say --source NAME")
        saved = save(open_settings(), file.name, name, proposal.source, proposal.undecided)
    report(proposal, name, saved, form)


def _check_name(name: str) -> None:
    try:
        check_source_name(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _today() -> date:
    return datetime.now(UTC).date()


def _warn(landing: Landing, inspection: Inspection) -> None:
    for warning in inspection.warnings:
        say(f"Warning: {landing.file}: {warning}")
