"""An `ObjectStore` under a prefix of an S3 bucket; AWS's own, or that of any server with conditional puts.

Address and credentials are those of the environment, as for Delta tables: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP.
"""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from resources.errors import ConfigurationError, ResourceError, ServerUnavailableError
from resources.object_store import CHUNK_BYTES, StoredFile

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import S3Config, S3Store

_ANSWER_S: Final = 30
"""Longest wait for an answer that is short."""
_TRANSFER_S: Final = 300
"""Longest time for the bytes of one file, or of one part of a big one."""
_MAX_RETRIES: Final = 3
_PAGE: Final = 1000
_TRANSIENT: Final = (408, 429)
"""Refusals that another try may not meet: time-out, too many requests."""


class BucketStore:
    """Objects below `s3://bucket/prefix`; S3 shows an object only when it is complete."""

    def __init__(self, uri: str) -> None:
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        if not bucket:
            raise ConfigurationError(f"{uri} names no bucket: write it as s3://bucket/prefix")
        self._bucket = bucket
        self._prefix = prefix.strip("/")

    def location(self, uri: str) -> str:
        """The whole URI."""
        return "/".join(part for part in (f"s3://{self._bucket}", self._prefix, uri) if part)

    def folders(self, below: str) -> list[str]:
        """Names of the folders directly in `below`; an object store has those that hold anything."""
        with self._told(below):
            found = self._quick.list_with_delimiter(below or None)
        return [folder.rsplit("/", 1)[-1] for folder in found["common_prefixes"]]

    def files(self, below: str, skip: Callable[[str], bool]) -> list[StoredFile]:
        """The objects in `below` and its sub-folders."""
        start = len(below) + 1 if below else 0
        with self._told(below):
            listed = [one for page in self._quick.list(below or None, chunk_size=_PAGE) for one in page]
        return [
            _described(one)
            for one in listed
            if not _is_folder(one, below) and not any(skip(part) for part in one["path"][start:].split("/"))
        ]

    def find(self, uri: str) -> StoredFile | None:
        """One object, or None where there is none."""
        try:
            with self._told(uri):
                return _described(self._quick.head(uri))
        except FileNotFoundError:
            return None

    def read(self, uri: str) -> Iterator[bytes]:
        """The bytes of an object, in chunks."""
        with self._told(uri):
            chunks = iter(self._bulk.get(uri).stream(CHUNK_BYTES))
        while True:
            with self._told(uri):
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield bytes(chunk)

    @contextmanager
    def fetch(self, uri: str) -> Iterator[Path]:
        """A copy in the folder for temporary files."""
        with tempfile.TemporaryDirectory(prefix="landed-") as folder:
            path = Path(folder) / uri.rsplit("/", 1)[-1]
            try:
                with path.open("wb") as copy:
                    for chunk in self.read(uri):
                        copy.write(chunk)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise ConfigurationError(
                    f"{path} cannot be written ({error.strerror}): make room, or set TMPDIR to another folder"
                ) from error
            yield path

    def put(self, uri: str, content: IO[bytes]) -> None:
        """Store `content` in place of what was there; a big one in parts."""
        with self._told(uri, writes=True):
            self._bulk.put(uri, content)

    @contextmanager
    def spool(self, uri: str) -> Iterator[IO[bytes]]:
        """A file without a name; it goes with its process."""
        del uri
        with tempfile.TemporaryFile() as spool:
            yield spool

    def put_if_absent(self, uri: str, spool: IO[bytes]) -> bool:
        """Store a spool, unless there is such an object; S3 takes it in one piece, which has to fit into memory."""
        from obstore.exceptions import AlreadyExistsError

        spool.seek(0)
        try:
            with self._told(uri, writes=True):
                self._bulk.put(uri, spool, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def delete(self, uri: str) -> None:
        """Remove an object, if it is there."""
        with self._told(uri, writes=True):
            self._quick.delete(uri)

    @cached_property
    def _quick(self) -> "S3Store":
        return self._open(_ANSWER_S)

    @cached_property
    def _bulk(self) -> "S3Store":
        return self._open(_TRANSFER_S)

    def _open(self, timeout_s: int) -> "S3Store":
        from obstore.store import S3Store

        # Not as `client_options`: those would replace what the environment says of the client, AWS_ALLOW_HTTP too.
        config = cast("S3Config", {"timeout": f"{timeout_s}s", "connect_timeout": "5s"})
        return S3Store(
            self._bucket,
            prefix=self._prefix or None,
            config=config,
            retry_config={"max_retries": _MAX_RETRIES, "retry_timeout": timedelta(seconds=_ANSWER_S)},
        )

    @contextmanager
    def _told(self, uri: str, *, writes: bool = False) -> Iterator[None]:
        """Turn the library's errors into ours, but for AlreadyExistsError and the FileNotFoundError of a reader."""
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            yield
        except AlreadyExistsError:
            raise
        except FileNotFoundError as error:
            # Of an object that is not there yet, or of a bucket that is not.
            if writes or "NoSuchBucket" in str(error):
                raise self._problem(uri, error) from error
            raise
        except (BaseError, ValueError) as error:
            raise self._problem(uri, error) from error

    def _problem(self, uri: str, error: Exception) -> ResourceError:
        message = " ".join(str(error).split("Debug source:")[0].split())
        answer = re.search(r"status code: (\d{3})", message)
        status = int(answer[1]) if answer else 0
        code = re.search(r"<Code>(\w+)</Code>", message)
        reason = code[1] if code else message[:300]
        to_mend = (
            (
                "/latest/api/token" in message or "/latest/meta-data" in message,
                "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ),
            (
                "builder error" in message,
                "AWS_ENDPOINT_URL cannot be used: correct it; one with http:// needs AWS_ALLOW_HTTP=true",
            ),
            (
                status in {401, 403},
                f"access denied ({code[1] if code else status}): check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY "
                "and the rights on the bucket",
            ),
            ("NoSuchBucket" in message, f"there is no bucket {self._bucket}: create it, or correct the URI"),
            (
                isinstance(error, ValueError) or type(error).__name__ == "InvalidPathError",
                f"an object's key is no path ({reason}): rename or remove the object",
            ),
            (
                300 <= status < 500 and status not in _TRANSIENT,  # noqa: PLR2004
                f"refused ({status} {reason}): check the URI, AWS_REGION and AWS_ENDPOINT_URL",
            ),
        )
        place = self.location(uri)
        for applies, what in to_mend:
            if applies:
                return ConfigurationError(f"{place}: {what}")
        return ServerUnavailableError(f"{place}: no answer ({reason}): check AWS_ENDPOINT_URL, or try again later")


def _described(found: "ObjectMeta") -> StoredFile:
    etag = found["e_tag"]
    return StoredFile(found["path"], found["size"], found["last_modified"], etag.strip('"') if etag else None)


def _is_folder(found: "ObjectMeta", below: str) -> bool:
    """Whether it is the empty object `<folder>/` by which consoles keep a folder; the listing drops the slash."""
    return found["path"] == below or (found["size"] == 0 and "." not in found["path"].rsplit("/", 1)[-1])
