import json
import multiprocessing
import os
import random
import re
import signal
import time
from collections import Counter
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

import pytest

from resources.errors import ConfigurationError, ServerUnavailableError
from resources.landing_zone import LandingZoneResource
from resources.pulled_sources import Pulled
from resources.pulled_sources.folder import FolderSource, landed_name
from tests.landing_places import LocalPlace, Place
from tests.s3 import Bucket

pytest_plugins = ["tests.s3", "tests.landing_places"]

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
TOMORROW = NOW + timedelta(days=1)
NOTES = "_pulled/shop.json"


class Origin(Protocol):
    """A folder of someone else's, of each kind."""

    path: str

    def put(self, relative: str, content: str = "x") -> None: ...

    def delete(self, relative: str) -> None: ...

    def touch(self, relative: str) -> None:
        """Change the time of a file and nothing else."""


class LocalOrigin:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = str(root)
        root.mkdir()

    def put(self, relative: str, content: str = "x") -> None:
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def delete(self, relative: str) -> None:
        (self.root / relative).unlink()

    def touch(self, relative: str) -> None:
        path = self.root / relative
        later = path.stat().st_mtime + 100
        os.utime(path, (later, later))


class BucketOrigin:
    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.path = f"{bucket.uri}/inbox"

    def put(self, relative: str, content: str = "x") -> None:
        self.bucket.put(f"inbox/{relative}", content)

    def delete(self, relative: str) -> None:
        self.bucket.delete(f"inbox/{relative}")

    def touch(self, relative: str) -> None:
        content = self.bucket.get(f"inbox/{relative}")
        time.sleep(1.1)  # a bucket tells times in whole seconds
        self.bucket.put(f"inbox/{relative}", content)


@pytest.fixture
def local_origin(tmp_path: Path) -> LocalOrigin:
    return LocalOrigin(tmp_path / "inbox")


@pytest.fixture(params=["local", "s3"])
def origin(request: pytest.FixtureRequest, tmp_path: Path) -> Origin:
    if request.param == "local":
        return LocalOrigin(tmp_path / "inbox")
    return BucketOrigin(request.getfixturevalue("s3_bucket"))


def shop(origin: Origin, **settings: object) -> FolderSource:
    return FolderSource("shop", origin.path, **settings)  # type: ignore[arg-type]


def landed(place: Place) -> dict[str, str]:
    """Content by URI of all that has landed."""
    return {
        file.uri: place.get(file.uri).decode()
        for day in place.zone.days()
        for file in place.zone.files(day)
    }  # fmt: skip


def test_files_land_by_the_day_of_the_pull_and_keep_their_content(origin: Origin, place: Place) -> None:
    origin.put("a.csv", "1")
    origin.put("eu/de/a.csv", "2")
    origin.put("note.docx", "3")
    pulled = shop(origin).pull(place.zone, NOW)
    expected = {"2026-09-01/shop/a.csv": "1", "2026-09-01/shop/eu__de__a.csv": "2", "2026-09-01/shop/note.docx": "3"}
    assert landed(place) == expected
    assert sorted(pulled.landed) == sorted(place.zone.files(NOW.date()))
    assert (pulled.records, pulled.more) == (3, False)
    assert [name for name in place.names() if not name.startswith("inbox/")] == [*sorted(expected), NOTES]


def test_what_was_taken_is_left_alone(origin: Origin, place: Place) -> None:
    origin.put("a.csv", "1")
    shop(origin).pull(place.zone, NOW)
    before = place.zone.find("2026-09-01/shop/a.csv")
    origin.put("b.csv", "2")
    assert [file.uri for file in shop(origin).pull(place.zone, TOMORROW).landed] == ["2026-09-02/shop/b.csv"]
    assert shop(origin).pull(place.zone, TOMORROW) == Pulled()
    assert place.zone.find("2026-09-01/shop/a.csv") == before


def test_what_was_taken_may_be_taken_out_of_the_landing_zone(origin: Origin, place: Place) -> None:
    origin.put("a.csv", "1")
    shop(origin).pull(place.zone, NOW)
    place.delete("2026-09-01/shop/a.csv")
    assert shop(origin).pull(place.zone, TOMORROW) == Pulled()
    assert landed(place) == {}


@pytest.mark.parametrize("content", ["2", "longer"])
def test_a_changed_file_takes_the_place_of_its_earlier_copy(origin: Origin, place: Place, content: str) -> None:
    origin.put("eu/a.csv", "1")
    shop(origin).pull(place.zone, NOW)
    time.sleep(0.01)
    origin.put("eu/a.csv", content)
    pulled = shop(origin).pull(place.zone, TOMORROW)
    assert [file.uri for file in pulled.landed] == ["2026-09-01/shop/eu__a.csv"]
    assert landed(place) == {"2026-09-01/shop/eu__a.csv": content}
    assert shop(origin).pull(place.zone, TOMORROW) == Pulled()


def test_a_changed_file_that_adds_leaves_its_earlier_copies(origin: Origin, place: Place) -> None:
    source = shop(origin, on_change="add")
    for day, content in enumerate(["first", "second", "last"]):
        origin.put("eu/export.csv", content)
        (file,) = source.pull(place.zone, NOW + timedelta(days=day)).landed
        assert file.day == NOW.date() + timedelta(days=day)
        assert source.pull(place.zone, NOW + timedelta(days=day)) == Pulled()
    plain, *hashed = landed(place)
    assert plain == "2026-09-01/shop/eu__export.csv"
    assert all(re.fullmatch(r"2026-09-0[23]/shop/[0-9a-f]{12}@eu__export\.csv", uri) for uri in hashed)
    assert list(landed(place).values()) == ["first", "second", "last"]


def test_a_file_that_adds_may_change_more_than_once_a_day(origin: Origin, place: Place) -> None:
    for content in ("1", "22", "333"):
        origin.put("export.csv", content)
        assert shop(origin, on_change="add").pull(place.zone, NOW).records == 1
    assert sorted(landed(place).values()) == ["1", "22", "333"]


def test_without_its_notes_a_source_that_adds_loses_nothing(origin: Origin, place: Place) -> None:
    for content in ("1", "22", "333"):
        origin.put("export.csv", content)
        shop(origin, on_change="add").pull(place.zone, NOW)
        place.delete(NOTES)
    assert sorted(landed(place).values()) == ["1", "22", "333"]


@pytest.mark.parametrize(
    ("had_landed", "content", "days"), [(False, "22", [2]), (True, "22", []), (False, "333", [3]), (True, "333", [3])]
)
def test_a_broken_off_pull_of_a_file_that_adds_is_repeated_in_its_place(
    local_origin: LocalOrigin, local_place: LocalPlace, had_landed: bool, content: str, days: list[int]
) -> None:
    source = shop(local_origin, on_change="add")
    local_origin.put("export.csv", "1")
    source.pull(local_place.zone, NOW)
    local_origin.put("export.csv", "22")
    local_place.put("2026-09-02", "a file where the folder should be")
    with pytest.raises(ConfigurationError, match="2026-09-02"):
        source.pull(local_place.zone, TOMORROW)
    local_place.delete("2026-09-02")
    ((_, begun),) = json.loads(local_place.get(NOTES)).items()
    if had_landed:
        local_place.put(f"{begun['day']}/shop/{begun['name']}", "22")
    if content != "22":
        local_origin.put("export.csv", content)
    pulled = source.pull(local_place.zone, TOMORROW + timedelta(days=1))
    assert [file.day.day for file in pulled.landed] == days
    assert sorted(landed(local_place).values()) == sorted({"1", content, *(["22"] if had_landed else [])})


@pytest.mark.parametrize("on_change", ["replace", "add"])
def test_a_touched_file_changes_nothing(origin: Origin, place: Place, on_change: str) -> None:
    origin.put("a.csv", "1")
    shop(origin, on_change=on_change).pull(place.zone, NOW)
    before = place.zone.find("2026-09-01/shop/a.csv")
    notes = place.get(NOTES)
    origin.touch("a.csv")
    assert shop(origin, on_change=on_change).pull(place.zone, TOMORROW) == Pulled()
    assert landed(place) == {"2026-09-01/shop/a.csv": "1"}
    assert place.zone.find("2026-09-01/shop/a.csv") == before
    assert place.get(NOTES) != notes, "it would be compared in every pull"


def test_a_file_that_comes_back_is_known(origin: Origin, local_place: LocalPlace) -> None:
    origin.put("a.csv", "1")
    origin.put("b.csv", "2")
    shop(origin).pull(local_place.zone, NOW)
    origin.delete("a.csv")
    origin.put("b.csv", "3!")
    assert shop(origin).pull(local_place.zone, TOMORROW).records == 1
    origin.put("a.csv", "1")
    assert shop(origin).pull(local_place.zone, TOMORROW) == Pulled()
    assert landed(local_place) == {"2026-09-01/shop/a.csv": "1", "2026-09-01/shop/b.csv": "3!"}


def test_what_has_been_gone_for_long_is_forgotten(local_origin: LocalOrigin, local_place: LocalPlace) -> None:
    local_origin.put("gone.csv", "1")
    local_origin.put("there.csv", "2")
    shop(local_origin).pull(local_place.zone, NOW)
    local_origin.delete("gone.csv")
    for days, remembered in ((399, ["gone.csv", "new399.csv", "there.csv"]), (402, None)):
        local_origin.put(f"new{days}.csv")
        shop(local_origin).pull(local_place.zone, NOW + timedelta(days=days))
        found = sorted(Path(noted).name for noted in json.loads(local_place.get(NOTES)))
        assert found == (remembered or ["new399.csv", "new402.csv", "there.csv"])


def test_a_pull_is_bounded_and_takes_the_oldest_first(local_origin: LocalOrigin, local_place: LocalPlace) -> None:
    for number in range(250):
        local_origin.put(f"{number}.csv", str(number))
        at = NOW.timestamp() - number
        os.utime(local_origin.root / f"{number}.csv", (at, at))
    source = shop(local_origin, files_per_pull=120)
    pulls = [source.pull(local_place.zone, NOW) for _ in range(3)]
    assert [(pulled.records, pulled.more) for pulled in pulls] == [(120, True), (120, True), (10, False)]
    order = [int(Path(file.name).stem) for pulled in pulls for file in pulled.landed]
    assert order == list(reversed(range(250)))


def test_a_pull_is_bounded_in_time_and_always_takes_one(local_origin: LocalOrigin, local_place: LocalPlace) -> None:
    for number in range(3):
        local_origin.put(f"{number}.csv", str(number))
    source = shop(local_origin, seconds_per_pull=0)
    pulls = [source.pull(local_place.zone, NOW) for _ in range(4)]
    assert [(pulled.records, pulled.more) for pulled in pulls] == [(1, True), (1, True), (1, False), (0, False)]
    assert sorted(landed(local_place)) == [f"2026-09-01/shop/{number}.csv" for number in range(3)]


def test_only_files_that_fit_the_pattern_and_are_complete_are_taken(origin: Origin, local_place: LocalPlace) -> None:
    for name in ("a.csv", "A.CSV", "csv/b.txt", "sub.d/c.csv", ".d.csv", "_e.csv", "f.csv.part", ".hidden/g.csv"):
        origin.put(name)
    shop(origin, pattern="*.csv").pull(local_place.zone, NOW)
    assert sorted(landed(local_place)) == ["2026-09-01/shop/a.csv", "2026-09-01/shop/sub.d__c.csv"]


def test_a_file_that_may_still_grow_is_left(local_origin: LocalOrigin, local_place: LocalPlace) -> None:
    local_origin.put("a.csv")
    written = datetime.fromtimestamp((local_origin.root / "a.csv").stat().st_mtime, UTC)
    source = shop(local_origin, settle_s=10)
    assert source.pull(local_place.zone, written + timedelta(seconds=9)) == Pulled()
    assert source.pull(local_place.zone, written + timedelta(seconds=10)).records == 1


def test_a_file_from_the_future_is_not_left_for_ever(local_origin: LocalOrigin, local_place: LocalPlace) -> None:
    local_origin.put("a.csv")
    written = datetime.fromtimestamp((local_origin.root / "a.csv").stat().st_mtime, UTC)
    assert shop(local_origin, settle_s=10).pull(local_place.zone, written - timedelta(days=1)).records == 1


def test_an_object_is_complete_at_once(s3_bucket: Bucket, local_place: LocalPlace) -> None:
    origin = BucketOrigin(s3_bucket)
    origin.put("a.csv")
    assert shop(origin, settle_s=1000).pull(local_place.zone, datetime.now(UTC)).records == 1


def test_names_of_different_files_never_meet(origin: Origin, place: Place) -> None:
    looks_hashed = landed_name("a__b.csv", f"{origin.path}/a__b.csv").replace("__", "/")
    names = [
        looks_hashed,
        "a b ü.csv",
        "a/b.csv",
        "a__b.csv",
        "a_/b.csv",
        "a/_x/b.csv",
        "a___b.csv",
        "a/b__c.csv",
        "a__b/c.csv",
    ]
    names += [f"{'deep' * 20}/{'deeper' * 20}/{n}.csv" for n in range(2)]
    if isinstance(origin, LocalOrigin):
        names += ["a\tb.csv", "a\nb.csv", "x\\y.csv"]  # as keys, these are too much for the S3 server of the tests
    visible = [name for name in names if "/_" not in name]
    for name in names:
        origin.put(name, name)
    shop(origin).pull(place.zone, NOW)
    assert sorted(landed(place).values()) == sorted(visible)
    assert landed(place)["2026-09-01/shop/a__b.csv"] == "a/b.csv"
    assert landed(place)["2026-09-01/shop/a b ü.csv"] == "a b ü.csv"
    assert all(uri.endswith(".csv") for uri in landed(place))


def test_what_others_landed_is_not_replaced(local_origin: LocalOrigin, local_place: LocalPlace) -> None:
    local_place.put("2026-09-01/shop/a.csv", "theirs")
    local_origin.put("a.csv", "ours")
    (ours,) = shop(local_origin).pull(local_place.zone, NOW).landed
    assert landed(local_place) == {"2026-09-01/shop/a.csv": "theirs", ours.uri: "ours"}
    assert ours.name.endswith("@a.csv")
    local_origin.put("a.csv", "ours, changed")
    assert [file.uri for file in shop(local_origin).pull(local_place.zone, TOMORROW).landed] == [ours.uri]


def test_another_folder_does_not_replace_what_the_first_brought(tmp_path: Path, local_place: LocalPlace) -> None:
    for name in ("first", "second"):
        origin = LocalOrigin(tmp_path / name)
        origin.put("a.csv", name)
        shop(origin).pull(local_place.zone, NOW)
    assert sorted(landed(local_place).values()) == ["first", "second"]


def test_without_its_notes_a_source_lands_again_and_loses_nothing(
    local_origin: LocalOrigin, local_place: LocalPlace
) -> None:
    local_origin.put("a.csv", "1")
    shop(local_origin).pull(local_place.zone, NOW)
    local_place.delete(NOTES)
    local_origin.put("a.csv", "2")
    shop(local_origin).pull(local_place.zone, NOW)
    shop(local_origin).pull(local_place.zone, TOMORROW)
    assert sorted(landed(local_place).values()) == ["1", "2"]


@pytest.mark.parametrize("damage", ["{", '{"/inbox/a.csv": {"day": "someday", "name": "a.csv", "state": null}}', "[]"])
def test_damaged_notes_are_refused_with_advice(
    local_origin: LocalOrigin, local_place: LocalPlace, damage: str
) -> None:  # fmt: skip
    local_origin.put("a.csv")
    local_place.put(NOTES, damage)
    with pytest.raises(
        ConfigurationError, match=r"source shop: \S+/_pulled/shop\.json is damaged .*remove it"
    ) as caught:
        shop(local_origin).pull(local_place.zone, NOW)
    assert "\n" not in str(caught.value)
    assert landed(local_place) == {}


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, local_place: LocalPlace) -> None:
    with pytest.raises(ConfigurationError, match=r"source shop: \S+/nowhere is no folder: create it, or correct"):
        FolderSource("shop", str(tmp_path / "nowhere")).pull(local_place.zone, NOW)


@pytest.mark.parametrize("path", ["landing", "", "landing/../landing/."])
def test_the_landing_zone_is_no_source(tmp_path: Path, local_place: LocalPlace, path: str) -> None:
    local_place.put("2026-09-01/a.csv")
    with pytest.raises(ConfigurationError, match="holds the landing zone"):
        FolderSource("shop", str(tmp_path / path)).pull(local_place.zone, NOW)


def test_the_landing_zone_in_a_bucket_is_no_source(s3_bucket: Bucket) -> None:
    zone = LandingZoneResource(root=f"{s3_bucket.uri}/acme/landing")
    with pytest.raises(ConfigurationError, match="holds the landing zone"):
        FolderSource("shop", f"{s3_bucket.uri}/acme/").pull(zone, NOW)
    assert FolderSource("shop", f"{s3_bucket.uri}/acme/land").pull(zone, NOW) == Pulled()


def test_a_bucket_that_is_not_there_is_refused(s3_bucket: Bucket, local_place: LocalPlace) -> None:
    del s3_bucket
    with pytest.raises(ConfigurationError, match="there is no bucket nobodys"):
        FolderSource("shop", "s3://nobodys/x").pull(local_place.zone, NOW)


def test_a_store_that_does_not_answer_may_answer_later(
    s3_bucket: Bucket, local_place: LocalPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(ServerUnavailableError, match="no answer"):
        FolderSource("shop", s3_bucket.uri).pull(local_place.zone, NOW)


@pytest.mark.parametrize(("archived", "lands"), [(1, True), (99, True), (100, False)])
def test_files_that_cannot_be_read_keep_no_other_from_landing(
    s3_bucket: Bucket, local_place: LocalPlace, archived: int, lands: bool
) -> None:
    for number in range(archived):
        s3_bucket.client.put_object(Bucket=s3_bucket.name, Key=f"inbox/{number}.csv", Body=b"x", StorageClass="GLACIER")
    origin = BucketOrigin(s3_bucket)
    origin.put("z.csv", "readable")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"s3://\S+/inbox/0.csv: access denied \(InvalidObjectState\)"):
            shop(origin, files_per_pull=1).pull(local_place.zone, NOW)
    assert landed(local_place) == ({"2026-09-01/shop/z.csv": "readable"} if lands else {})
    origin.put("0.csv", "restored")
    with pytest.raises(ConfigurationError) if archived > 1 else nullcontext():
        shop(origin).pull(local_place.zone, TOMORROW)
    assert landed(local_place)["2026-09-02/shop/0.csv"] == "restored"


def pull_to_the_end(source: FolderSource, root: str) -> None:
    zone = LandingZoneResource(root=root)
    while source.pull(zone, datetime.now(UTC)).more:
        pass


def say_and_pull(source: FolderSource, root: str, environment: dict[str, str], parent: Connection) -> None:
    os.environ.update(environment)  # that of the fork server is of another time
    parent.send("about to pull")
    pull_to_the_end(source, root)


@pytest.mark.parametrize("kind", ["local_place", "s3_place"])
def test_a_pull_killed_at_any_moment_loses_and_doubles_nothing(
    request: pytest.FixtureRequest, local_origin: LocalOrigin, kind: str
) -> None:
    place: Place = request.getfixturevalue(kind)
    for number in range(400):
        local_origin.put(f"{number % 7}/{number}.csv", f"content {number}")
    source = shop(local_origin, files_per_pull=60)
    spawning = multiprocessing.get_context("forkserver")
    spawning.set_forkserver_preload([__name__, "resources.bucket_store"])
    moments = random.Random(7)
    for _ in range(8):
        here, there = spawning.Pipe()
        child = spawning.Process(target=say_and_pull, args=(source, place.zone.root, dict(os.environ), there))
        child.start()
        here.recv()
        enough = len(place.names()) + moments.randrange(30)
        while child.is_alive() and len(place.names()) <= enough:
            time.sleep(moments.uniform(0, 0.01))
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL, "the pull came to its end"
    assert 0 < len(landed(place)) < 400
    pull_to_the_end(source, place.zone.root)
    assert Counter(landed(place).values()) == Counter(f"content {number}" for number in range(400))
