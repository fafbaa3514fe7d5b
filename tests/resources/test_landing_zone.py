import hashlib
import os
import socket
import threading
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from resources.errors import ConfigurationError, ServerUnavailableError
from resources.landing_zone import LandedFile, LandingZoneResource, content_hash
from tests.landing_places import BucketPlace, LocalPlace, Place

pytest_plugins = ["tests.s3", "tests.landing_places"]

DAY = date(2026, 9, 1)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "export.csv"
    path.write_bytes(b"a,b\n1,2\n")
    return path


def one_line(error: pytest.ExceptionInfo[Exception]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_landed_file_is_described(place: Place, outside: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    landed = place.zone.land(outside, DAY)
    assert (landed.uri, landed.day, landed.name, landed.folder, landed.size_bytes) == (
        "2026-09-01/export.csv",
        DAY,
        "export.csv",
        None,
        8,
    )
    assert before <= landed.modified_at <= datetime.now(UTC)
    assert (place.get(landed.uri), place.names()) == (outside.read_bytes(), [landed.uri])
    assert place.zone.content_hash(landed) == content_hash(outside) == hashlib.sha256(b"a,b\n1,2\n").hexdigest()
    assert (place.zone.files(DAY), place.zone.find(landed.uri), place.zone.days()) == ([landed], landed, [DAY])


def test_only_an_object_has_an_etag_which_changes_with_the_content(
    local_place: LocalPlace, s3_place: BucketPlace, outside: Path
) -> None:
    assert local_place.zone.land(outside, DAY).etag is None
    first = s3_place.zone.land(outside, DAY).etag
    assert first
    assert first == hashlib.md5(b"a,b\n1,2\n").hexdigest()  # noqa: S324
    outside.write_bytes(b"a,b\n1,3\n")
    assert s3_place.zone.land(outside, DAY).etag not in {None, first}


@pytest.mark.parametrize("folder", ["shop", "shop/2026/de"])
def test_a_file_may_lie_in_the_folder_of_its_source_and_under_another_name(
    place: Place, outside: Path, folder: str
) -> None:
    landed = place.zone.land(outside, DAY, folder, "Umfrage März #2 (50%)?.csv")
    assert landed.uri == f"2026-09-01/{folder}/Umfrage März #2 (50%)?.csv"
    assert (landed.folder, landed.name) == ("shop", "Umfrage März #2 (50%)?.csv")
    assert place.names() == [landed.uri]
    assert place.zone.files(DAY) == [landed]
    with place.zone.fetch(landed) as path:
        assert (path.name, path.read_bytes()) == (landed.name, outside.read_bytes())


def test_landing_twice_changes_not_even_the_time_stamp(place: Place, outside: Path) -> None:
    first = place.zone.land(outside, DAY)
    if isinstance(place, LocalPlace):
        os.utime(place.root / first.uri, (1_000_000_000, 1_000_000_000))
        inode = (place.root / first.uri).stat().st_ino
        again = place.zone.land(outside, DAY)
        assert again.modified_at == datetime.fromtimestamp(1_000_000_000, UTC)
        assert (place.root / first.uri).stat().st_ino == inode
    else:
        assert isinstance(place, BucketPlace)
        place.bucket.client.put_bucket_versioning(
            Bucket=place.bucket.name, VersioningConfiguration={"Status": "Enabled"}
        )
        assert place.zone.land(outside, DAY) == first
        assert len(place.bucket.client.list_object_versions(Bucket=place.bucket.name)["Versions"]) == 1


@pytest.mark.parametrize("content", [b"other", b"a,b\n1,3\n", b""])
def test_other_content_replaces_the_file_and_leaves_nothing_else(place: Place, outside: Path, content: bytes) -> None:
    place.zone.land(outside, DAY)
    assert place.zone.holds(outside, "2026-09-01/export.csv")
    outside.write_bytes(content)
    assert not place.zone.holds(outside, "2026-09-01/export.csv")
    landed = place.zone.land(outside, DAY)
    assert (place.get(landed.uri), landed.size_bytes) == (content, len(content))
    assert place.names() == [landed.uri]


def test_a_big_file_lands_whole(place: Place, outside: Path) -> None:
    outside.write_bytes(os.urandom(1 << 20) * 13)
    landed = place.zone.land(outside, DAY)
    assert landed.size_bytes == 13 << 20
    assert place.zone.content_hash(landed) == content_hash(outside)
    with place.zone.fetch(landed) as path:
        assert content_hash(path) == content_hash(outside)


def test_a_fetched_object_is_removed_and_a_local_file_is_not(
    local_place: LocalPlace, s3_place: BucketPlace, outside: Path
) -> None:
    landed = s3_place.zone.land(outside, DAY)
    with s3_place.zone.fetch(landed) as copy:
        assert copy.read_bytes() == outside.read_bytes()
    assert not copy.parent.exists()
    landed = local_place.zone.land(outside, DAY)
    with local_place.zone.fetch(landed) as path:
        assert path == local_place.root / landed.uri
    assert path.exists()


def test_a_file_that_was_taken_away_is_looked_for_again(place: Place, outside: Path) -> None:
    landed = place.zone.land(outside, DAY)
    place.delete(landed.uri)
    assert place.zone.find(landed.uri) is None
    with pytest.raises(ServerUnavailableError, match=r"export.csv was taken away .*: run it again"):
        place.zone.content_hash(landed)
    with pytest.raises(ServerUnavailableError, match="taken away"), place.zone.fetch(landed):
        pass


def test_an_error_of_the_reader_stays_what_it_is(place: Place, outside: Path) -> None:
    landed = place.zone.land(outside, DAY)
    with pytest.raises(FileNotFoundError, match="another one"), place.zone.fetch(landed):
        raise FileNotFoundError("another one")


def test_a_reader_never_sees_a_part_of_a_file(local_place: LocalPlace, outside: Path) -> None:
    contents = [bytes([letter]) * 4_000_000 for letter in b"xy"]
    outside.write_bytes(contents[0])
    target = local_place.root / local_place.zone.land(outside, DAY).uri
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
            local_place.zone.land(outside, DAY)
    finally:
        done.set()
        reader.join()
    assert seen <= {b"xx4000000", b"yy4000000"}


@pytest.mark.parametrize(
    "name",
    [".hidden.csv", "_source.yaml", "~lock.csv", "a.csv.part", "a.CSV.TMP", "a.csv.filepart", "a.csv~",
     "a.crdownload", "a.csv.swp", ".landing-x1y2",
     "_later/a.csv", ".git/a.csv", "shop.part/a.csv", "shop/_note.csv", "shop/.deeper/a.csv",
     "shop/deeper.part/b/a.csv"],
)  # fmt: skip
def test_unfinished_and_hidden_names_are_no_files(place: Place, name: str) -> None:
    place.put(f"2026-09-01/{name}")
    folder = name.rsplit("/", 1)[0] if "/" in name else "shop"
    assert (place.zone.files(DAY), place.zone.files_of(folder, DAY)) == ([], [])
    assert place.zone.find(f"2026-09-01/{name}") is None


def test_files_come_by_name_those_of_folders_last(place: Place) -> None:
    for name in ("b.csv", "shop/a.csv", "a.csv", "desk/deep/er/a.csv", "desk/z.jsonl", "desk-2/b.csv"):
        place.put(f"2026-09-01/{name}")
    place.put("2026-09-02/a.csv")
    files = place.zone.files(DAY)
    assert [file.uri.removeprefix("2026-09-01/") for file in files] == [
        "a.csv",
        "b.csv",
        "desk/z.jsonl",
        "desk-2/b.csv",
        "shop/a.csv",
        "desk/deep/er/a.csv",
    ]
    assert [(file.folder, file.name) for file in files[2:]] == [
        ("desk", "z.jsonl"),
        ("desk-2", "b.csv"),
        ("shop", "a.csv"),
        ("desk", "a.csv"),
    ]
    assert {file.day for file in files} == {DAY}
    assert place.zone.files_of("desk", DAY) == [files[2], files[5]]
    assert place.zone.files_of("desk/deep", DAY) == [files[5]]
    assert place.zone.files_of("nobody", DAY) == []
    assert place.zone.folders(DAY) == ["desk", "desk-2", "shop"]


def test_only_folders_named_as_days_are_days(place: Place) -> None:
    for name in ("2026-09-02", "2026-09-01", "20260903", "2026-W36-1", "2026-13-01", "archive", "2026-9-1"):
        place.put(f"{name}/a.csv")
    place.put("2026-09-04", "a file")
    assert place.zone.days() == [date(2026, 9, 1), date(2026, 9, 2)]


def test_no_zone_holds_nothing(place: Place) -> None:
    zone = place.zone
    assert (zone.days(), zone.files(DAY), zone.folders(DAY), zone.files_of("shop", DAY)) == ([], [], [], [])
    assert zone.find("2026-09-01/a.csv") is None


@pytest.mark.parametrize("uri", ["a.csv", "archive/a.csv", "2026-09-01", "2026-09-01/", "2026-09-01/../a.csv", ""])
def test_what_lies_in_no_day_is_not_found(place: Place, uri: str) -> None:
    for name in ("a.csv", "archive/a.csv", "2026-09-01/b.csv"):
        place.put(name)
    assert place.zone.find(uri) is None


def test_a_text_lies_beside_the_files_of_its_folder_and_is_none(place: Place, outside: Path) -> None:
    landed = place.zone.land(outside, DAY, "shop")
    note = "2026-09-01/shop/_source.yaml"
    assert place.zone.read_text(note) is None
    assert place.zone.read_text("2026-09-01/nobody/_source.yaml") is None
    for text in ("first", "sécond"):
        place.zone.write_text(note, text)
        assert (place.zone.read_text(note), place.get(note)) == (text, text.encode())
    assert place.zone.files(DAY) == [landed]
    assert place.names() == [note, landed.uri]
    assert place.zone.location(note).endswith("/landing/2026-09-01/shop/_source.yaml")


def test_a_text_that_is_not_utf_8_is_named(place: Place) -> None:
    place.put("2026-09-01/shop/_source.yaml", b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"shop/_source.yaml cannot be read .*: make it a readable UTF-8 file"):
        place.zone.read_text("2026-09-01/shop/_source.yaml")


@pytest.mark.parametrize(
    ("folder", "name", "says"),
    [
        (None, ".export.csv", "hidden or unfinished"),
        (None, "_export.csv", "hidden or unfinished"),
        (None, "export.csv.tmp", "hidden or unfinished"),
        ("_shop", "export.csv", "hidden or unfinished"),
        ("shop/..", "export.csv", "hidden or unfinished"),
        ("shop//de", "export.csv", "hidden or unfinished"),
        ("shop", "a/b.csv", "a slash or a control character"),
        ("shop", "a\\b.csv", "a slash or a control character"),
        ("shop", "a\nb.csv", "a slash or a control character"),
        ("shop", "a\udcffb.csv", "a slash or a control character"),
    ],
)
def test_a_name_that_could_not_be_found_again_is_refused(
    place: Place, outside: Path, folder: str | None, name: str, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{says}.*: rename it to land it") as caught:
        place.zone.land(outside, DAY, folder, name)
    one_line(caught).encode()
    assert place.zone.days() == []


@pytest.mark.parametrize(("name", "says"), [("nothing.csv", "No such file"), ("", "Is a directory")])
def test_what_is_no_file_cannot_be_landed(place: Place, tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"cannot be landed \({says}.*\): check that it is a file") as caught:
        place.zone.land(tmp_path / name, DAY)
    one_line(caught)
    assert place.zone.days() == []


def test_a_zone_that_cannot_be_written_is_named(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "taken").write_text("a file where the zone should be")
    zone = LandingZoneResource(root=str(tmp_path / "taken"))
    for call in (lambda: zone.land(outside, DAY), lambda: zone.write_text("2026-09-01/shop/_source.yaml", "x")):
        with pytest.raises(ConfigurationError, match=rf"{zone.root} is a file where a folder has to be: move it away"):
            call()
    assert zone.days() == []


def test_a_folder_in_a_files_place_is_named(local_place: LocalPlace, outside: Path) -> None:
    local_place.put("2026-09-01/export.csv/deeper.csv")
    with pytest.raises(ConfigurationError, match=r"2026-09-01/export.csv cannot be written \(Is a dir.*\): .*allow"):
        local_place.zone.land(outside, DAY)
    assert local_place.names() == ["2026-09-01/export.csv/deeper.csv"]


def test_a_local_name_that_is_not_utf_8_is_named_not_lost(local_place: LocalPlace) -> None:
    folder = local_place.root / "2026-09-01"
    folder.mkdir(parents=True)
    (folder / os.fsdecode(b"M\xe4rz.csv")).write_text("x")
    with pytest.raises(ConfigurationError, match=r"M\\udce4rz.csv is not UTF-8: rename the file") as caught:
        local_place.zone.files(DAY)
    one_line(caught).encode()


def test_links_count_as_what_they_lead_to_and_broken_ones_as_nothing(local_place: LocalPlace, outside: Path) -> None:
    local_place.put("2026-09-01/a.csv")
    folder = local_place.root / "2026-09-01"
    (folder / "linked.csv").symlink_to(outside)
    (folder / "broken.csv").symlink_to(outside.parent / "nothing")
    (folder / "round").symlink_to(folder)
    assert [(file.name, file.size_bytes) for file in local_place.zone.files(DAY)] == [("a.csv", 1), ("linked.csv", 8)]


def test_a_prefix_of_the_bucket_is_all_that_is_seen(s3_place: BucketPlace) -> None:
    s3_place.bucket.put("2026-09-01/a.csv", "x")
    s3_place.bucket.put("acme/landing-old/2026-09-01/a.csv", "x")
    assert (s3_place.zone.days(), s3_place.zone.files(DAY)) == ([], [])
    whole = LandingZoneResource(root=s3_place.bucket.uri)
    assert [(file.uri, file.size_bytes) for file in whole.files(whole.days()[0])] == [("2026-09-01/a.csv", 1)]


def test_the_empty_objects_that_a_console_keeps_for_folders_are_no_files(s3_place: BucketPlace) -> None:
    for key in ("2026-09-01/", "2026-09-01/shop/", "2026-09-01/empty.csv"):
        s3_place.put(key, "")
    s3_place.put("2026-09-01/shop/deeper/a.csv")
    assert [file.uri for file in s3_place.zone.files(DAY)] == [
        "2026-09-01/empty.csv",
        "2026-09-01/shop/deeper/a.csv",
    ]
    assert [file.uri for file in s3_place.zone.files_of("shop", DAY)] == ["2026-09-01/shop/deeper/a.csv"]


def test_more_objects_than_a_page_holds_are_all_listed(s3_place: BucketPlace) -> None:
    names = [f"{number:04}.csv" for number in range(1_005)]
    for name in names:
        s3_place.put(f"2026-09-01/shop/{name}")
    assert len(s3_place.bucket.all_keys()) == 1_000, "the server answers in pages"
    assert [file.name for file in s3_place.zone.files_of("shop", DAY)] == names


@pytest.mark.parametrize("key", ["2026-09-01//a.csv", "2026-09-01/./a.csv"])
def test_a_key_that_is_no_path_is_named_not_lost(s3_place: BucketPlace, key: str) -> None:
    s3_place.put(key)
    with pytest.raises(
        ConfigurationError, match=r"an object's key is no path .*: rename or remove the object"
    ) as caught:
        s3_place.zone.files(DAY)
    assert key in one_line(caught)


def test_an_unknown_bucket_is_named(s3_place: BucketPlace, outside: Path) -> None:
    zone = LandingZoneResource(root="s3://no-such-bucket-anywhere/landing")
    landed = LandedFile("2026-09-01/a.csv", 1, datetime.now(UTC))
    for call in (
        zone.days,
        lambda: zone.files(DAY),
        lambda: zone.land(outside, DAY),
        lambda: zone.write_text("a", "b"),
        lambda: zone.read_text("a"),
        lambda: zone.content_hash(landed),
    ):
        with pytest.raises(ConfigurationError, match="there is no bucket no-such-bucket-anywhere: create it") as caught:
            call()
        one_line(caught)


def test_denied_access_is_one_line(s3_place: BucketPlace, outside: Path) -> None:
    with s3_place.bucket.locked():
        for call in (
            s3_place.zone.days,
            lambda: s3_place.zone.files(DAY),
            lambda: s3_place.zone.land(outside, DAY),
            lambda: s3_place.zone.read_text("a"),
        ):
            with pytest.raises(ConfigurationError, match=r"access denied \(\w+\): check AWS_ACCESS_KEY_ID") as caught:
                call()
            one_line(caught)
    assert s3_place.names() == []


def test_a_server_that_is_not_there_may_come_back(
    s3_place: BucketPlace, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:  # taken, and not listening
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        for call in (s3_place.zone.days, lambda: s3_place.zone.land(outside, DAY)):
            with pytest.raises(ServerUnavailableError, match=rf"no answer .*{address}.* try again later") as caught:
                call()
            one_line(caught)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"AWS_ALLOW_HTTP": None}, "one with http:// needs AWS_ALLOW_HTTP=true"),
        (
            {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, "AWS_METADATA_ENDPOINT": "http://127.0.0.1:9"},
            "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
    ],
)
def test_an_environment_that_leads_nowhere_is_explained(
    s3_place: BucketPlace, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str | None], says: str
) -> None:
    for name, value in variables.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=says) as caught:
        s3_place.zone.days()
    one_line(caught)
