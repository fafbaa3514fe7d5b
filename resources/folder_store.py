"""An `ObjectStore` in a folder of the local file system. Anything that talks to a server is `bucket_store.py`."""

import errno
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from resources.errors import ConfigurationError, unreadable
from resources.object_store import CHUNK_BYTES, StoredFile

_TEMPORARY = ".landing-"
_ABANDONED_S = 24 * 3600


class FolderStore:
    """Files below a folder. One appears by a link or a rename, when its bytes are on the disk."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._swept: set[Path] = set()

    def location(self, uri: str) -> str:
        """The whole path."""
        return str(self._root / uri)

    def folders(self, below: str) -> list[str]:
        """Names of the folders directly in `below`."""
        return [entry.name for entry in _entries(self._root / below) if entry.is_dir()]

    def files(self, below: str, skip: Callable[[str], bool]) -> list[StoredFile]:
        """The files in `below` and its sub-folders; links to folders are not followed."""
        found: list[StoredFile] = []
        folders = [below]
        while folders:
            folder = folders.pop()
            for entry in _entries(self._root / folder):
                uri = f"{folder}/{entry.name}" if folder else entry.name
                if skip(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(uri)
                elif file := self._described(uri, entry):
                    found.append(file)
        return found

    def find(self, uri: str) -> StoredFile | None:
        """One file, or None where there is none."""
        return self._described(uri, self._root / uri)

    def read(self, uri: str) -> Iterator[bytes]:
        """The bytes of a file, in chunks."""
        path = self._root / uri
        with _readable(path), path.open("rb") as content:
            while chunk := content.read(CHUNK_BYTES):
                yield chunk

    @contextmanager
    def fetch(self, uri: str) -> Iterator[Path]:
        """The file itself."""
        path = self._root / uri
        with _readable(path):
            path.open("rb").close()
        yield path

    def put(self, uri: str, content: IO[bytes]) -> None:
        """Store `content` in place of what was there."""
        target = self._root / uri
        with self.spool(uri) as spool, _writable(target):
            shutil.copyfileobj(content, spool, CHUNK_BYTES)
            _sync(spool)
            Path(spool.name).replace(target)
            _sync_folder(target.parent)

    @contextmanager
    def spool(self, uri: str) -> Iterator[IO[bytes]]:
        """A hidden file in the folder of `uri`."""
        folder = (self._root / uri).parent
        with _writable(self._root / uri):
            _make_folder(folder)
            self._sweep(folder)
            spool = tempfile.NamedTemporaryFile(dir=folder, prefix=_TEMPORARY, delete=False)  # noqa: SIM115
        try:
            yield spool
        finally:
            # Before the file is closed, and so before a full disk can stop its last bytes.
            Path(spool.name).unlink(missing_ok=True)
            with suppress(OSError):
                spool.close()

    def put_if_absent(self, uri: str, spool: IO[bytes]) -> bool:
        """Store a spool of the same `uri`, unless there is such a file."""
        target = self._root / uri
        with _writable(target):
            _sync(spool)
            try:
                # A rename would replace the file of a faster process.
                target.hardlink_to(spool.name)
            except FileExistsError:
                return False
            _sync_folder(target.parent)
        return True

    def delete(self, uri: str) -> None:
        """Remove a file, if it is there."""
        with _writable(self._root / uri):
            (self._root / uri).unlink(missing_ok=True)

    def _described(self, uri: str, entry: Path | os.DirEntry[str]) -> StoredFile | None:
        """A regular file, or None for anything else; it may have gone since it was listed."""
        try:
            entry.name.encode()
            state = entry.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeEncodeError:
            name = uri.encode("utf-8", "backslashreplace").decode()
            raise ConfigurationError(f"{self._root}: the file name {name} is not UTF-8: rename the file") from None
        except OSError as error:
            raise unreadable(self._root / uri, error) from error
        if not stat.S_ISREG(state.st_mode):
            return None
        return StoredFile(uri, state.st_size, datetime.fromtimestamp(state.st_mtime, UTC))

    def _sweep(self, folder: Path) -> None:
        """Remove what a process that was killed has left, once a folder."""
        if folder in self._swept:
            return
        self._swept.add(folder)
        before = time.time() - _ABANDONED_S
        for entry in _entries(folder):
            if entry.name.startswith(_TEMPORARY):
                with suppress(OSError):
                    if entry.stat().st_mtime < before:
                        Path(entry.path).unlink()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing where there is no folder."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise unreadable(folder, error) from error


def _make_folder(folder: Path) -> None:
    """Make a folder that outlives a power failure."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError as error:
        raise ConfigurationError(f"{folder} is a file where a folder has to be: move it away") from error
    _sync_folder(folder.parent)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fchmod(file.fileno(), 0o644)
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of a file system that has no such thing
            raise
    finally:
        os.close(descriptor)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        raise FileNotFoundError(error.errno, error.strerror, error.filename) from error
    except OSError as error:
        raise unreadable(path, error) from error


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written ({error.strerror}): make room, or allow writing there"
        ) from error
