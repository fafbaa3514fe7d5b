"""The pulled sources of a project: what fetches each of them, and one pull at a time.

How records are fetched is `resources/pulled_sources/`; when, belongs to the sensors and to `feedback pull`. Secrets
come from the environment, by the names that `config/sources.yaml` gives.
"""

import os
import re
from datetime import UTC, datetime
from typing import Final, assert_never

from platform_assets.domain.sources import FolderPull, KafkaPull, PostgresPull, Source
from platform_assets.only_one import UnderWayError, only_one
from platform_assets.settings import Settings
from resources.errors import ConfigurationError, ServerUnavailableError
from resources.pulled_sources import Pulled, Puller

_LOCK_WAIT_S: Final = 3
_VARIABLE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


class PullUnderWayError(ServerUnavailableError):
    """Another process is pulling the source now."""


def pulled_sources(settings: Settings) -> dict[str, Source]:
    """The sources with a `pull`, by name.

    Raises:
        ConfigurationError: `config/sources.yaml` is not valid.
    """
    return {name: source for name, source in settings.sources.sources.items() if source.pull is not None}


def puller_of(name: str, source: Source, settings: Settings) -> Puller:
    """What fetches a pulled source; nothing is opened yet.

    Raises:
        ConfigurationError: a variable of the environment that it needs is not set.
    """
    # Their libraries, if any, are loaded by the first pull.
    match source.pull:
        case FolderPull() as pull:
            from resources.pulled_sources.folder import FolderSource

            sensor = settings.platform.landing_sensor
            settle_s = sensor.settle_s if source.settle_s is None else source.settle_s
            return FolderSource(
                name=name,
                path=settings.path(pull.path),
                pattern=pull.pattern,
                files_per_pull=pull.files_per_pull,
                settle_s=settle_s,
                on_change=pull.on_change,
            )
        case PostgresPull() as pull:
            from resources.pulled_sources.postgres import PostgresSource

            return PostgresSource(
                name=name,
                dsn=_variable(
                    name, pull.dsn_variable, "the connection string, as postgresql://USER:PASSWORD@HOST/NAME"
                ),
                table=pull.table,
                watermark=pull.watermark,
                key=pull.key,
                overlap=pull.overlap,
                rows_per_pull=pull.rows_per_pull,
            )
        case KafkaPull() as pull:
            from resources.pulled_sources.kafka import KafkaSource

            return KafkaSource(
                name=name,
                servers=pull.servers,
                topic=pull.topic,
                group=pull.group,
                messages_per_pull=pull.messages_per_pull,
                wait_s=pull.wait_s,
                properties={key: _resolved(name, key, value) for key, value in pull.properties.items()},
            )
        case None:
            raise ConfigurationError(f"source {name} has no `pull` in config/sources.yaml: add one")
        case unknown:
            assert_never(unknown)


def pull_once(name: str, source: Source, settings: Settings) -> Pulled:
    """Fetch one bounded batch of a pulled source into the landing zone.

    Raises:
        ConfigurationError: a person has to mend the source's entry, its rights or the environment.
        ServerUnavailableError: the other side does not answer; trying again later may help.
        PullUnderWayError: another process of this machine is pulling the source.
    """
    puller = puller_of(name, source, settings)
    try:
        with only_one(settings, "pulls", name, wait_s=_LOCK_WAIT_S):
            return puller.pull(settings.landing(), datetime.now(UTC))
    except UnderWayError:
        raise PullUnderWayError(f"source {name}: another pull is under way: wait for its end") from None


def missing_variables(source: Source) -> list[str]:
    """Variables of the environment that a pull of the source needs and that are not set."""
    match source.pull:
        case PostgresPull(dsn_variable=variable):
            needed = [variable]
        case KafkaPull(properties=properties):
            needed = [found[1] for value in properties.values() if (found := _VARIABLE.fullmatch(value))]
        case _:
            needed = []
    return [variable for variable in needed if not os.environ.get(variable)]


def _resolved(source: str, key: str, value: str) -> str:
    found = _VARIABLE.fullmatch(value)
    return _variable(source, found[1], f"the value of {key}") if found else value


def _variable(source: str, variable: str, meaning: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise ConfigurationError(
            f"source {source}: the environment variable {variable} is not set: set it to {meaning}, where feedback and "
            "Dagster are started"
        )
    return value
