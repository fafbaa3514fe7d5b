"""Prints what `feedback ingest --inspect` found out: as tables, or as one JSON object."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import click

from platform_assets.cli.console import Json, print_json, print_table, printable, say
from platform_assets.cli.source_entry import entry_text
from platform_assets.cli.source_suggestion import Proposal, Trial
from platform_assets.domain.sources import Columns

_SHOWN_CHARACTERS: Final = 60
NO_TEXT: Final = "no column reads like text that people wrote: name it with --map text=COLUMN"


def report(proposal: Proposal, name: str, saved: Path | None, form: str) -> None:
    """Print a proposal.

    Args:
        proposal: what to print.
        name: the source's; empty where nobody has said it and the file's name suggests none.
        saved: the file that the entry was written to, if it was.
        form: `table` or `json`.
    """
    if form == "json":
        print_json(_as_json(proposal, name, saved))
        return
    print_table(["property", "found", "why"], list(_properties(proposal)), title=str(proposal.file))
    _print("")
    print_table(
        ["column", "example"],
        [(column, _short(example)) for column, example in proposal.examples.items()],
        title="Columns",
    )
    columns = proposal.suggestion.columns
    _print("")
    print_table(
        ["our field", "column", "why"],
        [
            (
                field_name,
                *((str(columns[field_name].value), columns[field_name].why) if field_name in columns else (None, None)),
            )
            for field_name in Columns.model_fields
        ],
        title="Proposed mapping",
    )
    if proposal.source is None or proposal.trial is None:
        _print(f"\nNo mapping: {NO_TEXT}")
        return
    _print_trial(proposal.trial)
    for key, question in proposal.undecided.items():
        _print(f"To decide (--set {key}=…): {question}")
    if saved:
        say(f"\nSaved as {name} in {saved}\nNext: `feedback ingest {proposal.file}`")
        return
    _print("\n--save adds this to config/sources.yaml:\n")
    _print(entry_text(name or "NAME", proposal.source, proposal.undecided).rstrip("\n"))
    say("\nNothing was landed.")


def _print_trial(trial: Trial) -> None:
    rows = [tuple(_short(_plain(cell)) for cell in row) for row in trial.rows.rows()]
    _print("")
    print_table(trial.rows.columns, rows, title="The first records as they would be loaded")
    if trial.rows_lack_time:
        _print("Without created_at, as it is to be decided how to read it.")
    _print(f"\n{trial.quarantined:,} of {trial.records:,} sampled records would be quarantined.")
    for refused in trial.refused:
        _print(f"  {refused.records:,} × {refused.reason}, first in line {refused.line_no}: {_short(refused.detail)}")


def _print(line: str) -> None:
    click.echo(printable(line))


def _properties(proposal: Proposal) -> Iterator[tuple[str, str, str]]:
    kind, dialect, suggestion = proposal.kind, proposal.dialect, proposal.suggestion
    yield "format", kind.format.value, "the file's name"
    if kind.compression:
        yield "compression", kind.compression.value, "the file's name"
    for name, found in (
        ("encoding", dialect.encoding),
        ("delimiter", dialect.delimiter),
        ("record_path", dialect.record_path),
        ("sheet", dialect.sheet),
    ):
        if found:
            yield name, _visible(found.value), found.why if found.is_sure else f"{found.why} (not sure)"
    if dialect.sheets:
        yield "sheets", ", ".join(dialect.sheets), "all of them"
    for name, why in proposal.properties.items():
        if proposal.source:
            yield name, _value(getattr(proposal.source, name)), why
    if suggestion.times:
        yield "times", str(suggestion.times), "all values of the sample"
    for note in proposal.notes:
        yield "note", note, ""


def _as_json(proposal: Proposal, name: str, saved: Path | None) -> dict[str, Json]:
    dialect, suggestion, trial = proposal.dialect, proposal.suggestion, proposal.trial
    times = suggestion.times
    values = proposal.source.model_dump(mode="json") if proposal.source else {}
    detected: dict[str, Json] = {
        key: {"value": found.value, "why": found.why, "sure": found.is_sure} if found else None
        for key, found in (
            ("encoding", dialect.encoding),
            ("delimiter", dialect.delimiter),
            ("record_path", dialect.record_path),
            ("sheet", dialect.sheet),
        )
    }
    return {
        "file": str(proposal.file),
        "format": proposal.kind.format.value,
        "compression": proposal.kind.compression.value if proposal.kind.compression else None,
        **detected,
        "sheets": list(dialect.sheets),
        "properties": {
            key: {"value": values[key], "why": why} for key, why in proposal.properties.items() if key in values
        },
        "times": {
            "format": times.time_format,
            "other_format": times.other_format,
            "epoch_unit": times.epoch_unit,
            "values": times.values,
            "fitting": times.fitting,
            "with_offset": times.absolute,
        }
        if times
        else None,
        "columns": [{"name": column, "example": example} for column, example in proposal.examples.items()],
        "mapping": {key: {"column": one.value, "why": one.why} for key, one in suggestion.columns.items()},
        "undecided": dict(proposal.undecided),
        "notes": [*proposal.notes, *([] if proposal.source else [NO_TEXT])],
        "sampled": trial.records if trial else None,
        "quarantined": trial.quarantined if trial else None,
        "reasons": [
            {"reason": one.reason, "records": one.records, "line": one.line_no, "detail": one.detail}
            for one in (trial.refused if trial else [])
        ],
        "rows": [{key: _plain(cell) for key, cell in row.items()} for row in (trial.rows.to_dicts() if trial else [])],
        "source": {
            "name": name or None,
            "entry": proposal.source.model_dump(mode="json", exclude_defaults=True) if proposal.source else None,
        },
        "saved": str(saved) if saved else None,
    }


def _value(value: object) -> str:
    return "..".join(f"{limit:g}" for limit in value) if isinstance(value, tuple) else str(value)


def _visible(text: str) -> str:
    return repr(text)[1:-1] if text.isspace() else text


def _plain(cell: object) -> str | float | None:
    if isinstance(cell, datetime):
        return cell.isoformat()
    return cell if isinstance(cell, float) or cell is None else str(cell)


def _short(cell: str | float | None) -> str | float | None:
    if not isinstance(cell, str):
        return cell
    line = " ".join(cell.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"
