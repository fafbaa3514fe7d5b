"""Writes a new file of the landing zone line by line; it appears whole, or not at all.

Which lines, and what the file is called, belongs to the callers.
"""

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from resources.errors import ConfigurationError
from resources.object_store import ObjectStore

if TYPE_CHECKING:
    from resources.landing_zone import LandedFile


class AlreadyLandedError(Exception):
    """Another process was faster: a file of that name is there, and this one was not written."""


class LandingWriter:
    """Collects lines in a temporary file. `land` makes it a landed one; without that it leaves no file behind."""

    def __init__(self, store: ObjectStore, uri: str, find: Callable[[str], "LandedFile"]) -> None:
        self.records = 0
        """Lines appended so far."""
        self._store = store
        self._uri = uri
        self._find = find
        self._spool: IO[bytes] | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    def append(self, line: bytes | str) -> None:
        """Add one line, given without its line feed.

        Raises:
            ValueError: a line feed is in it, or it cannot be UTF-8.
            ConfigurationError: the temporary file cannot be written.
        """
        content = line.encode() if isinstance(line, str) else line
        if b"\n" in content:
            raise ValueError("a line feed in a line would make two of it")
        if self._spool is None:
            self._spool = self._open.enter_context(self._store.spool(self._uri))
        try:
            self._spool.write(content + b"\n")
        except OSError as error:
            raise ConfigurationError(
                f"{self._store.location(self._uri)} cannot be prepared ({error.strerror}): make room for it"
            ) from error
        self.records += 1

    def land(self) -> "LandedFile | None":
        """Let the file appear under its name; None, and no file, where nothing was appended.

        Raises:
            AlreadyLandedError: a file of that name is there already; it is as it was.
            ConfigurationError: the zone cannot be written.
            ServerUnavailableError: the object store does not answer.
        """
        if self._spool is None:
            return None
        is_new = self._store.put_if_absent(self._uri, self._spool)
        self._open.close()
        if not is_new:
            raise AlreadyLandedError(f"{self._store.location(self._uri)} is there already")
        return self._find(self._uri)
