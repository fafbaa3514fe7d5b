import os
import threading
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from resources.errors import ConfigurationError
from resources.landing_zone import LandingZoneResource, content_hash

DAY = date(2026, 9, 1)


@pytest.fixture
def zone(tmp_path: Path) -> LandingZoneResource:
    return LandingZoneResource(root=str(tmp_path / "landing"))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "export.csv"
    path.write_bytes(b"a,b\n1,2\n")
    return path


def test_a_landed_file_is_described(zone: LandingZoneResource, outside: Path) -> None:
    landed = zone.land(outside, DAY)
    assert (landed.uri, landed.name, landed.folder, landed.size_bytes) == (
        "2026-09-01/export.csv",
        "export.csv",
        None,
        8,
    )
    assert landed.path.read_bytes() == outside.read_bytes()
    assert landed.content_hash() == content_hash(outside)
    assert landed.modified_at == datetime.fromtimestamp(landed.path.stat().st_mtime, UTC)
    assert zone.files(DAY) == [landed]
    assert zone.days() == [DAY]


def test_a_file_may_lie_in_the_folder_of_its_source(zone: LandingZoneResource, outside: Path) -> None:
    landed = zone.land(outside, DAY, "shop")
    assert (landed.uri, landed.folder) == ("2026-09-01/shop/export.csv", "shop")


def test_nothing_but_the_file_is_left(zone: LandingZoneResource, outside: Path) -> None:
    zone.land(outside, DAY)
    outside.write_bytes(b"a,b\n1,3\n")
    zone.land(outside, DAY)
    assert [path.name for path in zone.folder(DAY).iterdir()] == ["export.csv"]


def test_the_same_content_again_changes_not_even_the_time_stamp(zone: LandingZoneResource, outside: Path) -> None:
    first = zone.land(outside, DAY)
    os.utime(first.path, (1_000_000_000, 1_000_000_000))
    inode = first.path.stat().st_ino
    again = zone.land(outside, DAY)
    assert again.modified_at == datetime.fromtimestamp(1_000_000_000, UTC)
    assert again.path.stat().st_ino == inode


def test_other_content_replaces_the_file(zone: LandingZoneResource, outside: Path) -> None:
    zone.land(outside, DAY)
    outside.write_bytes(b"other")
    assert zone.land(outside, DAY).path.read_bytes() == b"other"
    assert len(zone.files(DAY)) == 1


def test_a_reader_never_sees_a_part_of_a_file(zone: LandingZoneResource, outside: Path) -> None:
    contents = [bytes([letter]) * 4_000_000 for letter in b"xy"]
    outside.write_bytes(contents[0])
    target = zone.land(outside, DAY).path
    seen: set[bytes] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            whole = target.read_bytes()
            seen.add(whole[:1] + whole[-1:] + str(len(whole)).encode())

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for turn in range(1, 9):
            outside.write_bytes(contents[turn % 2])
            zone.land(outside, DAY)
    finally:
        done.set()
        reader.join()
    assert seen <= {b"xx4000000", b"yy4000000"}


@pytest.mark.parametrize(
    "name",
    [".hidden.csv", "_source.yaml", "~lock.csv", "a.csv.part", "a.CSV.TMP", "a.csv.filepart", "a.csv~",
     "a.crdownload", "a.csv.swp",
     "_later/a.csv", ".git/a.csv", "shop.part/a.csv", "shop/_note.csv", "shop/.deeper/a.csv",
     "shop/deeper.part/b/a.csv"],
)  # fmt: skip
def test_unfinished_and_hidden_names_are_no_files(zone: LandingZoneResource, name: str) -> None:
    path = zone.folder(DAY) / name
    path.parent.mkdir(parents=True)
    path.write_text("x")
    assert zone.files(DAY) == []


def test_files_come_by_name_those_of_folders_last(zone: LandingZoneResource) -> None:
    for name in ("b.csv", "shop/a.csv", "a.csv", "desk/deep/er/a.csv", "desk/z.jsonl"):
        path = zone.folder(DAY) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    files = zone.files(DAY)
    uris = [file.uri.removeprefix("2026-09-01/") for file in files]
    assert uris == ["a.csv", "b.csv", "desk/z.jsonl", "shop/a.csv", "desk/deep/er/a.csv"]
    assert [(file.folder, file.name) for file in files[2:]] == [
        ("desk", "z.jsonl"),
        ("shop", "a.csv"),
        ("desk", "a.csv"),
    ]
    assert {file.day for file in files} == {DAY}


def test_only_folders_named_as_days_are_days(zone: LandingZoneResource) -> None:
    for name in ("2026-09-02", "2026-09-01", "20260903", "2026-W36-1", "2026-13-01", "archive", "2026-9-1"):
        (Path(zone.root) / name).mkdir(parents=True)
    (Path(zone.root) / "2026-09-04").write_text("a file")
    assert zone.days() == [date(2026, 9, 1), date(2026, 9, 2)]


def test_no_zone_holds_nothing(zone: LandingZoneResource) -> None:
    assert (zone.days(), zone.files(DAY)) == ([], [])


def test_a_note_lies_beside_the_files_of_its_folder_and_is_none(zone: LandingZoneResource, outside: Path) -> None:
    landed = zone.land(outside, DAY, "shop")
    for text in ("first", "sécond"):
        note = zone.write_note(DAY, "shop", "_source.yaml", text)
    assert note == landed.path.parent / "_source.yaml"
    assert note.read_text(encoding="utf-8") == "sécond"
    assert zone.files(DAY) == [landed]
    assert sorted(path.name for path in note.parent.iterdir()) == ["_source.yaml", "export.csv"]


@pytest.mark.parametrize("name", [".export.csv", "_export.csv", "export.csv.tmp"])
def test_a_name_that_the_zone_would_skip_is_refused(zone: LandingZoneResource, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(ConfigurationError, match="rename it to land it"):
        zone.land(tmp_path / name, DAY)
    assert zone.days() == []


def test_a_file_that_is_not_there_cannot_be_landed(zone: LandingZoneResource, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nothing.csv cannot be landed .*No such file") as caught:
        zone.land(tmp_path / "nothing.csv", DAY)
    assert "\n" not in str(caught.value)
    assert zone.files(DAY) == []


def test_a_zone_that_cannot_be_written_is_named(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "taken").write_text("a file where the zone should be")
    zone = LandingZoneResource(root=str(tmp_path / "taken"))
    with pytest.raises(ConfigurationError, match=r"cannot be landed at .*taken/2026-09-01/export.csv"):
        zone.land(outside, DAY)
    with pytest.raises(ConfigurationError, match=r"_source.yaml cannot be written"):
        zone.write_note(DAY, "shop", "_source.yaml", "x")
