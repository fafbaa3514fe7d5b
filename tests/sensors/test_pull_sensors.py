"""One sensor for each pulled source; what they land is read like any other file."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import filelock
import pytest

from platform_assets.definitions import build_defs
from platform_assets.sensors.pull_sensors import pull_sensors
from platform_assets.settings import SettingsResource
from resources.errors import ConfigurationError
from tests.kafka import MockKafka
from tests.postgres import Database, new_database, postgres_server
from tests.project import Project

pytest_plugins = ["tests.kafka"]

INGESTION = ("raw_feedback", "quarantined_feedback", "landed_files")
HEAVY = {"psycopg", "confluent_kafka", "obstore"}

INBOX = """
  inbox:
    columns: {text: Review, source_record_id: Id}
    settle_s: 0
    pull: {kind: folder, path: inbox, files_per_pull: 2}
"""
TICKETS = """
  tickets:
    columns: {text: message, source_record_id: id, created_at: updated_at}
    pull: {kind: postgres, dsn_variable: TICKETS_DSN, table: tickets, watermark: updated_at, key: id, rows_per_pull: 2}
"""


def chat(kafka: MockKafka, topic: str) -> str:
    return f"""
  chat:
    columns: {{text: value.text, source_record_id: value.id, created_at: timestamp, author_id: key}}
    pull:
      kind: kafka
      servers: "{kafka.servers}"
      topic: {topic}
      messages_per_pull: 2
      wait_s: 30
"""


@pytest.fixture
def inbox(project: Project) -> Path:
    project.edit("sources", lambda text: text + INBOX)
    folder = project.root / "inbox"
    folder.mkdir()
    return folder


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    with postgres_server() as server, new_database(server) as database:
        monkeypatch.setenv("TICKETS_DSN", database.dsn)
        yield database


def tick(project: Project, name: str) -> str:
    """What a sensor says; it never asks for anything."""
    (sensor,) = [sensor for sensor in pull_sensors(project.settings) if sensor.name == name]
    answer = sensor(
        dg.build_sensor_context(
            instance=project.instance, resources={"settings": SettingsResource(project=str(project.root))}
        )
    )
    assert isinstance(answer, dg.SkipReason)
    return answer.skip_message or ""


def landed(project: Project) -> list[str]:
    return [file.uri for day in project.landing.days() for file in project.landing.files(day)]


def texts(project: Project) -> list[str]:
    """Load every day, and return the texts of its rows; no record may be lost on the way."""
    found: list[str] = []
    for day in project.landing.days():
        assert project.run(day, *INGESTION).success
        assert project.rows("quarantined_feedback", day).is_empty()
        found += project.rows("raw_feedback", day)["text"].to_list()
    return sorted(found)


def test_each_pulled_source_has_a_sensor_that_runs_from_the_start(project: Project) -> None:
    assert pull_sensors(project.settings) == []
    project.edit("sources", lambda text: text + INBOX + TICKETS)
    sensors = {sensor.name: sensor for sensor in build_defs(project.settings).sensors or []}
    for name, what in (("pull_inbox", "new and changed files"), ("pull_tickets", "new and changed rows")):
        assert sensors[name].default_status is dg.DefaultSensorStatus.RUNNING
        assert sensors[name].minimum_interval_seconds == 30
        assert what in (sensors[name].description or "")
    assert {"landing_sensor", "anomaly_model_sensor"} < sensors.keys()


def test_sources_that_are_not_valid_are_refused_at_load(project: Project) -> None:
    project.edit("sources", lambda text: text + INBOX.replace("kind: folder", "kind: ftp"))
    with pytest.raises(ConfigurationError, match=r"sources\.yaml:\d+: sources\.inbox\.pull") as caught:
        build_defs(project.settings)
    assert "\n" not in str(caught.value)


def test_defining_the_sensors_loads_no_client(project: Project, inbox: Path, project_root: Path) -> None:
    project.edit("sources", lambda text: text + TICKETS + chat_anywhere())
    code = (
        "import sys, platform_assets.definitions as found\n"
        f"print(len(found.defs().sensors), sorted({HEAVY!r} & set(sys.modules)))"
    )
    variables = {"PYTHONPATH": str(project_root), "FEEDBACK_PROJECT": str(project.root)}
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    assert run.stdout == "6 []\n"


def chat_anywhere() -> str:
    return "  chat:\n    columns: {text: value.text}\n    pull: {kind: kafka, servers: k, topic: t}\n"


def test_files_land_and_are_read(project: Project, inbox: Path) -> None:
    assert tick(project, "pull_inbox") == "nothing new"
    for number in range(5):
        (inbox / f"{number}.csv").write_text(f"Id,Review\n{number},review {number}\n")
    assert tick(project, "pull_inbox") == "landed 5 files"
    assert tick(project, "pull_inbox") == "nothing new"
    (inbox / "0.csv").write_text("Id,Review\n0,changed\n")
    assert tick(project, "pull_inbox") == "landed 1 file"
    assert texts(project) == ["changed", *(f"review {number}" for number in range(1, 5))]


def test_rows_land_and_are_read(project: Project, database: Database) -> None:
    project.edit("sources", lambda text: text + TICKETS)
    database.run(
        "CREATE TABLE tickets (id int PRIMARY KEY, message text, updated_at timestamptz NOT NULL DEFAULT now());"
        "CREATE INDEX ON tickets (updated_at, id);"
        "INSERT INTO tickets SELECT n, 'ticket ' || n FROM generate_series(1, 5) n"
    )
    assert tick(project, "pull_tickets") == "landed 5 records in 3 files"
    assert tick(project, "pull_tickets") == "nothing new"
    assert texts(project) == [f"ticket {number}" for number in range(1, 6)]


def test_messages_land_and_are_read(project: Project, kafka: MockKafka) -> None:
    topic = f"chat-{uuid.uuid4().hex}"
    project.edit("sources", lambda text: text + chat(kafka, topic))
    kafka.send(topic, *[b'{"id": %d, "text": "message %d"}' % (n, n) for n in range(3)], key="C-1")
    assert tick(project, "pull_chat") == "landed 3 records in 2 files"
    assert tick(project, "pull_chat") == "nothing new"
    assert texts(project) == ["message 0", "message 1", "message 2"]
    (day,) = project.landing.days()
    rows = project.rows("raw_feedback", day)
    assert set(rows["author_id"]) == {"C-1"}
    assert all(abs((datetime.now(UTC) - written).total_seconds()) < 3600 for written in rows["created_at"])


def test_one_line_says_what_a_person_must_do(project: Project, inbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TICKETS_DSN", raising=False)
    project.edit("sources", lambda text: text + TICKETS)
    with pytest.raises(dg.Failure, match=r"^source tickets: the environment variable TICKETS_DSN is not set") as caught:
        tick(project, "pull_tickets")
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__
    (inbox / "a.csv").write_text("Id,Review\n1,fine\n")
    assert tick(project, "pull_inbox") == "landed 1 file", "a broken source disturbs no other"


def test_a_server_that_is_down_is_asked_again(
    project: Project, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.edit("sources", lambda text: text + TICKETS)
    database.run("CREATE TABLE tickets (id int, message text, updated_at timestamptz)")
    database.run("CREATE INDEX ON tickets (updated_at, id)")
    monkeypatch.setenv("TICKETS_DSN", database.dsn_with(host="127.0.0.1", port=1))
    with pytest.raises(dg.Failure, match=r"^source tickets: PostgreSQL does not answer"):
        tick(project, "pull_tickets")
    monkeypatch.setenv("TICKETS_DSN", database.dsn)
    assert tick(project, "pull_tickets") == "nothing new"


def test_a_corrected_entry_needs_no_restart(project: Project, inbox: Path) -> None:
    (sensor,) = pull_sensors(project.settings)
    inbox.rename(project.root / "elsewhere")
    (project.root / "elsewhere" / "a.csv").write_text("Id,Review\n1,fine\n")

    def look() -> object:
        return sensor(
            dg.build_sensor_context(
                instance=project.instance, resources={"settings": SettingsResource(project=str(project.root))}
            )
        )

    with pytest.raises(dg.Failure, match="inbox is no folder: create it, or correct its `path`"):
        look()
    project.edit("sources", lambda text: text.replace("path: inbox", "path: elsewhere"))
    assert look() == dg.SkipReason("landed 1 file")
    project.edit("sources", lambda text: text.replace(INBOX.replace("path: inbox", "path: elsewhere"), ""))
    assert look() == dg.SkipReason("config/sources.yaml no longer has this source pulled: reload the code location")


def test_a_pull_by_hand_is_not_disturbed(project: Project, inbox: Path) -> None:
    place = project.root / ".cache" / "pulls" / "inbox.lock"
    place.parent.mkdir(parents=True)
    with filelock.FileLock(place):
        assert tick(project, "pull_inbox") == "source inbox: another pull is under way: wait for its end"
    assert landed(project) == []


def test_dagster_takes_a_sensor_that_starts_nothing(project: Project, inbox: Path) -> None:
    repository = project.definitions.get_repository_def()
    assert repository.get_sensor_def("pull_inbox").targets == []
