"""Where `feedback ingest` lands each file, and under which source's contract. Reads names and notes only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import click
import yaml
from pydantic import ValidationError

from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.sources import Columns, Source, check_source_name
from platform_assets.landed_sources import SOURCE_NOTE
from platform_assets.partitions import check_day
from platform_assets.settings import Settings
from resources.errors import ConfigurationError
from resources.landing_zone import LandingZoneResource, content_hash

_PROPERTIES = ("time_zone", "time_format", "encoding", "delimiter", "decimal_mark", "channel", "rating_range")


@dataclass(frozen=True)
class Landing:
    """A file and its place."""

    file: Path
    day: date
    folder: str | None
    """The sub-folder of the day; None where the file's name tells its source."""
    source_name: str
    source: Source

    def target(self, zone: LandingZoneResource) -> Path:
        """Where it will lie."""
        return zone.folder(self.day) / (self.folder or "") / self.file.name

    def lies_there(self, zone: LandingZoneResource) -> bool:
        """Whether the same content is there already."""
        target = self.target(zone)
        return target.is_file() and content_hash(target) == content_hash(self.file)


@dataclass(frozen=True)
class Note:
    """A contract to be landed beside the files that it is for."""

    day: date
    folder: str
    text: str


def mapped_source(
    settings: Settings, name: str | None, mapping: Sequence[str], properties: Sequence[str]
) -> Source | None:
    """The contract that the options spell out; None where there is no --map.

    What the options leave open is taken from config/sources.yaml if it knows the source.

    Raises:
        UsageError: the options do not make a contract.
    """
    if not mapping:
        if properties:
            raise click.UsageError("--set goes with --map: without it config/sources.yaml says how to read the file")
        return None
    if name is None:
        raise click.UsageError("--map needs --source NAME: what these files shall be called")
    try:
        check_source_name(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    columns = _pairs("--map", mapping, tuple(Columns.model_fields))
    if "text" not in columns:
        raise click.UsageError("--map has to say where the text is: add --map text=COLUMN")
    further: dict[str, object] = {**_pairs("--set", properties, _PROPERTIES)}
    if rating_range := further.get("rating_range"):
        further["rating_range"] = str(rating_range).split("..")
    if further.get("delimiter") == "\\t":
        further["delimiter"] = "\t"
    known = settings.sources.sources.get(name)
    base = known.model_dump(exclude={"columns", "files"}) if known else {}
    try:
        return Source.model_validate({**base, **further, "columns": columns})
    except ValidationError as error:
        first = error.errors()[0]
        problem = first["msg"].removeprefix("Value error, ")
        raise click.UsageError(f"--set {'.'.join(str(part) for part in first['loc'])}: {problem}") from None


def landings(
    settings: Settings, files: Sequence[Path], name: str | None, contract: Source | None, day: date
) -> list[Landing]:
    """Place each file; the files of a folder of days each under their own day.

    Raises:
        ConfigurationError: a file is missing, or two would land in the same place.
        FeedbackError: no source claims a file, or there is no such source or day.
    """
    planned: list[Landing] = []
    for file in files:
        if not file.exists():
            raise ConfigurationError(f"{file} does not exist: correct the path")
        if file.is_dir():
            planned += _of_folder(settings, file, name, contract)
        else:
            planned.append(_place(settings, file, name, contract, day))
    places = [(landing.day, landing.folder, landing.file.name) for landing in planned]
    for landing, place in zip(planned, places, strict=True):
        if places.count(place) > 1:
            raise ConfigurationError(
                f"{landing.file}: two files would land as {landing.file.name} of {landing.day}: rename one"
            )
    return planned


def refuse_replacing(settings: Settings, planned: Sequence[Landing]) -> None:
    """See that no landed file would be lost.

    Raises:
        ConfigurationError: another content lies where a file would land.
    """
    zone = settings.landing()
    for landing in planned:
        if landing.target(zone).is_file() and not landing.lies_there(zone):
            raise ConfigurationError(
                f"{landing.file}: another file of this name landed on {landing.day}; its records would be replaced: "
                "rename this one, or say --replace"
            )


def note_for(settings: Settings, planned: Sequence[Landing], contract: Source) -> Note:
    """The contract as a note for the files' folder.

    Raises:
        ConfigurationError: the folder holds files of another contract, or there is more than one folder.
    """
    days = {landing.day for landing in planned}
    if len(days) > 1:
        raise ConfigurationError("--map is for the files of one day: add the source to config/sources.yaml instead")
    first = planned[0]
    folder = first.folder or first.source_name
    path = settings.landing().folder(first.day) / folder / SOURCE_NOTE
    others = [
        file.name
        for file in settings.landing().files(first.day)
        if file.folder == folder and file.name not in {landing.file.name for landing in planned}
    ]
    if others and (not path.is_file() or settings.source_note(path) != contract):
        raise ConfigurationError(
            f"{path.parent} holds {others[0]}, landed with other columns: choose another --source name, "
            "or land all its files again together"
        )
    text = yaml.safe_dump(contract.model_dump(mode="json", exclude_defaults=True), allow_unicode=True, sort_keys=False)
    return Note(first.day, folder, text)


def _of_folder(settings: Settings, folder: Path, name: str | None, contract: Source | None) -> list[Landing]:
    zone = LandingZoneResource(root=str(folder))
    days = zone.days()
    if not days:
        raise ConfigurationError(f"{folder} has no sub-folders named YYYY-MM-DD: name the files in it instead")
    planned = []
    for day in days:
        check_day(day)
        for file in zone.files(day):
            planned.append(_place(settings, file.path, name or file.folder, contract, day))
    if not planned:
        raise ConfigurationError(f"{folder} holds no files: nothing can be landed from it")
    return planned


def _place(settings: Settings, file: Path, name: str | None, contract: Source | None, day: date) -> Landing:
    if name is not None:
        source = contract or _noted(settings, day, name) or settings.sources.named(name)
        return Landing(file, day, name, name, source)
    found = settings.sources.of_file(file.name)
    if found is None:
        known = ", ".join(settings.sources.sources)
        raise FeedbackError(
            f"{file}: no source claims this name (sources: {known}): say --source NAME, or map the columns "
            "of a new one with --source NAME --map text=COLUMN"
        )
    return Landing(file, day, None, found, settings.sources.sources[found])


def _noted(settings: Settings, day: date, folder: str) -> Source | None:
    """The contract that a folder already has."""
    path = settings.landing().folder(day) / folder / SOURCE_NOTE
    return settings.source_note(path) if path.is_file() else None


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
