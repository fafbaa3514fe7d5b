"""The landing zone: files in one folder a day, made visible only when complete.

What is inside a file belongs to `resources/record_files.py`; what a file means, to the callers.
"""

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
from pydantic import Field

from resources.errors import ConfigurationError

_UNFINISHED_PREFIXES = (".", "_", "~")
_UNFINISHED_SUFFIXES = (".part", ".partial", ".filepart", ".tmp", ".temp", ".crdownload", ".download", ".swp", "~")
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, order=True)
class LandedFile:
    """One complete file of the landing zone."""

    uri: str
    """Path relative to the zone's root, with forward slashes: `<day>/[<folder>/…]<name>`."""
    path: Path
    size_bytes: int
    modified_at: datetime
    """UTC."""

    @property
    def day(self) -> date:
        """The day of arrival."""
        return date.fromisoformat(self.uri.split("/")[0])

    @property
    def folder(self) -> str | None:
        """The folder between the day and the name, if there is one."""
        parts = self.uri.split("/")
        return parts[1] if len(parts) > 2 else None  # noqa: PLR2004

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.path.name

    def content_hash(self) -> str:
        """SHA-256 of the bytes, in hex."""
        return content_hash(self.path)


class LandingZoneResource(dg.ConfigurableResource[None]):
    """Files by day of arrival: `<root>/<YYYY-MM-DD>/<name>` or `<root>/<YYYY-MM-DD>/<folder>/<name>`."""

    root: str = Field(description="Folder that holds one sub-folder a day.")

    def days(self) -> list[date]:
        """Days that have a folder, ascending; other folders are no days and are left alone."""
        root = Path(self.root)
        if not root.is_dir():
            return []
        return sorted(day for entry in root.iterdir() if entry.is_dir() and (day := _as_day(entry.name)))

    def folder(self, day: date) -> Path:
        """Where the files of `day` lie."""
        return Path(self.root) / day.isoformat()

    def files(self, day: date) -> list[LandedFile]:
        """The complete files of `day`, by name; hidden, underscored and temporary names are skipped."""
        folder = self.folder(day)
        if not folder.is_dir():
            return []
        found: list[LandedFile] = []
        for path in sorted(folder.rglob("*"), key=lambda path: (len(path.parts), path)):
            inner = path.relative_to(folder)
            if not path.is_file() or any(_is_unfinished(part) for part in inner.parts):
                continue
            stat = path.stat()
            found.append(
                LandedFile(
                    uri=f"{day.isoformat()}/{inner.as_posix()}",
                    path=path,
                    size_bytes=stat.st_size,
                    modified_at=datetime.fromtimestamp(stat.st_mtime, UTC),
                )
            )
        return found

    def land(self, file: Path, day: date, folder: str | None = None) -> LandedFile:
        """Copy `file` into `day`; it appears under its name only when every byte is on disk.

        Landing the same content under the same name again changes nothing, not even its time stamp.

        Raises:
            ConfigurationError: the file cannot be read, the zone cannot be written, or the name is one that the
                zone takes for an unfinished file.
        """
        target = self.folder(day) / (folder or "") / file.name
        if _is_unfinished(file.name):
            raise ConfigurationError(f"{file} is named like a hidden or unfinished file: rename it to land it")
        try:
            if not (target.is_file() and content_hash(target) == content_hash(file)):
                target.parent.mkdir(parents=True, exist_ok=True)
                _copy_durably(file, target)
        except OSError as error:
            place = error.filename or target
            raise ConfigurationError(
                f"{file} cannot be landed at {target} ({error.strerror}: {place}): check that the file can be read "
                "and the landing zone can be written"
            ) from error
        return next(landed for landed in self.files(day) if landed.path == target)

    def write_note(self, day: date, folder: str, name: str, text: str) -> Path:
        """Write a small file that belongs to `folder` but is no landed data; `name` begins with an underscore.

        Raises:
            ConfigurationError: the zone cannot be written.
        """
        target = self.folder(day) / folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=target.parent, prefix=".", delete=False, encoding="utf-8"
            ) as note:
                note.write(text)
            Path(note.name).chmod(0o644)
            Path(note.name).replace(target)
        except OSError as error:
            raise ConfigurationError(f"{target} cannot be written ({error.strerror}): allow writing there") from error
        return target


def content_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copy_durably(source: Path, target: Path) -> None:
    with (
        source.open("rb") as bytes_in,
        tempfile.NamedTemporaryFile(dir=target.parent, prefix=".landing-", delete=False) as bytes_out,
    ):
        try:
            shutil.copyfileobj(bytes_in, bytes_out, _CHUNK_BYTES)
            bytes_out.flush()
            os.fsync(bytes_out.fileno())
            os.fchmod(bytes_out.fileno(), 0o644)
            Path(bytes_out.name).replace(target)
        except BaseException:
            Path(bytes_out.name).unlink(missing_ok=True)
            raise


def _is_unfinished(name: str) -> bool:
    return name.startswith(_UNFINISHED_PREFIXES) or name.lower().endswith(_UNFINISHED_SUFFIXES)


def _as_day(name: str) -> date | None:
    try:
        day = date.fromisoformat(name)
    except ValueError:
        return None
    return day if day.isoformat() == name else None
