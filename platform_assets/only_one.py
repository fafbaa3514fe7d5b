"""Keeps two processes of one machine from doing the same thing at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from platform_assets.settings import Settings
from resources.errors import ConfigurationError, ServerUnavailableError


class UnderWayError(ServerUnavailableError):
    """Another process does it now."""


@contextmanager
def only_one(settings: Settings, kind: str, name: str, *, wait_s: float) -> Iterator[None]:
    """Hold the lock `.cache/<kind>/<name>.lock` of the project; it goes with the process, however that ends.

    Raises:
        UnderWayError: another process held it for `wait_s` seconds.
        ConfigurationError: the place cannot be written.
    """
    import filelock

    place = settings.project / ".cache" / kind / f"{name}.lock"
    lock = filelock.FileLock(place, timeout=wait_s)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except filelock.Timeout:
        raise UnderWayError(f"{name}: another process is at its {kind}: wait for its end") from None
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be written ({error.strerror}): allow writing there") from error
    try:
        yield
    finally:
        lock.release()
