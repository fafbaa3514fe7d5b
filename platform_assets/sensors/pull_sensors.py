"""`pull_<source>`: one sensor for each pulled source, which fetches what is new into the landing zone.

It starts no run: `landing_sensor` does, when it sees what landed.
"""

import time
from typing import Final

import dagster as dg

from platform_assets.domain.sources import Source
from platform_assets.pulls import PullUnderWayError, pull_once, pulled_sources
from platform_assets.settings import Settings, SettingsResource
from resources.errors import ResourceError

_TICK_S: Final = 20
"""A tick begins no other pull after so long; Dagster gives a tick up after 60 s."""

_WHAT: Final = {"folder": "new and changed files", "postgres": "new and changed rows", "kafka": "new messages"}


def pull_sensors(settings: Settings) -> list[dg.SensorDefinition]:
    """A sensor for each pulled source that `config/sources.yaml` names now.

    Raises:
        ConfigurationError: the file is not valid.
    """
    return [_pull_sensor(name, source.pull.kind) for name, source in pulled_sources(settings).items() if source.pull]


def _pull_sensor(name: str, kind: str) -> dg.SensorDefinition:
    @dg.sensor(
        name=f"pull_{name}",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Fetches {_WHAT[kind]} into the landing zone, for landing_sensor to start their runs.",
    )
    def pull(context: dg.SensorEvaluationContext, settings: SettingsResource) -> dg.SkipReason:
        config = settings.get()
        try:
            # Read anew, so that a corrected entry needs no restart.
            source = pulled_sources(config).get(name)
            if source is None:
                return dg.SkipReason("config/sources.yaml no longer has this source pulled: reload the code location")
            return dg.SkipReason(_pull(context, name, source, config))
        except PullUnderWayError as error:
            return dg.SkipReason(str(error))
        except ResourceError as error:
            context.log.error(str(error))
            # The line says it all; a traceback would only hide it.
            raise dg.Failure(str(error)) from None

    return pull


def _pull(context: dg.SensorEvaluationContext, name: str, source: Source, settings: Settings) -> str:
    """Pull as often as a tick allows, and say what came of it."""
    end = time.monotonic() + _TICK_S
    files = records = 0
    while True:
        pulled = pull_once(name, source, settings)
        for warning in pulled.warnings:
            context.log.warning(warning)
        files += len(pulled.landed)
        records += pulled.records
        if not pulled.more or time.monotonic() >= end:
            break
    brought = "nothing new"
    if files:
        brought = f"landed {_counted(files, 'file')}"
        if source.pull and source.pull.kind != "folder":
            brought = f"landed {_counted(records, 'record')} in {_counted(files, 'file')}"
    return f"{brought}; more waits" if pulled.more else brought


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
