"""Files that others put into a folder or a bucket, by no day: each new or changed one is copied into the landing zone.

What is in the files belongs to the callers. Credentials of a bucket are those of the environment.

**Names.** A file lands as `<day of the pull>/<source>/<name>`, where the name is its path in the folder with `__` for
each slash: `shop/eu/a.csv` becomes `shop__eu__a.csv`. Where that name would not lead back to the path, is too long, or
is taken by something else, a hash of the file's place goes before it: `3f2a9c1b2d4e@a__b.csv`.

**What was taken** is noted in the landing zone beside the days, in `_pulled/<source>.json`: under which name each file
landed, and in which state it was. A file that has changed since then is copied over its earlier copy; or, with
`on_change="add"`, it lands beside it as `<day of the pull>/<source>/<hash>@<name>`, where the hash is that of place
and state, unless its content is still the same. A name is noted before it is used, so that a pull that broke off is
repeated in the same places. Without the notes every file lands again, under the day of that pull.

A file that is gone stays noted for 400 days, so that it may come back and be known. One process at a time may pull a
source; to see to that is up to the callers.
"""

import hashlib
import os
import re
import time
from collections import deque
from collections.abc import Container, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from resources.errors import ConfigurationError
from resources.landing_zone import LandedFile, LandingZoneResource, is_unfinished
from resources.object_store import ObjectStore, StoredFile, open_store
from resources.pulled_sources import Pulled

_FILES_PER_NOTE: Final = 25
"""So many files are noted at once: more would be repeated after a crash, fewer would write the notes more often."""

_UNREADABLE: Final = 100
"""A pull that meets so many files that it cannot read is given up."""

_GONE: Final = timedelta(days=400)
"""A file that is gone stays noted for so long."""

_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\\]")
"""What the landing zone takes in no name, but for the slash."""
_HASHED: Final = re.compile(r"[0-9a-f]{12}@")
_NAME_BYTES: Final = 200
"""File systems take 255, of which the hash needs some."""


class _Copy(BaseModel):
    """Where a file of the source lands."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    day: date
    name: str
    state: str | None
    """Size, time and etag of what was copied; None before it is."""
    begun: str | None = None
    """The state of what is about to be copied."""


_NOTES: Final = TypeAdapter(dict[str, _Copy])


@dataclass(frozen=True)
class FolderSource:
    """The files of one folder and its sub-folders; see the module for how they land."""

    name: str
    """Of the source; its folder in the landing zone."""
    path: str
    """Folder, or s3://bucket/prefix."""
    pattern: str = "*"
    """Which files are taken, by their own names; hidden and unfinished ones never are."""
    files_per_pull: int = 1000
    seconds_per_pull: float = 15
    """No more files are begun after so long; the first always is."""
    settle_s: float = 0
    """A file that was written less long ago is left alone, in seconds; objects of a bucket are always complete."""
    on_change: Literal["replace", "add"] = "replace"
    """Whether a changed file takes the place of its earlier copy, or lands beside it."""

    def pull(self, zone: LandingZoneResource, now: datetime) -> Pulled:
        """Land files that are new or have changed, the oldest first, in the day of `now` (UTC), up to the bounds.

        A file that cannot be read does not keep the others from landing.

        Raises:
            ConfigurationError: there is no such folder, a file in it cannot be read, it holds the landing zone, its
                notes are damaged, or the landing zone cannot be written.
            ServerUnavailableError: an object store does not answer.
        """
        store = self._open(zone)
        notes = _Notes(zone, self.name, now.astimezone(UTC).date(), adds=self.on_change == "add")
        files = {store.location(file.uri): file for file in store.files("", is_unfinished)}
        new = [place for place, file in files.items() if self._is_wanted(file, now) and not notes.hold(place, file)]
        new.sort(key=lambda place: (files[place].modified_at, place))
        landed: list[LandedFile] = []
        unreadable: list[ConfigurationError] = []
        left, bound = deque(new), self.files_per_pull
        end = time.monotonic() + self.seconds_per_pull
        is_late = False
        while left and bound and not is_late and len(unreadable) < _UNREADABLE:
            group = [left.popleft() for _ in range(min(len(left), bound, _FILES_PER_NOTE))]
            earlier = notes.plan({place: files[place] for place in group})
            for place in group:
                if is_late:
                    notes.put_back(place, earlier[place])
                    left.append(place)
                    continue
                try:
                    copy, new_file = self._land(store, files[place], zone, notes.copies[place], earlier[place])
                except _NotCopiedError as error:
                    notes.put_back(place, earlier[place])
                    unreadable += [error.problem] if error.problem else []
                else:
                    # The state of the listing: if the file has changed since then, the next pull copies it once more.
                    notes.copies[place] = copy.model_copy(update={"state": _state(files[place]), "begun": None})
                    landed += [new_file] if new_file else []
                    bound -= 1
                is_late = time.monotonic() >= end
        if new:
            notes.drop_gone(files)
            notes.write()
        if unreadable:
            raise unreadable[0]
        return Pulled(landed, len(landed), more=bool(left))

    def _open(self, zone: LandingZoneResource) -> ObjectStore:
        if "://" not in self.path and not os.path.isdir(self.path):  # noqa: PTH112 - never raises
            raise ConfigurationError(f"source {self.name}: {self.path} is no folder: create it, or correct its `path`")
        if _whole(zone.root).startswith(_whole(self.path)):
            raise ConfigurationError(
                f"source {self.name}: {self.path} holds the landing zone, whose files would land again and again: "
                "correct its `path`"
            )
        return open_store(self.path)

    def _is_wanted(self, file: StoredFile, now: datetime) -> bool:
        # A time stamp from the future, of a clock that is wrong, must not hold a file up for ever.
        has_settled = file.etag is not None or abs((now - file.modified_at).total_seconds()) >= self.settle_s
        return has_settled and fnmatchcase(file.uri.rsplit("/", 1)[-1], self.pattern)

    def _land(
        self, store: ObjectStore, file: StoredFile, zone: LandingZoneResource, copy: _Copy, earlier: _Copy | None
    ) -> tuple[_Copy, LandedFile | None]:
        """Copy one file, and tell where it is; nothing lands where its earlier copy has the same content."""
        with ExitStack() as stack:
            try:
                path = stack.enter_context(store.fetch(file.uri))
            except FileNotFoundError:
                raise _NotCopiedError(None) from None
            except ConfigurationError as error:
                raise _NotCopiedError(error) from error
            if earlier and zone.holds(path, zone.uri_of(earlier.day, self.name, earlier.name)):
                return earlier, None
            return copy, zone.land(path, copy.day, self.name, copy.name)


class _NotCopiedError(Exception):
    """A file of the source is gone again, or cannot be read, for the reason given."""

    def __init__(self, problem: ConfigurationError | None) -> None:
        super().__init__(problem)
        self.problem = problem


class _Notes:
    """What was taken from where to where, as it is kept in the landing zone."""

    def __init__(self, zone: LandingZoneResource, source: str, today: date, *, adds: bool) -> None:
        self._zone = zone
        self._source = source
        self._today = today
        self._adds = adds
        self._text = f"_pulled/{source}.json"
        try:
            self.copies = _NOTES.validate_json(zone.read_text(self._text) or "{}")
            """By the file's place, a whole path or URI."""
        except ValidationError as error:
            raise ConfigurationError(
                f"source {source}: {zone.location(self._text)} is damaged ({error.errors()[0]['msg']}): restore it, or "
                "remove it, and every file that is there lands again, where content that was read before counts once"
            ) from None

    def hold(self, place: str, file: StoredFile) -> bool:
        """Whether the file was copied in the state in which it is now."""
        copy = self.copies.get(place)
        return copy is not None and copy.state == _state(file)

    def plan(self, files: Mapping[str, StoredFile]) -> dict[str, _Copy | None]:
        """Note where some files will land, and return what was noted of them before."""
        earlier = {place: self.copies.get(place) for place in files}
        for place, file in files.items():
            copy, state = earlier[place], _state(file)
            if copy and not (self._adds and copy.begun != state):
                self.copies[place] = copy.model_copy(update={"state": None, "begun": state})
                continue
            # Of a file that adds, each state has a name of its own.
            origin = f"{place} {state}" if self._adds else place
            name = landed_name(file.uri, origin, hashed=copy is not None)
            if name in self._used_names:
                name = landed_name(file.uri, origin, hashed=True)
            self._used_names.add(name)
            self.copies[place] = _Copy(day=self._today, name=name, state=None, begun=state)
        self.write()
        return earlier

    def put_back(self, place: str, earlier: _Copy | None) -> None:
        """Note again what was noted before."""
        if earlier:
            self.copies[place] = earlier
        else:
            del self.copies[place]

    def drop_gone(self, there: Container[str]) -> None:
        """Forget what has been gone for long."""
        limit = self._today - _GONE
        self.copies = {place: copy for place, copy in self.copies.items() if place in there or copy.day >= limit}

    def write(self) -> None:
        """Keep the notes, whole."""
        self._zone.write_text(self._text, _NOTES.dump_json(self.copies, indent=1, exclude_defaults=True).decode())

    @cached_property
    def _used_names(self) -> set[str]:
        """The names that are taken today, by this source's files or by others."""
        landed = (file.uri.split("/", 2)[2] for file in self._zone.files_of(self._source, self._today))
        return {*landed, *(copy.name for copy in self.copies.values() if copy.day == self._today)}


def landed_name(path: str, place: str, *, hashed: bool = False) -> str:
    """The name under which a file lands; no two files of a source have the same.

    Args:
        path: in the source's folder.
        place: the whole path or URI; of a file that adds, with its state.
        hashed: whether the plain name is taken.
    """
    plain = _UNSAFE.sub("_", path.replace("/", "__"))
    leads_back = plain.replace("__", "/") == path and not _HASHED.match(plain)
    if leads_back and not hashed and len(plain.encode()) <= _NAME_BYTES:
        return plain
    end = plain.encode()[-_NAME_BYTES:].decode(errors="ignore")
    return f"{hashlib.sha256(place.encode()).hexdigest()[:12]}@{end}"


def _state(file: StoredFile) -> str:
    return " ".join(filter(None, (str(file.size_bytes), file.modified_at.isoformat(), file.etag)))


def _whole(root: str) -> str:
    """A root that can be compared with another, with a slash at its end."""
    return (root if "://" in root else str(Path(root).resolve())).rstrip("/") + "/"
