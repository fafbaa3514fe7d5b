"""The errors a resource raises; each message is one line that says what happened and what to do.

Nothing that a caller could handle as data belongs here: bad data is counted and kept, not raised.
"""

import errno
from pathlib import Path
from typing import Final

_FAULTS: Final = frozenset(
    {
        errno.EIO,
        errno.ESTALE,
        errno.ENODEV,
        errno.ENXIO,
        errno.EREMOTEIO,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
        errno.ENOTCONN,
    }
)
"""What a broken disk or a network drive that is away answers."""


class ResourceError(Exception):
    """Something outside the process did not do what it should; the message says what to do."""


class ConfigurationError(ResourceError):
    """A file, a setting or an argument that the user must correct; trying again will not help."""


class ServerUnavailableError(ResourceError):
    """A server cannot be reached or is not ready; trying again may help."""


def is_storage_fault(error: OSError) -> bool:
    """Whether the disk or network drive is at fault, and not what lies on it or who may read it."""
    return error.errno in _FAULTS


def unreadable(path: Path, error: OSError) -> ResourceError:
    """What to raise where a file cannot be read."""
    if is_storage_fault(error):
        return ServerUnavailableError(f"{path} cannot be read ({error.strerror}): look after its disk or network drive")
    return ConfigurationError(f"{path} cannot be read ({error.strerror or error}): allow reading it")
