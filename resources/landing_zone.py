"""The landing zone: files by day of arrival, in a folder or a bucket, made visible only when complete.

What is inside a file belongs to `resources/record_files/`; what a file means, to the callers.
"""

import hashlib
import io
import os
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import dagster as dg
from pydantic import Field, PrivateAttr

from resources.errors import ConfigurationError, ServerUnavailableError
from resources.landing_writer import LandingWriter
from resources.object_store import ObjectStore, StoredFile, open_store

_UNFINISHED_PREFIXES = (".", "_", "~")
_UNFINISHED_SUFFIXES = (".part", ".partial", ".filepart", ".tmp", ".temp", ".crdownload", ".download", ".swp", "~")


@dataclass(frozen=True, order=True)
class LandedFile(StoredFile):
    """One complete file of the landing zone; its `uri` is `<day>/[<folder>/…]<name>`."""

    @property
    def day(self) -> date:
        """The day of arrival."""
        return date.fromisoformat(self.uri.split("/")[0])

    @property
    def folder(self) -> str | None:
        """The folder between the day and the name, if there is one; of several the first."""
        parts = self.uri.split("/")
        return parts[1] if len(parts) > 2 else None  # noqa: PLR2004

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.uri.rsplit("/", 1)[-1]


class LandingZoneResource(dg.ConfigurableResource[None]):
    """Files by day of arrival: `<root>/<YYYY-MM-DD>/<name>` or `<root>/<YYYY-MM-DD>/<folder>/<name>`.

    Any method raises ConfigurationError where the zone cannot be read or written, and ServerUnavailableError where
    an object store does not answer.
    """

    root: str = Field(description="Folder, or s3://bucket/prefix, that holds one folder a day.")

    _store: ObjectStore | None = PrivateAttr(None)

    def days(self) -> list[date]:
        """Days that have a folder, ascending; other folders are no days and are left alone."""
        return sorted(day for name in self._files.folders("") if (day := _as_day(name)))

    def folders(self, day: date) -> list[str]:
        """Names of the folders directly in `day`, sorted; hidden and temporary ones are skipped."""
        return sorted(name for name in self._files.folders(day.isoformat()) if not is_unfinished(name))

    def files(self, day: date) -> list[LandedFile]:
        """The complete files of `day`, by name, those of folders last; hidden and temporary names are skipped."""
        return self._landed(day.isoformat())

    def files_of(self, folder: str, day: date) -> list[LandedFile]:
        """The complete files in one folder of `day` and its sub-folders; no other folder is looked at."""
        return [] if any(map(is_unfinished, folder.split("/"))) else self._landed(f"{day.isoformat()}/{folder}")

    def find(self, uri: str) -> LandedFile | None:
        """The complete file at `uri`, or None where there is none."""
        day, *inner = uri.split("/")
        if not inner or _as_day(day) is None or any(map(is_unfinished, inner)):
            return None
        found = self._files.find(uri)
        return _as_landed(found) if found else None

    @contextmanager
    def fetch(self, file: LandedFile) -> Iterator[Path]:
        """The file as a local one of the same name: itself, or a download that is removed after the context.

        Raises:
            ServerUnavailableError: it is no longer there.
        """
        with ExitStack() as stack:
            with self._still_there(file):
                path = stack.enter_context(self._files.fetch(file.uri))
            yield path

    def content_hash(self, file: LandedFile) -> str:
        """SHA-256 of the bytes, in hex; of an object they are downloaded for it.

        Raises:
            ServerUnavailableError: it is no longer there.
        """
        digest = hashlib.sha256()
        with self._still_there(file):
            for chunk in self._files.read(file.uri):
                digest.update(chunk)
        return digest.hexdigest()

    def uri_of(self, day: date, folder: str | None, name: str) -> str:
        """What a file will be called as a landed one.

        Raises:
            ConfigurationError: the zone takes the name for an unfinished file, or it would not be safe in a URI.
        """
        inner = f"{folder}/{name}" if folder else name
        for part in (*(folder.split("/") if folder else ()), name):
            if is_unfinished(part):
                raise ConfigurationError(f"{inner} is named like a hidden or unfinished file: rename it to land it")
            if any(char in "/\\" or unicodedata.category(char) in {"Cc", "Cs"} for char in part):
                raise ConfigurationError(
                    f"{inner!a} has a slash or a control character in a name: rename it to land it"
                )
        return f"{day.isoformat()}/{inner}"

    def holds(self, file: Path, uri: str) -> bool:
        """Whether the landed file `uri` has the content of the local `file`.

        Raises:
            ConfigurationError: `file` cannot be read.
        """
        with _opened(file) as content:
            return self._holds(content, uri)

    def land(self, file: Path, day: date, folder: str | None = None, name: str | None = None) -> LandedFile:
        """Copy `file` into `day`; it appears under its name, or `name`, only when every byte is stored.

        Landing the same content under the same name again changes nothing, not even its time stamp. Other content
        takes the place of what was there.

        Raises:
            ConfigurationError: the file cannot be read, the zone cannot be written, or the name is one that the
                zone takes for an unfinished file.
        """
        uri = self.uri_of(day, folder, name or file.name)
        with _opened(file) as content:
            if not self._holds(content, uri):
                content.seek(0)
                self._files.put(uri, content)
        return self._just_landed(uri)

    def writer(self, day: date, folder: str, name: str) -> LandingWriter:
        """Begin a new file, line by line; nothing is written before the first line.

        Raises:
            ConfigurationError: the name is one that the zone takes for an unfinished file.
        """
        return LandingWriter(self._files, self.uri_of(day, folder, name), self._just_landed)

    def read_text(self, relative: str) -> str | None:
        """A small UTF-8 text below the root, landed data or not; None where there is none.

        Raises:
            ConfigurationError: it is no UTF-8.
        """
        try:
            return b"".join(self._files.read(relative)).decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise ConfigurationError(
                f"{self.location(relative)} cannot be read ({error}): make it a readable UTF-8 file"
            ) from None

    def write_text(self, relative: str, text: str) -> None:
        """Put a small text below the root, whole, in place of what was there.

        It is no landed file if its name begins with an underscore.
        """
        self._files.put(relative, io.BytesIO(text.encode()))

    def location(self, relative: str) -> str:
        """The whole path or URI of something below the root, for messages."""
        return self._files.location(relative)

    @property
    def _files(self) -> ObjectStore:
        if self._store is None:
            self._store = open_store(self.root)
        return self._store

    def _landed(self, below: str) -> list[LandedFile]:
        found = [_as_landed(file) for file in self._files.files(below, is_unfinished)]
        return sorted(found, key=lambda file: (file.uri.count("/"), file.uri.split("/")))

    def _just_landed(self, uri: str) -> LandedFile:
        found = self.find(uri)
        if found is None:
            raise ServerUnavailableError(f"{self.location(uri)} was taken away as soon as it had landed: look who did")
        return found

    def _holds(self, content: io.BufferedReader, uri: str) -> bool:
        found = self.find(uri)
        if found is None or found.size_bytes != os.fstat(content.fileno()).st_size:
            return False
        return self.content_hash(found) == hashlib.file_digest(content, "sha256").hexdigest()

    @contextmanager
    def _still_there(self, file: LandedFile) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise ServerUnavailableError(
                f"{self.location(file.uri)} was taken away while it was looked at: run it again"
            ) from error


def content_hash(path: Path) -> str:
    """SHA-256 of a local file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _opened(file: Path) -> Iterator[io.BufferedReader]:
    try:
        content = file.open("rb")
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be landed ({error.strerror}): check that it is a file that can be read"
        ) from error
    with content:
        yield content


def _as_landed(file: StoredFile) -> LandedFile:
    return LandedFile(file.uri, file.size_bytes, file.modified_at, file.etag)


def is_unfinished(name: str) -> bool:
    """Whether a file or folder is hidden, underscored or named like one that is still being written."""
    return not name or name.startswith(_UNFINISHED_PREFIXES) or name.lower().endswith(_UNFINISHED_SUFFIXES)


def _as_day(name: str) -> date | None:
    try:
        day = date.fromisoformat(name)
    except ValueError:
        return None
    return day if day.isoformat() == name else None
