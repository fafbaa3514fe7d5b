"""The project's configuration, read and validated where it is needed, and the resources that it describes.

This and `pulls.py`, which reads the secrets of sources, are the places that look at the environment. Nothing is read
when this module is imported.
"""

import os
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

import dagster as dg
from pydantic import Field, PrivateAttr

from platform_assets.domain.sources import Source, Sources
from platform_assets.domain.strict_model import StrictModel
from platform_assets.domain.taxonomy import Taxonomy
from platform_assets.domain.thresholds import Thresholds
from resources.delta_lake import DeltaIOManager, DeltaLakeResource
from resources.encoder_pace import Pace, default_pace, machine
from resources.errors import ConfigurationError
from resources.landing_zone import LandingZoneResource
from resources.triton import TritonResource
from resources.yaml_file import load_yaml, parse_yaml

PROJECT_VARIABLE: Final = "FEEDBACK_PROJECT"
TRITON_URL_VARIABLE: Final = "TRITON_URL"
_DEFAULT_PACE: Final = default_pace(2, on_gpu=False)


class TritonSettings(StrictModel):
    """The `triton` part of platform.yaml."""

    url: str = ""
    repository: str = "model_repository"
    environment: str = ".triton-venv"
    state: str = ".triton"
    idle_stop_s: float = Field(900, ge=0)
    timeout_s: float = Field(60, gt=0)
    total_timeout_s: float = Field(180, gt=0)
    attempts: int = Field(5, ge=1)
    priority: int = Field(0, ge=0)
    in_flight: int | None = Field(None, ge=1)
    token_budget: int | None = Field(None, ge=1)
    one_trip: bool = False
    reuse_days: int = Field(30, ge=0)
    chunk_rows: int = Field(16_384, ge=1)


class TunedPace(StrictModel):
    """What `feedback models tune` found to be fastest on one machine."""

    instances: int = Field(ge=0)
    in_flight: int = Field(ge=1)
    token_budget: int = Field(ge=1)


class TunedSettings(StrictModel):
    """Everything in tuned.yaml: by machine, or by address for a server elsewhere."""

    machines: dict[str, TunedPace] = Field(default_factory=dict)


class EncoderSettings(StrictModel):
    """The `encoder` part of platform.yaml."""

    source: str = "wheels:all-MiniLM-L6-v2"


class LandingSensorSettings(StrictModel):
    """The `landing_sensor` part of platform.yaml."""

    settle_s: float = Field(10, ge=0)
    days_per_tick: int = Field(20, ge=1)
    attempts: int = Field(3, ge=1)


class PlatformSettings(StrictModel):
    """Everything in platform.yaml."""

    lake: str = "data/lake"
    landing: str = "landing"
    triton: TritonSettings = TritonSettings()
    encoder: EncoderSettings = EncoderSettings()
    landing_sensor: LandingSensorSettings = LandingSensorSettings()


class Settings:
    """A project's configuration files; each is read once, when first asked for."""

    def __init__(self, project: Path) -> None:
        self.project = project.absolute()

    @cached_property
    def platform(self) -> PlatformSettings:
        """`config/platform.yaml`."""
        return load_yaml(self._file("platform"), PlatformSettings)

    @cached_property
    def tuned(self) -> TunedSettings:
        """`config/tuned.yaml`, which `feedback models tune` writes; empty where there is none."""
        file = self.tuned_file()
        return load_yaml(file, TunedSettings) if file.exists() else TunedSettings()

    def tuned_file(self) -> Path:
        """Where tuned.yaml lies, or would."""
        return self._file("tuned")

    @cached_property
    def sources(self) -> Sources:
        """`config/sources.yaml`."""
        return load_yaml(self._file("sources"), Sources)

    @cached_property
    def taxonomy(self) -> Taxonomy:
        """`config/taxonomy.yaml`."""
        return load_yaml(self._file("taxonomy"), Taxonomy)

    @cached_property
    def thresholds(self) -> Thresholds:
        """`config/thresholds.yaml`."""
        return load_yaml(self._file("thresholds"), Thresholds)

    def source_note(self, text: str, where: str) -> Source:
        """The contract that was landed together with a file, instead of one in sources.yaml; `where` it lies."""
        return parse_yaml(text, where, Source)

    def path(self, relative: str) -> str:
        """A path of the configuration as an absolute one; URIs stay as they are."""
        return relative if "://" in relative else str(self.project / relative)

    def lake(self) -> DeltaLakeResource:
        """The tables."""
        return DeltaLakeResource(root=self.path(self.platform.lake))

    def landing(self) -> LandingZoneResource:
        """The landing zone."""
        return LandingZoneResource(root=self.path(self.platform.landing))

    def triton(self) -> TritonResource:
        """The Triton server: the one of TRITON_URL, else of platform.yaml, else the embedded one."""
        triton = self.platform.triton
        return TritonResource(
            url=self.triton_url(),
            repository=self.path(triton.repository),
            environment=self.path(triton.environment),
            state=self.path(triton.state),
            idle_stop_s=triton.idle_stop_s,
            timeout_s=triton.timeout_s,
            total_timeout_s=triton.total_timeout_s,
            attempts=triton.attempts,
            priority=triton.priority,
            in_flight=self.pace().in_flight,
        )

    def triton_url(self) -> str:
        """The server's address; empty for the embedded one."""
        return os.environ.get(TRITON_URL_VARIABLE) or self.platform.triton.url

    def tuned_for(self) -> str:
        """The name under which a choice for the server at hand stands in tuned.yaml: its address, or this machine."""
        return self.triton_url() or machine()

    def pace(self, default: Pace = _DEFAULT_PACE) -> Pace:
        """How texts are sent to the embedder: as platform.yaml says, else as tuned for here, else the default."""
        stated = self.platform.triton.model_dump(include={"token_budget", "in_flight"}, exclude_none=True)
        tuned = self.tuned.machines.get(self.tuned_for())
        found = Pace(tuned.token_budget, tuned.in_flight) if tuned else default
        return replace(found, **stated)

    def foreign_tuning(self) -> str:
        """A hint where tuned.yaml holds the choices of other machines only, which do not count here; else empty."""
        here, machines = self.tuned_for(), self.tuned.machines
        if not machines or here in machines:
            return ""
        return f"{self.tuned_file()} is of {'; '.join(machines)}, not of {here}: run `feedback models tune` here"

    def _file(self, name: str) -> Path:
        return self.project / "config" / f"{name}.yaml"


class SettingsResource(dg.ConfigurableResource[None]):
    """Gives assets, checks and sensors the project's settings."""

    project: str = Field("", description="The project's folder; empty finds it from the working folder.")

    _settings: Settings | None = PrivateAttr(None)

    def get(self) -> Settings:
        """The settings; the files are read anew in each run, so that a corrected file needs no restart.

        Raises:
            ConfigurationError: there is no project here.
        """
        if self._settings is None:
            self._settings = Settings(Path(self.project) if self.project else find_project(Path.cwd()))
        return self._settings


@dg.resource(required_resource_keys={"settings"}, description="The Delta tables, where platform.yaml says.")
def lake_from_settings(context: dg.InitResourceContext) -> DeltaLakeResource:
    """The tables; the settings are read when a run needs them."""
    return _settings(context).lake()


@dg.resource(required_resource_keys={"settings"}, description="The landing zone, where platform.yaml says.")
def landing_from_settings(context: dg.InitResourceContext) -> LandingZoneResource:
    """The landing zone; the settings are read when a run needs them."""
    return _settings(context).landing()


@dg.resource(required_resource_keys={"settings"}, description="The Triton server of TRITON_URL or platform.yaml.")
def triton_from_settings(context: dg.InitResourceContext) -> TritonResource:
    """The Triton server; the settings are read when a run needs them."""
    return _settings(context).triton()


@dg.io_manager(required_resource_keys={"settings"}, description="Stores a frame as its day of a Delta table.")
def delta_io_from_settings(context: dg.InitResourceContext) -> DeltaIOManager:
    """The IO manager over the tables; the settings are read when a run needs them."""
    return DeltaIOManager(root=_settings(context).lake().root)


def _settings(context: dg.InitResourceContext) -> Settings:
    settings: SettingsResource = context.resources.settings
    return settings.get()


def find_project(start: Path) -> Path:
    """The folder of $FEEDBACK_PROJECT, else the nearest one at or above `start` with config/platform.yaml.

    Raises:
        ConfigurationError: there is none.
    """
    if named := os.environ.get(PROJECT_VARIABLE):
        return Path(named)
    for folder in (start, *start.parents):
        if (folder / "config" / "platform.yaml").is_file():
            return folder
    raise ConfigurationError(f"no project at {start}: go to the project's folder, or set {PROJECT_VARIABLE} to it")
