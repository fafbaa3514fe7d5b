"""The errors a resource raises; each message is one line that says what happened and what to do.

Nothing that a caller could handle as data belongs here: bad data is counted and kept, not raised.
"""


class ResourceError(Exception):
    """Something outside the process did not do what it should; the message says what to do."""


class ConfigurationError(ResourceError):
    """A file, a setting or an argument that the user must correct; trying again will not help."""


class ServerUnavailableError(ResourceError):
    """A server cannot be reached or is not ready; trying again may help."""
