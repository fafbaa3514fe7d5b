import base64
import json
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from resources.errors import ConfigurationError, ServerUnavailableError
from resources.landing_zone import LandingZoneResource
from resources.pulled_sources import Pulled
from resources.pulled_sources.kafka import KafkaSource
from resources.record_files.batches import FileKind
from resources.record_files.reader import read_batches
from tests.kafka import MockKafka
from tests.landing_places import LocalPlace, Place

pytest_plugins = ["tests.kafka", "tests.s3", "tests.landing_places"]

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
GROUP = "feedback-platform"


@pytest.fixture
def topic() -> str:
    return f"reviews-{uuid.uuid4().hex}"


@pytest.fixture
def zone(local_place: LocalPlace) -> LandingZoneResource:
    return local_place.zone


@pytest.fixture
def source(kafka: MockKafka, topic: str) -> Callable[..., KafkaSource]:
    """A source of the test's topic."""

    def make(**settings: Any) -> KafkaSource:
        return KafkaSource(**{"name": "shop", "servers": kafka.servers, "topic": topic, "wait_s": 30} | settings)

    return make


def numbered(first: int, end: int) -> list[bytes]:
    return [b'{"n":%d}' % number for number in range(first, end)]


def lines(zone: LandingZoneResource) -> list[str]:
    """All that has landed, by day and name."""
    found: list[str] = []
    for day in zone.days():
        for file in zone.files_of("shop", day):
            with zone.fetch(file) as path:
                found += path.read_text(encoding="utf-8").split("\n")[:-1]
    return found


def places(zone: LandingZoneResource) -> list[tuple[int, int]]:
    """Partition and offset of every message that has landed, sorted."""
    records = [json.loads(line.removeprefix("!")) for line in lines(zone)]
    return sorted((record["partition"], record["offset"]) for record in records)


def pull_all(source: KafkaSource, zone: LandingZoneResource, now: datetime = NOW) -> list[Pulled]:
    """Pull until nothing is left."""
    pulled = [source.pull(zone, now)]
    while pulled[-1].more:
        assert len(pulled) < 1000, "it never ends"
        pulled.append(source.pull(zone, now))
    return pulled


def test_a_topic_is_read_from_its_beginning(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], place: Place
) -> None:
    kafka.send(topic, *numbered(0, 3), partition=0)
    kafka.send(topic, *numbered(3, 5), partition=2)
    pulled = source().pull(place.zone, NOW)
    assert (pulled.records, pulled.more, pulled.warnings) == (5, False, ())
    names = [f"{GROUP}@{topic}-{number:05}-{0:020}.jsonl" for number in (0, 2)]
    assert place.names() == [f"2026-09-01/shop/{name}" for name in names]
    assert pulled.landed == place.zone.files_of("shop", NOW.date())
    assert places(place.zone) == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1)]
    assert kafka.committed(topic, GROUP) == {0: 3, 2: 2}


def test_pulls_go_on_where_they_ended(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], place: Place
) -> None:
    kafka.send(topic, *numbered(0, 7))
    first = source(messages_per_pull=5).pull(place.zone, NOW)
    assert (first.records, first.more) == (5, True)
    second = source(messages_per_pull=5).pull(place.zone, NOW + timedelta(days=1))
    assert (second.records, second.more) == (2, False)
    assert [file.uri for file in second.landed] == [f"2026-09-02/shop/{GROUP}@{topic}-00000-{5:020}.jsonl"]
    assert places(place.zone) == [(0, offset) for offset in range(7)]
    before = place.names()
    third = source().pull(place.zone, NOW + timedelta(days=2))
    assert (third.landed, third.records, third.more) == ([], 0, False)
    assert place.names() == before


def test_a_topic_without_messages_brings_no_file(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], local_place: LocalPlace
) -> None:
    kafka.send(topic, partition=0)
    kafka.send(f"{topic}.other", b"{}")
    kafka.send(topic, b"{}", partition=1)
    kafka.commit(topic, GROUP, 1, 1)
    assert source().pull(local_place.zone, NOW) == Pulled()
    assert local_place.names() == []


def test_a_batch_is_shared_fairly(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    for partition, count in enumerate((100, 2, 100)):
        kafka.send(topic, *numbered(0, count), partition=partition)
    pulled = source(messages_per_pull=50).pull(zone, NOW)
    assert (pulled.records, pulled.more) == (50, True)
    assert Counter(partition for partition, _ in places(zone)) == {0: 24, 1: 2, 2: 24}


def test_every_partition_gets_its_turn(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    for partition in range(4):
        kafka.send(topic, *numbered(0, 2), partition=partition)
    assert [pulled.records for pulled in pull_all(source(messages_per_pull=1), zone)] == [1] * 8
    assert places(zone) == [(partition, offset) for partition in range(4) for offset in range(2)]


def test_messages_that_come_during_a_pull_are_left_to_the_next(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    kafka.send(topic, *numbered(0, 50))
    with ThreadPoolExecutor() as pool:
        more = pool.submit(lambda: [kafka.send(topic, value) for value in numbered(50, 400)])
        while not more.done():
            source().pull(zone, NOW)
    source().pull(zone, NOW)
    assert places(zone) == [(0, offset) for offset in range(400)]


def test_ends_of_transactions_are_no_messages(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    for first in (0, 3, 6):
        kafka.send_in_transaction(topic, *numbered(first, first + 3))
    pulled = pull_all(source(messages_per_pull=3), zone)
    assert sum(one.records for one in pulled) == 9
    assert places(zone) == [(0, offset) for offset in (0, 1, 2, 4, 5, 6, 8, 9, 10)]
    assert source().pull(zone, NOW) == Pulled()
    kafka.send_in_transaction(topic, *numbered(9, 10))
    assert source().pull(zone, NOW).records == 1


# What lands


def test_a_message_is_one_line_with_where_it_comes_from(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    kafka.send(
        topic,
        b'{"text":"gut"}',
        partition=3,
        key="Kö".encode(),
        timestamp=1_788_220_800_123,
        headers=[("trace", b"1"), ("tag", b"a"), ("tag", None), ("raw", b"\xff\x00")],
    )
    kafka.send(topic, b'{"text":"ok"}', partition=3, key=b"\xff", timestamp=1_788_220_800_000)
    kafka.send(topic, b'{"text":"microseconds"}', partition=3, timestamp=1_788_220_800_123_000)
    source().pull(zone, NOW)
    assert lines(zone) == [
        '{"partition":3,"offset":0,"timestamp":"2026-09-01T00:00:00.123Z","key":"Kö",'
        '"headers":{"trace":"1","tag":["a",null]},"headers_base64":{"raw":"/wA="},"value":{"text":"gut"}}',
        '{"partition":3,"offset":1,"timestamp":"2026-09-01T00:00:00.000Z","key_base64":"/w==","value":{"text":"ok"}}',
        '{"partition":3,"offset":2,"timestamp":null,"timestamp_ms":1788220800123000,"key":null,'
        '"value":{"text":"microseconds"}}',
    ]


def test_a_header_that_cannot_be_read_stops_nothing(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    # By so many calls, Python has made them faster and less careful.
    kafka.send(topic, *numbered(0, 100), headers=[("name", b"")])
    kafka.send_with_header(topic, b'{"n":100}', b"\xff")
    kafka.send_with_header(topic, b'{"n":101}', b"name")
    source().pull(zone, NOW)
    *_, unread, read = (json.loads(line) for line in lines(zone))
    assert (unread["value"], unread["headers_problem"]) == ({"n": 100}, "the name of a header is not UTF-8")
    assert (read["value"], read["headers"]) == ({"n": 101}, {"name": ""})


@pytest.mark.parametrize(
    "value",
    [
        '{"id":12345678901234567890.10,"big":1E+400,"id":-0}',
        '{"id":' + "9" * 5000 + "}",
        r'{"half":"\ud83d","whole":"\ud83d\ude00","a":"\u0000\/"}',
        '{"other ends of lines":"\u2028\u2029\x85\x7f"}',
        ' {"space" :\t[ ] } ',
    ],
)
def test_a_value_lands_as_it_was_written(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource, value: str
) -> None:
    kafka.send(topic, value.encode())
    source().pull(zone, NOW)
    (line,) = lines(zone)
    assert line.endswith(f',"value":{value}}}')


def test_only_the_layout_of_a_value_is_lost(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    kafka.send(topic, b'\xef\xbb\xbf{\r\n  "text": "a\\nb",\n\n  "n": 1.50\r}\n')
    source().pull(zone, NOW)
    (line,) = lines(zone)
    assert line.endswith(',"value":{    "text": "a\\nb",    "n": 1.50 } }')


POISON = [
    (None, "the message has no value (a tombstone)"),
    (b"", "the value is no JSON: Expecting value"),
    (b"hello", "the value is no JSON: Expecting value"),
    (b'{"a":1', "the value is no JSON: Expecting ',' delimiter"),
    (b'{"a":1}{"a":2}', "the value is no JSON: Extra data"),
    (b'{"a":NaN}', "the value is no JSON: NaN is no JSON number"),
    (b'{"a":"line\nfeed"}', "the value is no JSON: Invalid control character"),
    (b'\x00\x00\x00\x00\x07{"a":1}', "the value is no JSON: Expecting value"),
    (b'{"a":"\xff"}', "the value is not UTF-8 at byte 6"),
    (b"[1]", "the value is JSON, but no object"),
    (b'"text"', "the value is JSON, but no object"),
    (b"null", "the value is JSON, but no object"),
    (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "the value is JSON nested too deeply"),
]


def test_what_is_no_json_object_lands_to_be_looked_into(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    kafka.send(topic, *(value for value, _ in POISON), key=b"k", headers=[("trace", b"1")])
    kafka.send(topic, b'{"text":"fine"}')
    (pulled,) = pull_all(source(), zone)
    assert pulled.records == len(POISON) + 1
    *poison, fine = lines(zone)
    for offset, ((value, problem), line) in enumerate(zip(POISON, poison, strict=True)):
        assert line.startswith("!")
        about = json.loads(line[1:])
        assert about.pop("problem").startswith(problem)
        assert about.pop("timestamp")
        assert about.pop("value_base64") == (None if value is None else base64.b64encode(value).decode())
        assert about == {"partition": 0, "offset": offset, "key": "k", "headers": {"trace": "1"}}
    assert json.loads(fine)["value"] == {"text": "fine"}


def test_the_reader_takes_messages_for_records_and_poison_for_dead_letters(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    kafka.send(topic, b'{"text":"a"}', *(value for value, _ in POISON), b'{"text":"b"}')
    (file,) = source().pull(zone, NOW).landed
    kind = FileKind.of(file.name)
    assert kind is not None
    with zone.fetch(file) as path:
        batches = list(read_batches(path, kind, ["value.text", "offset"]))
    assert [row for batch in batches for row in batch.records.select("value.text", "offset").rows()] == [
        ("a", "0"),
        ("b", str(len(POISON) + 1)),
    ]
    rejected = [one for batch in batches for one in batch.rejected]
    assert [one.raw for one in rejected] == lines(zone)[1:-1]
    assert {one.reason for one in rejected} == {"malformed_record"}


# Nothing twice, nothing lost


def test_a_commit_that_lags_behind_doubles_nothing(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], place: Place
) -> None:
    kafka.send(topic, *numbered(0, 5))
    source().pull(place.zone, NOW)
    kafka.commit(topic, GROUP, 0, 2)
    pulled = source().pull(place.zone, NOW + timedelta(days=40))
    assert (pulled.landed, pulled.more) == ([], False)
    assert kafka.committed(topic, GROUP) == {0: 5}, "it has caught up"
    kafka.commit(topic, GROUP, 0, 2)
    kafka.send(topic, *numbered(5, 6))
    source().pull(place.zone, NOW + timedelta(days=41))
    assert places(place.zone) == [(0, offset) for offset in range(6)]


@pytest.mark.parametrize("committed", [True, False])
def test_a_clock_that_is_behind_lands_into_the_newest_day(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], place: Place, committed: bool
) -> None:
    for count, days in enumerate((1, 0, 1)):
        kafka.send(topic, *numbered(count, count + 1))
        if count and not committed:
            kafka.commit(topic, GROUP, 0, 0)
        pulled = source().pull(place.zone, NOW + timedelta(days=days))
        assert ([file.day.day for file in pulled.landed], pulled.warnings) == ([2], ())
    assert places(place.zone) == [(0, 0), (0, 1), (0, 2)]


def test_nothing_is_committed_that_has_not_landed(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], local_place: LocalPlace
) -> None:
    kafka.send(topic, *numbered(0, 3))
    source().pull(local_place.zone, NOW)
    kafka.send(topic, *numbered(3, 6))
    local_place.put("2026-09-02/shop", "a file where the folder should be")
    with pytest.raises(ConfigurationError, match="2026-09-02/shop"):
        source().pull(local_place.zone, NOW + timedelta(days=1))
    assert kafka.committed(topic, GROUP) == {0: 3}
    local_place.delete("2026-09-02/shop")
    assert source().pull(local_place.zone, NOW + timedelta(days=1)).records == 3
    assert places(local_place.zone) == [(0, offset) for offset in range(6)]


def test_a_batch_that_cannot_appear_is_not_committed(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], local_place: LocalPlace
) -> None:
    kafka.send(topic, *numbered(0, 3))
    kafka.send(topic, *numbered(0, 2), partition=1)
    name = f"2026-09-01/shop/{GROUP}@{topic}-00000-{0:020}.jsonl"
    local_place.put(f"{name}/in-its-place", "")
    pulled = source().pull(local_place.zone, NOW)
    assert (pulled.records, pulled.more) == (2, True)
    assert kafka.committed(topic, GROUP) == {1: 2}
    local_place.delete(f"{name}/in-its-place")
    (local_place.root / name).rmdir()
    assert source().pull(local_place.zone, NOW).records == 3
    assert places(local_place.zone) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


def test_the_committed_offset_counts_where_nothing_has_landed(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    kafka.send(topic, *numbered(0, 5))
    kafka.commit(topic, GROUP, 0, 3)
    pulled = source().pull(zone, NOW)
    assert pulled.warnings == ()
    assert places(zone) == [(0, 3), (0, 4)]


def test_another_group_begins_anew(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    kafka.send(topic, *numbered(0, 3))
    source().pull(zone, NOW)
    assert source(group="other").pull(zone, NOW).records == 3
    assert places(zone) == sorted([(0, offset) for offset in range(3)] * 2)
    assert source().pull(zone, NOW).records == 0


def test_topics_of_alike_names_are_told_apart(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    other = f"{topic}-00000-{0:020}"
    kafka.send(topic, *numbered(0, 2))
    kafka.send(other, *numbered(0, 3))
    assert source(topic=other).pull(zone, NOW).records == 3
    kafka.commit(topic, GROUP, 0, 0)
    assert source().pull(zone, NOW).records == 2


def test_a_group_that_others_move_on_is_reported(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    kafka.send(topic, *numbered(0, 3))
    source().pull(zone, NOW)
    kafka.send(topic, *numbered(3, 9))
    kafka.commit(topic, GROUP, 0, 7)
    (warning,) = source().pull(zone, NOW).warnings
    assert "partition 0: offsets 3 to 6 were skipped" in warning
    assert places(zone) == [(0, offset) for offset in (0, 1, 2, 7, 8)]


def test_a_file_whose_end_was_committed_is_not_read_again(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], local_place: LocalPlace
) -> None:
    kafka.send(topic, *numbered(0, 3))
    (file,) = source().pull(local_place.zone, NOW).landed
    kafka.send(topic, *numbered(3, 4))
    local_place.put(file.uri, "x" * file.size_bytes)
    assert source().pull(local_place.zone, NOW).records == 1


def test_a_newest_file_that_was_edited_is_named(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], local_place: LocalPlace
) -> None:
    kafka.send(topic, *numbered(0, 3))
    (file,) = source().pull(local_place.zone, NOW).landed
    kafka.send(topic, *numbered(3, 4))
    local_place.put(file.uri, "edited\n")
    with pytest.raises(ConfigurationError, match=f"{file.uri} does not end with a message") as caught:
        source().pull(local_place.zone, NOW)
    assert "\n" not in str(caught.value)


def test_messages_that_retention_deleted_are_reported(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    # The broker keeps 5 MB a partition.
    big = b'{"text":"%s"}' % (b"x" * 500_000)
    kafka.send(topic, *[big] * 3)
    source(messages_per_pull=2).pull(zone, NOW)
    kafka.send(topic, *[big] * 12)
    pulled = source().pull(zone, NOW)
    first = 15 - pulled.records
    assert first > 2, "nothing was deleted"
    (warning,) = pulled.warnings
    assert f"partition 0: the topic's retention deleted offsets 2 to {first - 1} before they were read" in warning
    assert places(zone) == [(0, offset) for offset in (0, 1, *range(first, 15))]
    assert source().pull(zone, NOW) == Pulled()


def test_a_topic_that_was_old_when_it_was_first_read_is_no_loss(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    kafka.send(topic, *[b'{"text":"%s"}' % (b"x" * 500_000)] * 15)
    pulled = source().pull(zone, NOW)
    assert [file.name for file in pulled.landed] == [f"{GROUP}@{topic}-00000-{0:020}.jsonl"]
    assert pulled.warnings == ()
    assert places(zone)[0] > (0, 0), "nothing was deleted"
    assert source().pull(zone, NOW) == Pulled()


def test_a_topic_that_was_created_anew_is_told(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    kafka.send(topic, *numbered(0, 9))
    source().pull(zone, NOW)
    anew = MockKafka()
    anew.send(topic, *numbered(0, 5))
    with pytest.raises(ConfigurationError, match=r"ends at offset 5, but was read up to 9: .* another `group`"):
        source(servers=anew.servers).pull(zone, NOW)
    assert source(servers=anew.servers, group="anew").pull(zone, NOW).records == 5
    anew.commit(topic, "moved", 0, 6)
    with pytest.raises(ConfigurationError, match="ends at offset 5, but was read up to 6"):
        source(servers=anew.servers, group="moved").pull(zone, NOW)


def test_pulls_at_once_land_nothing_twice(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    for partition in range(4):
        kafka.send(topic, *numbered(0, 100), partition=partition)
    with ThreadPoolExecutor(4) as pool:
        ends = [pool.submit(pull_all, source(messages_per_pull=10 + turn), zone) for turn in range(4)]
        pulled = [one for end in ends for one in end.result()]
    assert places(zone) == [(partition, offset) for partition in range(4) for offset in range(100)]
    assert sum(one.records for one in pulled) == 400
    assert max(kafka.committed(topic, GROUP).values()) <= 100
    assert source().pull(zone, NOW) == Pulled()


PULL = """
import sys
from datetime import datetime
from pathlib import Path

from resources.landing_zone import LandingZoneResource
from resources.pulled_sources import Pulled
from resources.pulled_sources.kafka import KafkaSource

root, servers, topic, bound, now = sys.argv[1:]
source = KafkaSource("shop", servers, topic, messages_per_pull=int(bound), wait_s=30)
zone = LandingZoneResource(root=root)
print("ready", flush=True)
pulled = source.pull(zone, datetime.fromisoformat(now))
print(pulled.records, pulled.more, flush=True)
while pulled.more:
    pulled = source.pull(zone, datetime.fromisoformat(now))
"""


@pytest.fixture
def start_pulling(
    kafka: MockKafka, topic: str, zone: LandingZoneResource, project_root: Path
) -> Iterator[Callable[[int, datetime], subprocess.Popen[str]]]:
    """Starts a process that pulls, batch by batch; it is about to begin."""
    started: list[subprocess.Popen[str]] = []

    def start(messages_per_pull: int, now: datetime) -> subprocess.Popen[str]:
        arguments = [zone.root, kafka.servers, topic, str(messages_per_pull), now.isoformat()]
        process = subprocess.Popen(
            [sys.executable, "-c", PULL, *arguments], cwd=project_root, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def wait_for(process: subprocess.Popen[str], seen: Callable[[], bool]) -> None:
    while not seen():
        assert process.poll() is None, "it ended before"
        time.sleep(0.0005)


def test_a_pull_killed_at_any_moment_loses_and_doubles_nothing(
    kafka: MockKafka,
    topic: str,
    source: Callable[..., KafkaSource],
    zone: LandingZoneResource,
    start_pulling: Callable[[int, datetime], subprocess.Popen[str]],
) -> None:
    for partition in range(4):
        kafka.send(topic, *numbered(0, 1000), partition=partition)

    def files() -> int:
        return sum(len(zone.files_of("shop", day)) for day in zone.days())

    moments = random.Random(5)
    for day in range(4):
        before = files()
        process = start_pulling(20, NOW + timedelta(days=day))
        # At first as soon as a file has appeared, when nothing of it is committed yet.
        wait_for(process, lambda before=before: files() > before)
        if day:
            time.sleep(moments.uniform(0, 0.1))
        process.kill()
        process.wait()
        assert process.returncode == -signal.SIGKILL
    assert len(places(zone)) < 4000, "nothing was left to be killed"
    pull_all(source(), zone, NOW + timedelta(days=4))
    assert places(zone) == [(partition, offset) for partition in range(4) for offset in range(1000)]


def test_a_pull_that_midnight_overtook_lands_nothing(
    kafka: MockKafka,
    topic: str,
    source: Callable[..., KafkaSource],
    local_place: LocalPlace,
    start_pulling: Callable[[int, datetime], subprocess.Popen[str]],
) -> None:
    kafka.send(topic, *numbered(0, 20_000))
    slow = start_pulling(30_000, NOW)
    wait_for(slow, lambda: local_place.names() != [])
    slow.send_signal(signal.SIGSTOP)
    assert lines(local_place.zone) == [], "it was not stopped in time"
    pull_all(source(messages_per_pull=8_000), local_place.zone, NOW + timedelta(days=1))
    slow.send_signal(signal.SIGCONT)
    assert slow.communicate()[0] == "0 True\n"
    assert places(local_place.zone) == [(0, offset) for offset in range(20_000)]
    assert local_place.zone.files_of("shop", NOW.date()) == []


# What a person must mend, and what another time mends


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[str]:
    """host:port of a server whose certificate is signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2126, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "server.pem"
    path.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            with suppress(OSError):  # it is closed at the end
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=greet)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def refused(source: KafkaSource, zone: LandingZoneResource, kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        source.pull(zone, NOW)
    assert "\n" not in str(caught.value)
    assert zone.days() == []
    return str(caught.value)


@pytest.mark.parametrize("name", ["nothing-of-the-kind", "no topic at all!"])
def test_an_unknown_topic(source: Callable[..., KafkaSource], zone: LandingZoneResource, name: str) -> None:
    said = refused(source(topic=name), zone, ConfigurationError)
    assert said.startswith(f"source shop: topic {name} at 127.0.0.1:")
    assert said.endswith("there is no such topic: correct `topic`, or create it")


@pytest.mark.parametrize(
    ("servers", "says"), [("127.0.0.1:1", "Connection refused"), ("no.such.host.invalid:9092", "Failed to resolve")]
)
def test_brokers_that_cannot_be_reached(
    source: Callable[..., KafkaSource], zone: LandingZoneResource, servers: str, says: str
) -> None:
    said = refused(source(servers=servers, answer_s=0.5), zone, ServerUnavailableError)
    assert f"at {servers} cannot be read now" in said
    assert says in said


@pytest.mark.parametrize("asked", [{}, {"log_level": "7", "debug": "broker"}])
def test_the_client_writes_to_the_log_and_only_what_it_is_asked_to(
    source: Callable[..., KafkaSource],
    zone: LandingZoneResource,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    asked: dict[str, str],
) -> None:
    caplog.set_level("DEBUG")
    refused(source(servers="127.0.0.1:1", answer_s=0.5, properties=asked), zone, ServerUnavailableError)
    assert bool([one for one in caplog.records if one.name == "resources.pulled_sources.kafka"]) == bool(asked)
    assert capfd.readouterr() == ("", "")


def test_brokers_that_send_nothing(topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource) -> None:
    slow = MockKafka(**{"test.mock.broker.rtt": 100})
    slow.send(topic, b"{}")
    said = refused(source(servers=slow.servers, wait_s=0.02), zone, ServerUnavailableError)
    assert "nothing was sent within 0.02 s" in said
    assert source(servers=slow.servers).pull(zone, NOW).records == 1


def test_a_login_that_is_not_accepted(source: Callable[..., KafkaSource], zone: LandingZoneResource) -> None:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "reader",
        "sasl.password": "hunter2",
    }
    said = refused(source(properties=login, answer_s=0.5), zone, ConfigurationError)
    assert "SASL" in said
    assert said.endswith("correct the security settings among its `properties`")
    assert "hunter2" not in said
    assert "hunter2" not in repr(source(properties=login))


def test_a_certificate_that_is_not_trusted(
    source: Callable[..., KafkaSource], zone: LandingZoneResource, tls_server: str
) -> None:
    encrypted = {"security.protocol": "SSL"}
    said = refused(source(servers=tls_server, properties=encrypted, answer_s=1), zone, ConfigurationError)
    assert "broker certificate could not be verified" in said
    assert said.endswith("correct the security settings among its `properties`")


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"no.such.setting": "1"}, 'No such configuration property: "no.such.setting"'),
        ({"security.protocol": "tsl"}, 'Invalid value "tsl" for configuration property "security.protocol"'),
        ({"sasl.oauthbearer.method": "hunter2"}, 'Invalid value "***" for configuration property'),
        ({"group.id": "other"}, "`properties` may not set group.id: take it out"),
        ({"on_commit": "print"}, "correct its `properties`"),
    ],
)
def test_properties_that_cannot_be(
    source: Callable[..., KafkaSource], zone: LandingZoneResource, properties: dict[str, str], says: str
) -> None:
    assert says in refused(source(properties=properties), zone, ConfigurationError)


def test_properties_reach_the_client(
    kafka: MockKafka, topic: str, source: Callable[..., KafkaSource], zone: LandingZoneResource
) -> None:
    kafka.send(topic, b"{}")
    said = refused(
        source(properties={"security.protocol": "SSL"}, answer_s=0.5, wait_s=1), zone, ServerUnavailableError
    )
    assert "SSL_HANDSHAKE" in said


@pytest.mark.parametrize("group", ["", "_hidden", "a/b", "a@b", "a b"])
def test_a_group_that_no_file_name_can_hold(
    source: Callable[..., KafkaSource], zone: LandingZoneResource, group: str
) -> None:
    assert "cannot be part of a file name" in refused(source(group=group), zone, ConfigurationError)
