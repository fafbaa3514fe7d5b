"""A model server that does not answer: the step is tried again, then fails with one line, and writes nothing."""

import socket
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from resources.triton import TritonResource
from tests.project import failure_line, make_project, materialized

pytestmark = pytest.mark.integration

DAY = date(2026, 9, 1)
REVIEW = "Order Nr.,Review Text (full),Date/Time,Stars (1-5),Customer #,Lang\n1,I love it,2026-09-01 10:00,5,C,en\n"


def test_an_unreachable_server_fails_the_step_after_its_retries(
    tmp_path: Path, built_repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{held.getsockname()[1]}"
    monkeypatch.setenv("TRITON_URL", nobody)
    project = make_project(tmp_path, TritonResource(repository=str(built_repository)))
    project.triton = project.settings.triton()
    assert project.triton.url == nobody
    project.land(DAY, "shop_reviews_1.csv", REVIEW)
    run = project.run(DAY)
    assert not run.success
    retries = [event for event in run.all_events if event.event_type is dg.DagsterEventType.STEP_UP_FOR_RETRY]
    assert [event.step_key for event in retries] == ["feedback_embeddings"] * 3
    line = failure_line(run, "feedback_embeddings")
    assert f"no Triton server answers at {nobody}: check TRITON_URL" in line
    assert "\n" not in line
    assert materialized(run) == {"raw_feedback", "quarantined_feedback", "landed_files"}
    assert project.lake.tables() == ["landed_files", "quarantined_feedback", "raw_feedback"]
