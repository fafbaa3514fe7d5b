"""Where `feedback ingest` lands each file, and under which source's contract. Reads names and notes only."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import click
import yaml

from platform_assets.cli.source_options import contract, given_columns, given_properties
from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.sources import Source, check_source_name
from platform_assets.landed_sources import LandedSources, note_uri
from platform_assets.partitions import check_day
from platform_assets.settings import Settings
from resources.errors import ConfigurationError
from resources.landing_zone import LandingZoneResource


@dataclass(frozen=True)
class Landing:
    """A file and its place."""

    file: Path
    day: date
    folder: str | None
    """The sub-folder of the day; None where the file's name tells its source."""
    source_name: str
    source: Source

    def target(self, zone: LandingZoneResource) -> str:
        """What it will be called as a landed file.

        Raises:
            ConfigurationError: it cannot be landed under its name.
        """
        return zone.uri_of(self.day, self.folder, self.file.name)

    def lies_there(self, zone: LandingZoneResource) -> bool:
        """Whether the same content is there already."""
        return zone.holds(self.file, self.target(zone))


@dataclass(frozen=True)
class Note:
    """A contract to be landed beside the files that it is for."""

    day: date
    folder: str
    text: str

    @property
    def uri(self) -> str:
        """Where it will lie in the landing zone."""
        return note_uri(self.day, self.folder)


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
    columns = given_columns(mapping)
    if "text" not in columns:
        raise click.UsageError("--map has to say where the text is: add --map text=COLUMN")
    further = given_properties(properties)
    known = settings.sources.sources.get(name)
    base = known.model_dump(exclude={"columns", "files", "pull"}) if known else {}
    return contract({**base, **further, "columns": columns})


def landings(
    settings: Settings, files: Sequence[Path], name: str | None, contract: Source | None, day: date
) -> list[Landing]:
    """Place each file; the files of a folder of days each under their own day.

    Raises:
        ConfigurationError: a file is missing, or two would land in the same place.
        FeedbackError: no source claims a file, or there is no such source or day.
    """
    places = _Places(settings, contract)
    planned: list[Landing] = []
    for file in files:
        if not file.exists():
            raise ConfigurationError(f"{file} does not exist: correct the path")
        if file.is_dir():
            planned += places.of_folder(file, name)
        else:
            planned.append(places.of(file, name, day))
    times = Counter((landing.day, landing.folder, landing.file.name) for landing in planned)
    for landing in planned:
        if times[landing.day, landing.folder, landing.file.name] > 1:
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
        if zone.find(landing.target(zone)) and not landing.lies_there(zone):
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
    zone = settings.landing()
    ours = {landing.file.name for landing in planned}
    others = [file.name for file in zone.files_of(folder, first.day) if file.name not in ours]
    note = LandedSources(zone, settings).note_of(first.day, folder)
    if others and (note is None or note.source != contract):
        raise ConfigurationError(
            f"{zone.location(f'{first.day}/{folder}')} holds {others[0]}, landed with other columns: choose another "
            "--source name, or land all its files again together"
        )
    text = yaml.safe_dump(contract.model_dump(mode="json", exclude_defaults=True), allow_unicode=True, sort_keys=False)
    return Note(first.day, folder, text)


class _Places:
    """Tells each file its place; `contract` is the one of the options, if they make one."""

    def __init__(self, settings: Settings, contract: Source | None) -> None:
        self._known = settings.sources
        self._contract = contract
        self._landed = LandedSources(settings.landing(), settings)

    def of_folder(self, folder: Path, name: str | None) -> list[Landing]:
        """The files of a folder that holds one sub-folder a day."""
        zone = LandingZoneResource(root=str(folder))
        days = zone.days()
        if not days:
            raise ConfigurationError(f"{folder} has no sub-folders named YYYY-MM-DD: name the files in it instead")
        planned = []
        for day in days:
            check_day(day)
            planned += [self.of(folder / file.uri, name or file.folder, day) for file in zone.files(day)]
        if not planned:
            raise ConfigurationError(f"{folder} holds no files: nothing can be landed from it")
        return planned

    def of(self, file: Path, name: str | None, day: date) -> Landing:
        """One file, of the source `name` or of that which its own name tells."""
        if name is not None:
            return Landing(file, day, name, name, self._contract_of(day, name))
        found = self._known.of_file(file.name)
        if found is None:
            known = ", ".join(self._known.sources)
            raise FeedbackError(
                f"{file}: no source claims this name (sources: {known}): say --source NAME, or map the columns "
                "of a new one with --source NAME --map text=COLUMN (--inspect suggests them)"
            )
        return Landing(file, day, None, found, self._known.sources[found])

    def _contract_of(self, day: date, name: str) -> Source:
        if self._contract:
            return self._contract
        note = self._landed.note_of(day, name)
        return note.source if note else self._known.named(name)
