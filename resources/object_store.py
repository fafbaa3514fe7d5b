"""Whole files under one root, in a folder or in a bucket: listed, read, and made visible only when complete.

What the files are called and what they are for belongs to the callers. The two kinds are `folder_store.py` and
`bucket_store.py`.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Protocol

from resources.errors import ConfigurationError

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, order=True)
class StoredFile:
    """One file as a listing shows it."""

    uri: str
    """Path relative to the store's root, with forward slashes."""
    size_bytes: int
    modified_at: datetime
    """UTC."""
    etag: str | None = None
    """Of an object store: changes with the content. None on a local disk."""


class ObjectStore(Protocol):
    """Files by `uri`, relative to one root.

    Every method raises ConfigurationError where a person must act (rights, a full disk, an unknown bucket) and
    ServerUnavailableError where trying again may help. Besides, `read` and `fetch` raise FileNotFoundError.
    """

    def location(self, uri: str) -> str:
        """The whole path or URI, for messages."""
        ...

    def folders(self, below: str) -> list[str]:
        """Names of the folders directly in the folder `below`, in no order; "" is the root."""
        ...

    def files(self, below: str, skip: Callable[[str], bool]) -> list[StoredFile]:
        """The files in the folder `below` and its sub-folders, in no order.

        Files and sub-folders with a name for which `skip` is true are left out, with everything in them.
        """
        ...

    def find(self, uri: str) -> StoredFile | None:
        """One file, or None where there is none."""
        ...

    def read(self, uri: str) -> Iterator[bytes]:
        """The bytes of a file, in chunks."""
        ...

    def fetch(self, uri: str) -> AbstractContextManager[Path]:
        """The file as a local one of the same name, which need not outlive the context."""
        ...

    def put(self, uri: str, content: IO[bytes]) -> None:
        """Store `content`, from where it stands to its end, in place of what was there; durable and atomic."""
        ...

    def spool(self, uri: str) -> AbstractContextManager[IO[bytes]]:
        """A temporary file to collect the bytes of `uri` in; it is gone after the context."""
        ...

    def put_if_absent(self, uri: str, spool: IO[bytes]) -> bool:
        """Store a spool of the same `uri`, durable and atomic; False, and no change, where there is such a file."""
        ...

    def delete(self, uri: str) -> None:
        """Remove a file; nothing happens where there is none."""
        ...


def open_store(root: str) -> ObjectStore:
    """The store at `root`, a folder or an `s3://bucket/prefix` URI; nothing is read or made yet.

    Raises:
        ConfigurationError: it is a URI of another kind.
    """
    if root.startswith("s3://"):
        from resources.bucket_store import BucketStore

        return BucketStore(root)
    if "://" in root:
        raise ConfigurationError(f"{root}: files are kept in a folder or at s3://bucket/prefix: correct the URI")
    from resources.folder_store import FolderStore

    return FolderStore(Path(root))
