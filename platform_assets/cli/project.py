"""Finding the project that a command is about, and its Dagster instance, quietly."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Final

import dagster as dg

from platform_assets.partitions import check_day
from platform_assets.settings import Settings, find_project
from resources.errors import ConfigurationError
from resources.model_repository import ModelRepository

_HOME: Final = "DAGSTER_HOME"

QUIET: Final = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""Run configuration that keeps log lines off the console; the event log holds them all the same."""


def open_settings() -> Settings:
    """The settings of the project at hand; files are read when first asked for.

    Raises:
        ConfigurationError: there is no project here.
    """
    return Settings(find_project(Path.cwd()))


def repository_of(settings: Settings) -> ModelRepository:
    """The project's model repository."""
    return ModelRepository(Path(settings.path(settings.platform.triton.repository)))


@contextmanager
def dagster_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The project's Dagster instance: that of DAGSTER_HOME, else the one that its dagster.yaml describes.

    The working folder becomes the project's, because dagster.yaml names its folders relative to it: resolve
    paths that the user gave before.

    Raises:
        ConfigurationError: DAGSTER_HOME or dagster.yaml cannot be used.
    """
    home = os.environ.get(_HOME) or str(settings.project)
    if not Path(home).is_absolute() or not Path(home).is_dir():
        raise ConfigurationError(f"{_HOME}={home} is no absolute path of a folder: correct it, or unset it")
    if not (Path(home) / "dagster.yaml").is_file():
        raise ConfigurationError(f"{home} holds no dagster.yaml: restore it, or set {_HOME} to the folder that does")
    os.environ[_HOME] = home
    os.chdir(settings.project)
    try:
        instance = dg.DagsterInstance.get()
    except (dg.DagsterInvalidConfigError, dg.DagsterInvariantViolationError) as error:
        raise ConfigurationError(f"{home}/dagster.yaml cannot be used: {str(error).splitlines()[0]}") from error
    with instance:
        yield instance


def load_definitions(settings: Settings) -> dg.Definitions:
    """The project's definitions, without Dagster's warnings about features that are not final.

    Raises:
        ConfigurationError: `config/thresholds.yaml` is not valid.
    """
    for category in (dg.PreviewWarning, dg.BetaWarning):
        warnings.filterwarnings("ignore", category=category)
    # Dagster warns where checks are defined, which happens when the module is imported.
    from platform_assets.definitions import build_defs

    return build_defs(settings)


def check_known(day: date | None) -> date | None:
    """Return `day`.

    Raises:
        FeedbackError: it is no partition.
    """
    if day is not None:
        check_day(day)
    return day
