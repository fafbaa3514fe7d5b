"""What `--map` and `--set` spell out of a source's contract.

Whether it makes a whole contract is for the callers to judge.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import click
from pydantic import ValidationError

from platform_assets.domain.sources import Columns, Source

PROPERTIES: Final = (
    "time_zone",
    "time_format",
    "epoch_unit",
    "encoding",
    "delimiter",
    "decimal_mark",
    "record_path",
    "sheet",
    "channel",
    "rating_range",
    "dedupe",
)
"""Properties of a source that can be given with `--set`."""


def given_columns(mapping: Sequence[str]) -> dict[str, str]:
    """Our field → column, of `--map OUR=COLUMN`.

    Raises:
        UsageError: one is not written so, names no field of ours, or stands twice.
    """
    return _pairs("--map", mapping, tuple(Columns.model_fields))


def given_properties(properties: Sequence[str]) -> dict[str, object]:
    """Property → value, of `--set KEY=VALUE`.

    Raises:
        UsageError: one is not written so, is no property, stands twice, or has a value that it may not have.
    """
    given: dict[str, object] = {**_pairs("--set", properties, PROPERTIES)}
    if rating_range := given.get("rating_range"):
        given["rating_range"] = str(rating_range).split("..")
    if given.get("delimiter") == "\\t":
        given["delimiter"] = "\t"
    contract({**given, "columns": {"text": "any"}})
    return given


def contract(parts: Mapping[str, object]) -> Source:
    """The contract of which `parts` are the properties and columns.

    Raises:
        UsageError: a value is none that its property may have.
    """
    try:
        return Source.model_validate(parts)
    except ValidationError as error:
        first = error.errors()[0]
        problem = first["msg"].removeprefix("Value error, ")
        raise click.UsageError(f"--set {'.'.join(str(part) for part in first['loc'])}: {problem}") from None


def _pairs(option: str, given: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for pair in given:
        name, sign, value = pair.partition("=")
        if not sign or not value:
            raise click.UsageError(f"{option} {pair!r}: write it as NAME=VALUE")
        if name not in names:
            raise click.UsageError(f"{option} {pair!r}: {name!r} is none of {', '.join(names)}")
        if name in pairs:
            raise click.UsageError(f"{option}: {name} is given twice; keep one of them")
        pairs[name] = value
    return pairs
