"""`feedback pull`: what is fetched, what is said of it, and that one failure keeps nothing else from being fetched."""

import json
from pathlib import Path

import pytest

FOLDER = """
  {name}:
    columns: {{text: Review, source_record_id: Id}}
    settle_s: 0
    pull: {{kind: folder, path: {path}, files_per_pull: 2}}
"""
TICKETS = """
  tickets:
    columns: {text: message}
    pull: {kind: postgres, dsn_variable: TICKETS_DSN, table: tickets, watermark: updated_at, key: id}
"""
CHAT = """
  chat:
    columns: {text: value.text}
    pull: {kind: kafka, servers: "127.0.0.1:1", topic: chat, properties: {sasl.password: $CHAT_PASSWORD}}
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TICKETS_DSN", "CHAT_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


def add(project: Path, *entries: str) -> None:
    path = project / "config/sources.yaml"
    path.write_text(path.read_text() + "".join(entries))


@pytest.fixture
def inbox(project: Path) -> Path:
    """The folder of the pulled source `inbox`, with five files."""
    add(project, FOLDER.format(name="inbox", path="inbox"))
    folder = project / "inbox"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.csv").write_text(f"Id,Review\n{number},review {number}\n")
    return folder


def landed(project: Path) -> list[str]:
    return sorted(path.name for path in (project / "landing").glob("20*/*/*"))


def as_json(feedback, *arguments: str, code: int = 0) -> list[dict[str, object]]:
    result = feedback("pull", *arguments, "--format", "json")
    assert result.exit_code == code, (result.stdout, result.stderr)
    found: list[dict[str, object]] = json.loads(result.stdout)
    return found


def row(source: str, files: int, records: int, *, more: bool | None, kind: str = "folder", error: object = None):
    return {"source": source, "kind": kind, "files": files, "records": records, "more": more, "error": error}


def test_without_a_pulled_source_it_says_how_to_have_one(feedback, one_line) -> None:
    one_line(feedback("pull"), "no source is pulled", "`pull`", "config/sources.yaml", "examples")
    one_line(feedback("pull", "shop_reviews"), "no source is pulled")


def test_an_unknown_source_is_named_with_those_that_are_known(feedback, inbox: Path, project: Path, one_line) -> None:
    for name in ("shop_reviews", "nobody"):
        one_line(feedback("pull", "inbox", name), f"no source {name!r} is pulled", "pulled are: inbox")
    assert landed(project) == []


def test_a_pull_brings_a_batch(feedback, inbox: Path, project: Path) -> None:
    result = feedback("pull")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()[::2]] == [
        ["source", "kind", "files", "records", "more"],
        ["inbox", "folder", "2", "2", "yes"],
    ]
    assert "`feedback pull --until-empty`" in result.stderr
    assert "`feedback run`" in result.stderr
    assert len(landed(project)) == 2
    assert as_json(feedback) == [row("inbox", 2, 2, more=True)]
    assert as_json(feedback) == [row("inbox", 1, 1, more=False)]
    last = feedback("pull")
    assert last.exit_code == 0
    assert last.stderr == ""
    assert landed(project) == [f"{number}.csv" for number in range(5)]


def test_until_empty(feedback, inbox: Path, project: Path) -> None:
    assert as_json(feedback, "--until-empty") == [row("inbox", 5, 5, more=False)]
    assert landed(project) == [f"{number}.csv" for number in range(5)]


def test_only_the_named_sources_are_pulled(feedback, inbox: Path, project: Path) -> None:
    add(project, FOLDER.format(name="outbox", path="inbox"), TICKETS)
    assert as_json(feedback, "outbox", "outbox") == [row("outbox", 2, 2, more=True)]
    assert not list((project / "landing").glob("*/inbox"))


def test_what_was_pulled_is_what_the_next_run_reads(feedback, inbox: Path) -> None:
    assert feedback("pull", "--until-empty").exit_code == 0
    result = feedback("run", "--select", "raw_feedback")
    assert result.exit_code == 0, result.stderr
    found = feedback("query", "select text from raw_feedback order by all", "--format", "json")
    assert [one["text"] for one in json.loads(found.stdout)] == [f"review {number}" for number in range(5)]


def test_a_source_that_fails_keeps_no_other_from_being_pulled(feedback, project: Path, request) -> None:
    add(project, TICKETS, FOLDER.format(name="nowhere", path="nowhere"))
    request.getfixturevalue("inbox")
    result = feedback("pull")
    assert result.exit_code == 2
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert errors[0].startswith("Error: source tickets: the environment variable TICKETS_DSN is not set: set it to ")
    assert errors[1].startswith("Error: source nowhere: ")
    assert len(errors) == 2
    assert [line.split() for line in result.stdout.splitlines()[2:]] == [
        ["tickets", "postgres", "0", "0", "–"],
        ["nowhere", "folder", "0", "0", "–"],
        ["inbox", "folder", "2", "2", "yes"],
    ]
    tickets, nowhere, inbox = as_json(feedback, "--until-empty", code=2)
    assert f"Error: {tickets['error']}" == errors[0]
    assert f"Error: {nowhere['error']}" == errors[1]
    assert inbox == row("inbox", 3, 3, more=False)


def test_a_server_that_is_down_is_a_failure_not_a_mistake(
    feedback, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(project, TICKETS)
    monkeypatch.setenv("TICKETS_DSN", "host=127.0.0.1 port=1 user=me dbname=shop")
    (found,) = as_json(feedback, code=1)
    assert found == row("tickets", 0, 0, more=None, kind="postgres", error=found["error"])
    assert str(found["error"]).startswith("source tickets: PostgreSQL does not answer")


def test_doctor_says_what_is_not_set(feedback, inbox: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(project, TICKETS, CHAT)
    monkeypatch.setenv("CHAT_PASSWORD", "secret")

    def found() -> dict[str, tuple[str, str]]:
        findings = json.loads(feedback("doctor", "--format", "json").stdout)
        return {one["what"]: (one["state"], one["detail"]) for one in findings if one["what"].startswith("source ")}

    fine = "what it needs is set; not tried here"
    assert found() == {
        "source inbox": ("ok", f"pulled (folder), {fine}"),
        "source tickets": ("fail", "pulled (postgres), but not set in the environment: TICKETS_DSN"),
        "source chat": ("ok", f"pulled (kafka), {fine}"),
    }
    monkeypatch.setenv("TICKETS_DSN", "host=x")
    monkeypatch.delenv("CHAT_PASSWORD")
    assert found()["source tickets"] == ("ok", f"pulled (postgres), {fine}")
    assert found()["source chat"] == ("fail", "pulled (kafka), but not set in the environment: CHAT_PASSWORD")
