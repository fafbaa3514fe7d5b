import os
import signal
import subprocess
import sys
import threading
import time
from datetime import date
from pathlib import Path

import pytest

from resources.errors import ConfigurationError, ServerUnavailableError
from resources.landing_writer import AlreadyLandedError
from resources.landing_zone import LandedFile, LandingZoneResource
from tests.landing_places import BucketPlace, LocalPlace, Place

pytest_plugins = ["tests.s3", "tests.landing_places"]

DAY = date(2026, 9, 1)
URI = "2026-09-01/desk/batch.jsonl"


def write(zone: LandingZoneResource, *lines: bytes | str) -> LandedFile | None:
    with zone.writer(DAY, "desk", "batch.jsonl") as writer:
        for line in lines:
            writer.append(line)
        return writer.land()


def test_lines_become_a_landed_file(place: Place) -> None:
    with place.zone.writer(DAY, "desk", "batch.jsonl") as writer:
        assert writer.records == 0
        writer.append('{"a": "é"}')
        writer.append(b'{"a": 2}')
        assert (writer.records, place.zone.files(DAY)) == (2, [])
        landed = writer.land()
        assert landed
        assert place.zone.files(DAY) == [landed]
    assert (landed.uri, landed.folder) == (URI, "desk")
    assert place.get(URI) == '{"a": "é"}\n{"a": 2}\n'.encode()
    assert landed.size_bytes == len(place.get(URI))
    assert place.zone.find(URI) == landed
    assert place.names() == [URI], "no temporary file is left"


def test_a_big_file_is_written_whole(place: Place) -> None:
    lines = [str(number).zfill(99) for number in range(120_000)]
    landed = write(place.zone, *lines)
    assert landed
    assert landed.size_bytes == 12_000_000
    assert place.get(URI).decode().splitlines() == lines


def test_nothing_appended_is_no_file(place: Place) -> None:
    assert write(place.zone) is None
    assert (place.names(), place.zone.days()) == ([], [])


def test_leaving_without_landing_leaves_nothing(place: Place) -> None:
    with place.zone.writer(DAY, "desk", "batch.jsonl") as writer:
        writer.append("{}")
    assert place.names() == []
    with pytest.raises(KeyError), place.zone.writer(DAY, "desk", "batch.jsonl") as writer:
        writer.append("{}")
        raise KeyError
    assert place.names() == []


@pytest.mark.parametrize("line", ["a\nb", b"a\n", "\n", "\ud83d"])
def test_what_is_not_one_line_is_refused(place: Place, line: bytes | str) -> None:
    with place.zone.writer(DAY, "desk", "batch.jsonl") as writer:
        writer.append("first")
        with pytest.raises(ValueError, match=r"line feed|surrogates"):
            writer.append(line)
        assert writer.records == 1
        writer.land()
    assert place.get(URI) == b"first\n"


def test_of_two_writers_of_one_name_the_first_to_land_wins(place: Place) -> None:
    with (
        place.zone.writer(DAY, "desk", "batch.jsonl") as first,
        place.zone.writer(DAY, "desk", "batch.jsonl") as second,
    ):
        first.append("first")
        second.append("second")
        landed = second.land()
        with pytest.raises(AlreadyLandedError, match=f"{URI} is there already"):
            first.land()
        assert place.zone.files(DAY) == [landed]
    assert (place.get(URI), place.names()) == (b"second\n", [URI])


def test_writers_that_race_for_one_name_land_one_file(local_place: LocalPlace) -> None:
    """On S3 it is the server that lets one of them through."""
    for turn in range(20):
        outcomes: list[str] = []
        at_once = threading.Barrier(4)

        def run(
            name: str,
            turn: int = turn,
            outcomes: list[str] = outcomes,
            at_once: threading.Barrier = at_once,
        ) -> None:
            with local_place.zone.writer(DAY, "desk", f"{turn}.jsonl") as writer:
                writer.append(name)
                at_once.wait()
                try:
                    writer.land()
                except AlreadyLandedError:
                    outcomes.append("")
                else:
                    outcomes.append(name)

        threads = [threading.Thread(target=run, args=(str(number),)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winner = max(outcomes)
        assert sorted(outcomes) == ["", "", "", winner]
        assert local_place.get(f"2026-09-01/desk/{turn}.jsonl") == f"{winner}\n".encode()
    assert len(local_place.names()) == 20


def test_landing_does_not_touch_a_file_that_is_there(place: Place) -> None:
    place.put(URI, "theirs")
    before = place.zone.find(URI)
    with pytest.raises(AlreadyLandedError):
        write(place.zone, "ours")
    assert (place.get(URI), place.zone.find(URI)) == (b"theirs", before)


_LANDS_WITHOUT_END = """
import sys
from datetime import date
from resources.landing_zone import LandingZoneResource

zone = LandingZoneResource(root=sys.argv[1])
for number in range(100_000):
    with zone.writer(date(2026, 9, 1), "desk", f"{number:06}.jsonl") as writer:
        for line in range(20_000):
            writer.append(f"{number:06} {line:05}")
        print(number, flush=True)
        writer.land()
"""

_IS_KILLED_BEFORE_LANDING = """
import os, signal, sys
from datetime import date
from resources.landing_zone import LandingZoneResource

zone = LandingZoneResource(root=sys.argv[1])
with zone.writer(date(2026, 9, 1), "desk", "batch.jsonl") as writer:
    for line in range(200_000):
        writer.append(str(line))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def start(code: str, zone: LandingZoneResource, project_root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, zone.root], cwd=project_root, stdout=subprocess.PIPE, text=True
    )


def test_a_killed_writer_leaves_no_landed_file_and_hinders_no_other(place: Place, project_root: Path) -> None:
    killed = start(_IS_KILLED_BEFORE_LANDING, place.zone, project_root)
    assert killed.wait() == -signal.SIGKILL
    assert (place.zone.files(DAY), place.zone.find(URI)) == ([], None)
    left = place.names()
    assert len(left) == (1 if isinstance(place, LocalPlace) else 0)
    assert write(place.zone, "again")
    assert place.get(URI) == b"again\n"
    assert place.names() == [*left, URI], "what another process may still be writing is left alone"


@pytest.mark.parametrize("after_s", [0.0, 0.002, 0.01, 0.05])
def test_whatever_has_landed_before_a_kill_is_whole(place: Place, project_root: Path, after_s: float) -> None:
    process = start(_LANDS_WITHOUT_END, place.zone, project_root)
    assert process.stdout
    for line in process.stdout:
        if line.strip() == "2":
            break
    time.sleep(after_s)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    files = place.zone.files(DAY)
    assert [file.name for file in files] == [f"{number:06}.jsonl" for number in range(len(files))]
    assert len(files) >= 2
    for number, file in enumerate(files):
        assert place.get(file.uri) == b"".join(b"%06d %05d\n" % (number, line) for line in range(20_000))


def test_what_a_killed_writer_left_a_day_ago_is_removed(local_place: LocalPlace) -> None:
    leftovers = {".landing-old": 25 * 3600, ".landing-new": 23 * 3600, ".other-old": 25 * 3600, "old.jsonl": 25 * 3600}
    for name, age_s in leftovers.items():
        local_place.put(f"2026-09-01/desk/{name}")
        then = time.time() - age_s
        os.utime(local_place.root / "2026-09-01/desk" / name, (then, then))
    local_place.put("2026-09-01/shop/.landing-old")
    assert write(local_place.zone, "{}")
    assert local_place.names() == [
        "2026-09-01/desk/.landing-new",
        "2026-09-01/desk/.other-old",
        URI,
        "2026-09-01/desk/old.jsonl",
        "2026-09-01/shop/.landing-old",
    ]


@pytest.mark.parametrize(
    ("folder", "name"), [("desk", ".batch.jsonl"), ("_desk", "batch.jsonl"), ("desk", "a/b.jsonl")]
)
def test_a_name_that_could_not_be_found_again_is_refused(place: Place, folder: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match="rename it to land it"):
        place.zone.writer(DAY, folder, name)
    assert place.names() == []


def test_a_zone_that_cannot_be_written_is_named(local_place: LocalPlace) -> None:
    local_place.put("2026-09-01/desk", "a file where the folder should be")
    with pytest.raises(ConfigurationError, match=r"2026-09-01/desk is a file where a folder has to be: move it away"):
        write(local_place.zone, "{}")


def test_a_full_disk_is_named_and_leaves_nothing(local_place: LocalPlace) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(ConfigurationError, match=rf"{URI} cannot be prepared \(File too large\): make room"):
            write(local_place.zone, *["x" * 1000] * 200)
        with pytest.raises(ConfigurationError, match=rf"{URI} cannot be written \(File too large\): make room"):
            write(local_place.zone, "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert local_place.names() == []


def test_a_bucket_that_refuses_the_file_has_none(s3_place: BucketPlace) -> None:
    with s3_place.bucket.locked(), pytest.raises(ConfigurationError, match="access denied"):
        write(s3_place.zone, "{}")
    unknown = LandingZoneResource(root="s3://no-such-bucket-anywhere/landing")
    with pytest.raises(ConfigurationError, match="there is no bucket no-such-bucket-anywhere"):
        write(unknown, "{}")
    assert s3_place.names() == []


def test_a_server_that_is_gone_may_come_back(s3_place: BucketPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(ServerUnavailableError, match=r"no answer .* try again later"):
        write(s3_place.zone, "{}")
