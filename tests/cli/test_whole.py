"""From a landed file to its report, through the embedded server."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from resources.embedded_triton import EmbeddedTriton

pytestmark = pytest.mark.integration

DEADLINE_S = 120


@pytest.fixture
def served(project: Path, built_repository: Path, triton_environment: Path):
    """A project with the built models and no fitted one; its server is stopped at the end."""
    repository = project / "model_repository"
    shutil.copytree(built_repository, repository, copy_function=os.link)
    for version in repository.glob("anomaly_detector/[0-9]*"):
        shutil.rmtree(version)
    (project / ".triton-venv").symlink_to(triton_environment)
    server = EmbeddedTriton(repository=repository, environment=project / ".triton-venv", state=project / ".triton")
    yield project
    server.stop()


def as_json(feedback, *arguments: str | Path):
    result = feedback(*arguments, "--format", "json")
    assert result.exit_code == 0, (result.stdout, result.stderr)
    return json.loads(result.stdout)


def lower_the_bar(project: Path) -> None:
    """Let thirty texts be a reference window."""
    path = project / "config/thresholds.yaml"
    path.write_text(re.sub(r"min_reference_vectors: \d+", "min_reference_vectors: 30", path.read_text()))


def test_from_a_file_to_its_report(served: Path, feedback, reviews: Path, tmp_path: Path) -> None:
    feedback("ingest", reviews, "--partition", "2026-09-01")
    first = as_json(feedback, "run")
    [day] = first["days"]
    assert day["loaded"] == day["embedded"] == 2
    assert day["normalized"] + day["deferred"] == 2
    assert day["anomalies"] == 0
    assert "2 of 100" in first["model"]
    assert as_json(feedback, "run")["days"] == []

    # Enough for a model: the day before it is scored too.
    lower_the_bar(served)
    more = tmp_path / "shop_reviews_more.csv"
    header = reviews.read_text().splitlines()[0]
    rows = [f"B-{number},Order {number} came {number} days late,2026-09-02 10:00,2,C,en" for number in range(40)]
    more.write_text("\n".join([header, *rows]) + "\n")
    feedback("ingest", more, "--partition", "2026-09-02")
    second = as_json(feedback, "run")
    assert second["model"] == "fitted"
    assert [day["day"] for day in second["days"]] == ["2026-09-01", "2026-09-02"]
    scored = as_json(
        feedback, "query", "select partition_date d, count(score) n from anomaly_scores group by all order by all"
    )
    assert scored == [{"d": "2026-09-01", "n": 2}, {"d": "2026-09-02", "n": 40}]

    report = as_json(feedback, "report")
    assert report["blocked"] is False
    assert report["counts"]["failed"] == report["counts"]["not evaluated"] == 0
    assert {day["day"] for day in report["days"]} == {"2026-09-01", "2026-09-02"}

    status = as_json(feedback, "triton", "status")
    counts = {model["name"]: model["inference_count"] for model in status["models"]}
    assert status["running"] is True
    assert status["server_version"]
    assert counts["text_embedder"] >= 42
    assert counts["anomaly_detector"] >= 42
    assert as_json(feedback, "triton", "stop") == {"stopped": True}


def test_interruption_ends_the_run_and_the_server_that_it_started(served: Path, feedback, reviews: Path) -> None:
    feedback("ingest", reviews, "--partition", "2026-09-01")
    command = subprocess.Popen(
        [Path(sys.executable).parent / "feedback", "run"],
        cwd=served,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    home = {**os.environ, "DAGSTER_HOME": str(served)}
    os.environ.update(home)
    with dg.DagsterInstance.get() as instance:
        deadline = time.monotonic() + DEADLINE_S
        started = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
        while not instance.get_runs_count(started):
            assert time.monotonic() < deadline
            assert command.poll() is None
            time.sleep(0.05)
        command.send_signal(signal.SIGINT)
        _, stderr = command.communicate(timeout=DEADLINE_S)
        assert command.returncode == 130
        assert stderr.splitlines()[-1] == "Error: interrupted"
        assert "Traceback" not in stderr
        assert all(run.is_finished for run in instance.get_runs())
    assert feedback("triton", "status").exit_code == 1
