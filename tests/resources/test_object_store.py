import io
from pathlib import Path

import pytest

from resources.errors import ConfigurationError
from resources.object_store import ObjectStore, open_store
from tests.s3 import Bucket

pytest_plugins = ["tests.s3"]


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "folder":
        return open_store(str(tmp_path / "files"))
    bucket: Bucket = request.getfixturevalue("s3_bucket")
    return open_store(f"{bucket.uri}/files")


def test_a_deleted_file_is_gone_and_deleting_it_again_changes_nothing(store: ObjectStore) -> None:
    for name in ("day=2026-09-01/a", "day=2026-09-01/b"):
        store.put(name, io.BytesIO(b"x"))
    store.delete("day=2026-09-01/a")
    store.delete("day=2026-09-01/a")
    store.delete("nowhere/a")
    assert [file.uri for file in store.files("", lambda _: False)] == ["day=2026-09-01/b"]


def test_skipped_names_are_left_out_with_all_that_is_in_them(store: ObjectStore) -> None:
    for name in ("a.csv", "b.csv", "old/c.csv", "new/old/d.csv", "new/e.csv"):
        store.put(name, io.BytesIO(b"x"))
    found = store.files("", lambda name: name in {"old", "b.csv"})
    assert sorted(file.uri for file in found) == ["a.csv", "new/e.csv"]
    assert sorted(store.folders("")) == ["new", "old"]
    assert store.folders("new") == ["old"]


def test_content_is_stored_from_where_it_stands(store: ObjectStore) -> None:
    content = io.BytesIO(b"head tail")
    content.seek(5)
    store.put("a", content)
    assert b"".join(store.read("a")) == b"tail"


@pytest.mark.parametrize("name", ["a", "folder/a", "b/a"])
def test_what_is_not_there_cannot_be_read(store: ObjectStore, name: str) -> None:
    store.put("b", io.BytesIO(b"x"))
    assert store.find(name) is None
    with pytest.raises(FileNotFoundError):
        list(store.read(name))
    with pytest.raises(FileNotFoundError), store.fetch(name):
        pass


@pytest.mark.parametrize(
    ("root", "says"),
    [
        ("gs://bucket/files", "a folder or at s3://bucket/prefix: correct the URI"),
        ("s3:///files", "names no bucket: write it as s3://bucket/prefix"),
        ("s3://", "names no bucket: write it as s3://bucket/prefix"),
    ],
)
def test_a_root_of_another_kind_is_refused(root: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        open_store(root)
