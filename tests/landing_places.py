"""An empty landing zone of each kind, for tests that hold for all of them.

A test module that uses it says `pytest_plugins = ["tests.s3", "tests.landing_places"]`, and its tests take the
fixture `place`; `local_place` and `s3_place` are for what holds for one kind only.
"""

from pathlib import Path
from typing import Protocol

import pytest

from resources.landing_zone import LandingZoneResource
from tests.s3 import Bucket


class Place(Protocol):
    """A landing zone, and what others do to it."""

    zone: LandingZoneResource

    def put(self, relative: str, content: bytes | str = "x") -> None:
        """Let someone else put a file below the root, under any name."""

    def get(self, relative: str) -> bytes: ...

    def delete(self, relative: str) -> None: ...

    def names(self) -> list[str]:
        """All that is below the root, landed or not, sorted."""


class LocalPlace:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.zone = LandingZoneResource(root=str(root))

    def put(self, relative: str, content: bytes | str = "x") -> None:
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def get(self, relative: str) -> bytes:
        return (self.root / relative).read_bytes()

    def delete(self, relative: str) -> None:
        (self.root / relative).unlink()

    def names(self) -> list[str]:
        return sorted(path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file())


class BucketPlace:
    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.zone = LandingZoneResource(root=f"{bucket.uri}/acme/landing/")

    def put(self, relative: str, content: bytes | str = "x") -> None:
        self.bucket.put(f"acme/landing/{relative}", content)

    def get(self, relative: str) -> bytes:
        return self.bucket.get(f"acme/landing/{relative}")

    def delete(self, relative: str) -> None:
        self.bucket.delete(f"acme/landing/{relative}")

    def names(self) -> list[str]:
        return [key.removeprefix("acme/landing/") for key in self.bucket.all_keys()]


@pytest.fixture
def local_place(tmp_path: Path) -> LocalPlace:
    return LocalPlace(tmp_path / "landing")


@pytest.fixture
def s3_place(s3_bucket: Bucket) -> BucketPlace:
    return BucketPlace(s3_bucket)


@pytest.fixture(params=["local_place", "s3_place"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found
