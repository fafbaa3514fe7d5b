"""What fetches each pulled source, and that one process at a time does."""

import re
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import filelock
import pytest

from platform_assets.pulls import (
    PullUnderWayError,
    missing_variables,
    pull_once,
    pulled_sources,
    puller_of,
)
from platform_assets.settings import Settings
from resources.errors import ConfigurationError
from resources.pulled_sources import Pulled
from resources.pulled_sources.folder import FolderSource
from resources.pulled_sources.kafka import KafkaSource
from resources.pulled_sources.postgres import PostgresSource
from resources.triton import TritonResource
from tests.project import Project, make_project

FOLDER = "pull: {kind: folder, path: inbox, pattern: '*.csv', files_per_pull: 7}"
POSTGRES = (
    "pull: {kind: postgres, dsn_variable: SHOP_DSN, table: a.b, watermark: at, key: id, overlap: 9, rows_per_pull: 8}"
)
KAFKA = """\
pull:
      kind: kafka
      servers: "k1:9092,k2:9092"
      topic: reviews
      group: mine
      messages_per_pull: 6
      wait_s: 2
      properties: {sasl.password: $SHOP_PASSWORD, sasl.username: me, ssl.ca: /etc/$x, a: $, b: $SHOP_PASSWORD!}"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, TritonResource(url="127.0.0.1:1", repository="none"))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHOP_DSN", "SHOP_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


def settings_with(project: Project, *entries: str) -> Settings:
    """The shipped sources, and one for each entry, which are called shop, shop_1 and so on."""
    names = ["shop", *(f"shop_{number}" for number in range(1, len(entries)))]
    added = "".join(
        f"  {name}:\n    columns: {{text: text}}\n    {entry}\n" for name, entry in zip(names, entries, strict=False)
    )
    project.edit("sources", lambda text: f"{text.rstrip()}\n\n{added}")
    return project.settings


def puller(settings: Settings) -> object:
    return puller_of("shop", settings.sources.sources["shop"], settings)


def test_the_shipped_sources_are_not_pulled(project: Project) -> None:
    assert pulled_sources(project.settings) == {}


def test_the_shipped_examples_are_valid(project: Project) -> None:
    example = re.compile(r"^  # ((?:survey|crm_notes|chat|  ).*)$", re.MULTILINE)
    project.edit("sources", lambda text: example.sub(r"  \1", text))
    found = [source.pull.kind for source in pulled_sources(project.settings).values() if source.pull]
    assert found == ["folder", "postgres", "kafka"]


def test_pulled_sources_are_those_with_an_entry(project: Project) -> None:
    settings = settings_with(project, FOLDER, "channel: mail", KAFKA)
    assert list(pulled_sources(settings)) == ["shop", "shop_2"]


def test_a_folder_lies_in_the_project_and_settles_as_the_landing_zone(project: Project) -> None:
    found = puller(settings_with(project, FOLDER))
    assert found == FolderSource("shop", str(project.root / "inbox"), "*.csv", 7, settle_s=10)


def test_a_rotating_file_is_added_where_its_source_says_so(project: Project) -> None:
    found = puller(settings_with(project, "pull: {kind: folder, path: inbox, on_change: add}"))
    assert found == FolderSource("shop", str(project.root / "inbox"), on_change="add", settle_s=10)


@pytest.mark.parametrize("path", ["/data/inbox", "s3://bucket/inbox"])
def test_a_place_that_is_not_in_the_project_stays_as_it_is(project: Project, path: str) -> None:
    settings = settings_with(project, f"pull: {{kind: folder, path: '{path}'}}\n    settle_s: 3")
    assert puller(settings) == FolderSource("shop", path, settle_s=3)


def test_a_connection_string_comes_from_the_environment(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DSN", "postgresql://me:secret@here/shop")
    found = puller(settings_with(project, POSTGRES))
    assert found == PostgresSource(
        name="shop",
        dsn="postgresql://me:secret@here/shop",
        table="a.b",
        watermark="at",
        key="id",
        overlap=9,
        rows_per_pull=8,
    )
    assert "secret" not in repr(found)


def test_kafka_properties_come_from_the_environment(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    found = puller(settings_with(project, KAFKA))
    assert found == KafkaSource(
        name="shop",
        servers="k1:9092,k2:9092",
        topic="reviews",
        group="mine",
        messages_per_pull=6,
        wait_s=2,
        properties={
            "sasl.password": "secret",
            "sasl.username": "me",
            "ssl.ca": "/etc/$x",
            "a": "$",
            "b": "$SHOP_PASSWORD!",
        },
    )
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("entry", "variable", "meaning"),
    [(POSTGRES, "SHOP_DSN", "the connection string"), (KAFKA, "SHOP_PASSWORD", "the value of sasl.password")],
)
@pytest.mark.parametrize("value", [None, ""])
def test_a_variable_that_is_not_set_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch, entry: str, variable: str, meaning: str, value: str | None
) -> None:
    if value is not None:
        monkeypatch.setenv(variable, value)
    settings = settings_with(project, entry)
    with pytest.raises(
        ConfigurationError, match=f"source shop: .* variable {variable} is not set: set it to {meaning}"
    ):
        puller(settings)
    source = settings.sources.sources["shop"]
    assert missing_variables(source) == [variable]
    monkeypatch.setenv(variable, "x")
    assert missing_variables(source) == []


def test_a_source_that_is_not_pulled_has_no_puller(project: Project) -> None:
    source = project.settings.sources.sources["helpdesk"]
    with pytest.raises(ConfigurationError, match="source helpdesk has no `pull`"):
        puller_of("helpdesk", source, project.settings)
    assert missing_variables(source) == []


def test_a_pull_lands_in_the_day_of_today(project: Project) -> None:
    settings = settings_with(project, FOLDER + "\n    settle_s: 0")
    inbox = project.root / "inbox"
    inbox.mkdir()
    (inbox / "a.csv").write_text("text\nfine\n")
    before = datetime.now(UTC).date()
    (landed,) = pull_once("shop", settings.sources.sources["shop"], settings).landed
    assert before <= landed.day <= datetime.now(UTC).date()
    assert (landed.folder, landed.name) == ("shop", "a.csv")
    assert project.path_of(landed).read_text() == "text\nfine\n"


def lock_of(project: Project, source: str) -> filelock.FileLock:
    place = project.root / ".cache" / "pulls" / f"{source}.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    return filelock.FileLock(place)


def test_one_pull_of_a_source_at_a_time(project: Project) -> None:
    settings = settings_with(project, *[FOLDER] * 2)
    (project.root / "inbox").mkdir()
    shop, other = pulled_sources(settings).items()
    with lock_of(project, "shop"):
        with pytest.raises(PullUnderWayError, match="source shop: another pull is under way: wait for its end"):
            pull_once(*shop, settings)
        assert pull_once(*other, settings) == Pulled()
    assert pull_once(*shop, settings) == Pulled()


def test_a_pull_that_is_about_to_end_is_waited_for(project: Project) -> None:
    settings = settings_with(project, FOLDER)
    (project.root / "inbox").mkdir()
    ((name, source),) = pulled_sources(settings).items()
    lock = lock_of(project, "shop")
    lock.acquire()
    done: list[Pulled] = []
    waiting = threading.Thread(target=lambda: done.append(pull_once(name, source, settings)))
    waiting.start()
    time.sleep(0.5)
    lock.release()
    waiting.join()
    assert done == [Pulled()]


def test_a_failed_pull_gives_its_lock_back(project: Project) -> None:
    settings = settings_with(project, FOLDER)
    ((name, source),) = pulled_sources(settings).items()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="is no folder"):
            pull_once(name, source, settings)
    with lock_of(project, "shop").acquire(timeout=0):
        pass


def test_a_project_that_cannot_be_written_is_named(project: Project) -> None:
    settings = settings_with(project, FOLDER)
    ((name, source),) = pulled_sources(settings).items()
    (project.root / ".cache").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"shop\.lock cannot be written .*: allow writing there"):
        pull_once(name, source, settings)
