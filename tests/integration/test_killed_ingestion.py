"""`kill -9` while all kinds of sources are ingested, and once more to the end: each record stands exactly once.

Each record that is put in holds a number of its own, as `<17>`. The truth is kept here, by these numbers alone, and
compared with what the tables hold. Around midnight records may arrive on two days; which of them is what the tables
say, all else follows from that.
"""

import base64
import csv
import gzip
import io
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from platform_assets.domain.raw_feedback import Reason
from resources.triton import TritonResource
from tests.kafka import PARTITIONS, MockKafka
from tests.landing_places import BucketPlace, LocalPlace, Place
from tests.made_files import workbook
from tests.postgres import Database, new_database, postgres_server
from tests.project import Project, make_project
from tests.s3 import Bucket

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

TABLES = ("raw_feedback", "quarantined_feedback", "landed_files")
"""Of ingestion; a run writes the ledger last."""

INGESTING = Path(__file__).with_name("ingesting.py")
SEED = "KILL_SEED"
"""Variable of the environment that repeats the moments and the records of another session."""

FIELDS = ("id", "text", "stars", "at")
COLUMNS = {"source_record_id": "id", "text": "text", "rating": "stars"}
OF_CHAT = {"source_record_id": "value.id", "text": "value.text", "rating": "value.stars", "created_at": "timestamp"}


@dataclass(frozen=True)
class Delivery:
    """A record as it was put in once; its source may deliver the same id again."""

    source: str
    record_id: str
    breach: Reason | None
    """Why it cannot become a row."""


@dataclass
class Truth:
    """Everything that was put in and not taken back, by number; a later number is a later delivery."""

    deliveries: dict[int, Delivery] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def put(self, source: str, record_id: str, breach: Reason | None = None) -> str:
        """Note a delivery; the mark that its record has to hold."""
        number = next(self.numbers)
        self.deliveries[number] = Delivery(source, record_id, breach)
        return f"<{number}>"

    def take_back(self, record: str) -> None:
        del self.deliveries[number_in(record)]


def number_in(record: str) -> int:
    (number,) = re.findall(r"<(\d+)>", record)
    return int(number)


def number_of_letter(raw: str) -> int:
    """The number in a dead letter; a poisonous message lands in base64."""
    if raw.startswith("!{") and (value := json.loads(raw[1:])["value_base64"]):
        return number_in(base64.b64decode(value).decode(errors="replace"))
    return number_in(raw)


class Stored(NamedTuple):
    """A row or a dead letter."""

    day: date
    file_uri: str
    line_no: int
    number: int
    what: str
    """The id of a row, the reason of a dead letter."""


class Ledgered(NamedTuple):
    """A file of the ledger."""

    day: date
    file_uri: str
    content_hash: str
    records: int
    loaded: int
    quarantined: int


@dataclass(frozen=True)
class Tables:
    """What the tables hold, but for the times at which it was first seen."""

    rows: list[Stored]
    letters: list[Stored]
    files: list[Ledgered]

    @classmethod
    def of(cls, project: Project) -> "Tables":
        def read(table: str, *columns: str) -> list[tuple[Any, ...]]:
            if not project.lake.exists(table):
                return []
            return sorted(project.lake.scan(table).select("partition_date", "file_uri", *columns).collect().iter_rows())

        rows = read("raw_feedback", "line_no", "text", "feedback_id")
        letters = read("quarantined_feedback", "line_no", "raw", "reason")
        return cls(
            [Stored(*place, number_in(text), identity) for *place, text, identity in rows],
            [Stored(*place, number_of_letter(raw), reason) for *place, raw, reason in letters],
            [Ledgered(*file) for file in read("landed_files", *Ledgered._fields[2:])],
        )

    def check(self, truth: Truth) -> None:
        """Hold them against the truth."""
        day_of = {one.number: one.day for one in (*self.rows, *self.letters)}
        stored = Counter(one.number for one in (*self.rows, *self.letters))
        assert [number for number, times in stored.items() if times > 1] == [], "stands twice"
        assert sorted(truth.deliveries.keys() - stored.keys()) == [], "lost"
        assert sorted(stored.keys() - truth.deliveries.keys()) == [], "unknown"

        versions: defaultdict[tuple[date, str, str], list[int]] = defaultdict(list)
        for number, one in truth.deliveries.items():
            if one.breach is None:
                versions[day_of[number], one.source, one.record_id].append(number)
        reasons = {number: one.breach.value for number, one in truth.deliveries.items() if one.breach}
        reasons |= {number: Reason.SUPERSEDED.value for each in versions.values() for number in sorted(each)[:-1]}
        assert {one.number for one in self.rows} == {max(each) for each in versions.values()}
        assert {one.number: one.what for one in self.letters} == reasons
        assert len({(one.day, one.what) for one in self.rows}) == len(self.rows), "an id stands twice"

        loaded = Counter((one.day, one.file_uri) for one in self.rows)
        quarantined = Counter((one.day, one.file_uri) for one in self.letters)
        for file in self.files:
            place = file.day, file.file_uri
            assert (file.loaded, file.quarantined) == (loaded[place], quarantined[place]), file
            assert file.records == file.loaded + file.quarantined, file
        assert sum(file.records for file in self.files) == len(truth.deliveries)

    def written(self, before: "Tables", after: "Tables") -> int:
        """How many of them are as in `after`; the others are as in `before`, and the ledger is never the first."""
        found = []
        for name in ("rows", "letters", "files"):
            old, now, new = (getattr(tables, name) for tables in (before, self, after))
            assert now in (old, new), f"{name}: neither as before nor as after"
            found.append(now == new)
        assert all(found) or not found[-1], "the ledger knows what the other tables do not hold"
        return sum(found)


@dataclass
class Feeds:
    """All sources, to which others add: at each call of `add` some records, good and bad, to each of them."""

    place: Place
    exports: Path
    bucket: Bucket
    database: Database
    kafka: MockKafka
    topic: str
    random: random.Random
    truth: Truth = field(default_factory=Truth)
    ids: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    by_hand: dict[str, bytes] = field(default_factory=dict)
    tidied: list[str] = field(default_factory=list)
    """Ids of records that are in no file any more."""
    watched: dict[Path, list[str]] = field(default_factory=dict)
    rounds: int = 0

    def add(self) -> None:
        self.rounds += 1
        self._put_by_hand()
        self._export()
        self._upload()
        self._write_tickets()
        self._chat()

    def sources(self) -> dict[str, Any]:
        """For `config/sources.yaml`; small bounds, so that a pull has many steps."""
        columns = {**COLUMNS, "created_at": "at"}
        tickets = {"dsn_variable": "TICKETS_DSN", "table": "tickets", "watermark": "updated_at", "key": "id"}
        chat = {"servers": self.kafka.servers, "topic": self.topic, "messages_per_pull": 60}
        pulls: dict[str, dict[str, Any]] = {
            "exports": {"kind": "folder", "path": str(self.exports), "pattern": "*.csv", "files_per_pull": 1},
            "uploads": {"kind": "folder", "path": f"{self.bucket.uri}/uploads", "files_per_pull": 1},
            "tickets": {"kind": "postgres", **tickets, "rows_per_pull": 60},
            "chat": {"kind": "kafka", **chat},
        }
        of = {"tickets": {**COLUMNS, "created_at": "updated_at"}, "chat": OF_CHAT}
        return {
            "reviews": {"files": ["reviews-*"], "columns": columns},
            **{name: {"columns": of.get(name, columns), "pull": pull} for name, pull in pulls.items()},
        }

    def _put_by_hand(self) -> None:
        """A file of each kind. Now and then comes a copy of an earlier one, and one is tidied away."""
        some = self.random.sample(self.ids["reviews"], min(7, len(self.ids["reviews"])))
        corrected = {*some, *self.random.sample(self.tidied, min(3, len(self.tidied)))}
        files = {
            "csv": csv_file(self._csv_lines("reviews", 200, sorted(corrected))),
            "jsonl.gz": gzip.compress(self._json_lines("reviews", 200)),
            "xlsx": workbook([FIELDS, *(list(one.values()) for one in self._records("reviews", 100))]),
        }
        tables = [uri for uri in self.by_hand if uri.endswith(".csv")]
        if self.rounds % 4 == 2:
            files["copy.csv"] = self.by_hand[self.random.choice(tables)]
        if self.rounds % 4 == 0:
            uri = self.random.choice(tables)
            content = self.by_hand.pop(uri)
            self.place.delete(uri)
            if content not in self.by_hand.values():
                self.tidied += re.findall(r"^reviews-\d+", content.decode(), re.MULTILINE)
        for ending, content in files.items():
            uri = f"{datetime.now(UTC).date()}/reviews-{self.rounds:03}.{ending}"
            self.place.put(uri, content)
            self.by_hand[uri] = content

    def _export(self) -> None:
        """Two new files in the watched folder, and one that has changed: a record is gone, others are there."""
        if self.watched:
            path = self.random.choice(list(self.watched))
            self.truth.take_back(self.watched[path].pop(0))
            self.watched[path] += self._csv_lines("exports", 20)
            path.write_bytes(csv_file(self.watched[path]))
        for name in ("eu/export", "export"):
            path = self.exports / f"{name}-{self.rounds:03}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            self.watched[path] = self._csv_lines("exports", 80)
            path.write_bytes(csv_file(self.watched[path]))

    def _upload(self) -> None:
        for number in range(3):
            self.bucket.put(f"uploads/{self.rounds:03}/part-{number}.jsonl", self._json_lines("uploads", 50))

    def _write_tickets(self) -> None:
        """New rows, and earlier ones written again, all of one time."""
        again = self.random.sample(self.ids["tickets"], min(25, len(self.ids["tickets"])))
        records = self._records("tickets", 200, again, [Reason.BAD_RATING])
        self.database.run(
            "INSERT INTO tickets SELECT * FROM unnest(%s::text[], %s::text[], %s::int[]) ON CONFLICT (id) "
            "DO UPDATE SET text = excluded.text, stars = excluded.stars, updated_at = now()",
            [[one[name] for one in records] for name in ("id", "text", "stars")],
        )

    def _chat(self) -> None:
        """Messages, and some that are poison. Those of one id are of one partition."""
        again = self.random.sample(self.ids["chat"], min(15, len(self.ids["chat"])))
        values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        for one in self._records("chat", 250, again, [Reason.BAD_RATING, Reason.MISSING_ID]):
            values[zlib.crc32(one["id"].encode()) % PARTITIONS].append(json.dumps(one).encode())
        for poison in ('{"text": "%s"', '["%s"]', "%s", '{"text": "%s \udcff"}'):
            mark = self.truth.put("chat", "", Reason.MALFORMED_RECORD)
            messages = self.random.choice(values)
            messages.insert(self.random.randint(0, len(messages)), (poison % mark).encode(errors="surrogateescape"))
        for partition, messages in enumerate(values):
            self.kafka.send(self.topic, *messages, partition=partition)
        self.kafka.send(self.topic, None, key=self.truth.put("chat", "", Reason.MALFORMED_RECORD))

    def _csv_lines(self, source: str, count: int, again: Sequence[str] = ()) -> list[str]:
        lines = [csv_line(one.values()) for one in self._records(source, count, again)]
        mark = self.truth.put(source, "", Reason.WRONG_FIELD_COUNT)
        return [*lines, csv_line([f"short-{mark}", mark[:0], "3"])]

    def _json_lines(self, source: str, count: int) -> bytes:
        lines = [json.dumps(one) for one in self._records(source, count)]
        lines.insert(count // 2, f'{{"id": "cut", "text": "{self.truth.put(source, "", Reason.MALFORMED_RECORD)}')
        return "".join(f"{line}\n" for line in lines).encode()

    def _records(
        self,
        source: str,
        count: int,
        again: Sequence[str] = (),
        breaches: Sequence[Reason] = (Reason.BAD_RATING, Reason.BAD_TIME, Reason.MISSING_ID),
    ) -> list[dict[str, str]]:
        """New records, one of which breaks the contract for each of `breaches`, and then some of earlier ids."""
        new = [f"{source}-{len(self.ids[source]) + number}" for number in range(count)]
        self.ids[source] += new
        spoilt = dict(zip(self.random.sample(new, len(breaches)), breaches, strict=True))
        return [self._record(source, identity, spoilt.get(identity)) for identity in (*new, *again)]

    def _record(self, source: str, identity: str, breach: Reason | None) -> dict[str, str]:
        return {
            "id": "" if breach is Reason.MISSING_ID else identity,
            "text": f'{self.truth.put(source, identity, breach)} it is "fine",\nthank you',
            "stars": "9" if breach is Reason.BAD_RATING else str(self.random.randint(1, 5)),
            "at": "yesterday" if breach is Reason.BAD_TIME else "2026-09-01T10:00:00+02:00",
        }


def csv_line(fields: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(fields)
    return line.getvalue()


def csv_file(lines: Sequence[str]) -> bytes:
    return "".join([csv_line(FIELDS), *lines]).encode()


class Ingesting:
    """A process that pulls and runs whenever it is told to begin; see `ingesting.py`."""

    def __init__(self, project: Project) -> None:
        self.told: dict[str, float] = {}
        """The phases that it has begun, each with the seconds since its beginning."""
        self._process = subprocess.Popen(
            [sys.executable, str(INGESTING)],
            cwd=project.root,
            env={**os.environ, "FEEDBACK_PROJECT": str(project.root), "DAGSTER_HOME": str(project.root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def phase(self) -> str:
        """How far it came: `pull`, `run` or `end`."""
        return list(self.told)[-1]

    def finish(self) -> None:
        """Let it work to the end; it may then begin again."""
        self._begin()
        while self.phase != "end":
            self._hear()

    def kill_when(self, is_time: Callable[[float], bool]) -> float:
        """Let it work until it is time, which is asked with the seconds that it has worked; those are returned, too."""
        self._begin()
        began = time.monotonic()
        while not is_time(worked := time.monotonic() - began) and self._process.poll() is None:
            time.sleep(0.005)
        self._process.kill()
        told, errors = self._process.communicate()
        assert self._process.returncode == -signal.SIGKILL, errors
        for line in told.splitlines():
            self._note(line)
        return worked

    def close(self) -> None:
        with self._process:
            self._process.kill()

    def _begin(self) -> None:
        assert self._process.stdin
        self.told = {}
        self._process.stdin.write("begin\n")
        self._process.stdin.flush()
        self._hear()

    def _hear(self) -> None:
        assert self._process.stdout and self._process.stderr
        line = self._process.stdout.readline()
        assert line, self._process.stderr.read()
        self._note(line)

    def _note(self, line: str) -> None:
        phase, seconds = line.split()
        self.told[phase] = float(seconds)


class Rounds:
    """In each, records are added, the run that ingests them is killed, and another process goes on to the end."""

    def __init__(self, project: Project, feeds: Feeds) -> None:
        self._project = project
        self._feeds = feeds
        self._processes = [Ingesting(project)]

    def begin(self) -> None:
        """Measure a run that nobody kills; the first one of a project takes longer."""
        for _ in range(2):
            self._feeds.add()
            self._finish(self._processes[0])
        self._pull_s = self._processes[0].told["run"]

    def kill_at(self, moment: float) -> str:
        """Kill a run after this part of its expected time; the phase that it was in."""
        return self._round(lambda seconds: seconds >= moment * (self._pull_s + self._run_s))

    def kill_after_commit(self, table: str) -> str:
        """Kill a run as soon as it has written a table; the phase that it was in."""
        version = self._project.lake.version(table)
        return self._round(lambda _: self._project.lake.version(table) != version)

    def close(self) -> None:
        for process in self._processes:
            process.close()

    def _round(self, is_time: Callable[[float], bool]) -> str:
        # The one that went on in the round before is killed in this one; meanwhile the next one imports.
        victim, successor = self._processes[-1], Ingesting(self._project)
        self._processes.append(successor)
        before = self._tables
        self._feeds.add()
        seconds = victim.kill_when(is_time)
        self._pull_s = victim.told.get("run", self._pull_s)
        between = Tables.of(self._project)
        self._finish(successor)
        blow = "too late" if victim.phase == "end" else f"killed in `{victim.phase}`"
        written = between.written(before, self._tables)
        counts = f"{len(self._tables.rows):,} rows, {len(self._tables.letters):,} dead letters"
        show(f"{blow} after {seconds:.2f} s, {written} of 3 tables written; in the end {counts}, as it should be")
        return victim.phase

    def _finish(self, process: Ingesting) -> None:
        process.finish()
        self._run_s = process.told["end"] - process.told["run"]
        self._tables = Tables.of(self._project)
        self._tables.check(self._feeds.truth)


def kill_often(times: int, rounds: Rounds, draw: random.Random) -> Counter[str]:
    """Kill runs at random moments, one in each part of their time; how many in which phase of their work."""
    moments = [(part + draw.random()) / times for part in range(times)]
    draw.shuffle(moments)
    killed: Counter[str] = Counter()
    for moment in moments:
        earlier = moment
        # One that came too late does not count.
        while (phase := rounds.kill_at(earlier)) == "end":
            earlier *= 0.8
        killed[phase] += 1
    show(f"{killed.total()} of {times}: {dict(killed)}")
    return killed


def show(line: str) -> None:
    print(line)  # noqa: T201 - what pytest -s is for


@pytest.fixture
def database() -> Iterator[Database]:
    with postgres_server() as server, new_database(server) as database:
        database.run(
            "CREATE TABLE tickets (id text PRIMARY KEY, text text, stars int, updated_at timestamptz DEFAULT now());"
            "CREATE INDEX ON tickets (updated_at, id)"
        )
        yield database


@pytest.fixture
def draw() -> random.Random:
    seed = int(os.environ.get(SEED) or time.time_ns() % 1_000_000)
    show(f"\n{SEED}={seed}")
    return random.Random(seed)


@pytest.fixture
def project(tmp_path: Path, project_root: Path, database: Database, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = make_project(tmp_path, TritonResource(url="127.0.0.1:1", repository="none"))
    shutil.copy(project_root / "dagster.yaml", tmp_path)
    project.edit("platform", lambda text: text.replace("settle_s: 10 ", "settle_s: 0 "))
    # What killed processes leave there goes with the project.
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("TICKETS_DSN", database.dsn)
    return project


@pytest.fixture
def rounds(
    project: Project, s3_bucket: Bucket, database: Database, kafka: MockKafka, draw: random.Random
) -> Iterator[Callable[[Place], Rounds]]:
    """Makes the sources around a landing zone, declares them in the project, and begins."""
    with ExitStack() as stack:

        def begin(place: Place) -> Rounds:
            feeds = Feeds(place, project.root / "exports", s3_bucket, database, kafka, f"chat-{uuid.uuid4()}", draw)
            feeds.exports.mkdir()
            (project.root / "config" / "sources.yaml").write_text(yaml.safe_dump({"sources": feeds.sources()}))
            begun = stack.enter_context(closing(Rounds(project, feeds)))
            begun.begin()
            return begun

        yield begin


def test_on_a_local_disk(local_place: LocalPlace, rounds: Callable[[Place], Rounds], draw: random.Random) -> None:
    begun = rounds(local_place)
    killed = kill_often(20, begun, draw)
    for table in TABLES:
        begun.kill_after_commit(table)
    assert killed.total() == 20
    assert min(killed["pull"], killed["run"]) >= 3


def test_in_a_bucket(
    project: Project, s3_place: BucketPlace, rounds: Callable[[Place], Rounds], draw: random.Random
) -> None:
    """Landing zone and tables are there, so that nothing depends on a disk."""
    lake = f"{s3_place.bucket.uri}/acme/lake"
    project.edit("platform", lambda text: text.replace("landing: landing ", f"landing: {s3_place.zone.root} "))
    project.edit("platform", lambda text: text.replace("lake: data/lake ", f"lake: {lake} "))
    begun = rounds(s3_place)
    killed = kill_often(6, begun, draw)
    assert killed.total() == 6
    assert min(killed["pull"], killed["run"]) >= 1
