"""A run is killed while it embeds: the next one sends only what was not stored, and the table is the same."""

import csv
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest

from tests.integration.conftest import Project

pytestmark = pytest.mark.integration

DAY = "2026-09-01"
CHUNK_ROWS = 40
TEXTS = 320


def inferences(project: Project) -> int:
    """Texts that the embedder has been sent since the server started."""
    models = json.loads(project.feedback("triton", "status", "--format", "json"))["models"]
    return sum(int(one["inference_count"]) for one in models if one["name"] == "text_embedder")


def count(project: Project) -> int:
    """Rows of the table."""
    [row] = json.loads(project.feedback("query", "select count(*) as n from feedback_embeddings", "--format", "json"))
    return int(row["n"])


def test_a_killed_run_goes_on_where_it_was(project: Project, tmp_path: Path) -> None:
    platform = project.path / "config/platform.yaml"
    platform.write_text(platform.read_text().replace("chunk_rows: 16384", f"chunk_rows: {CHUNK_ROWS}"))
    landed = tmp_path / f"shop_reviews_{DAY}.csv"
    with landed.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Order Nr.", "Review Text (full)", "Date/Time", "Stars (1-5)", "Customer #", "Lang"])
        text = "The parcel came two days late and the box was open. " * 15
        writer.writerows([number, f"{text} {number}", f"{DAY} 10:00", 1, "C1", "en"] for number in range(TEXTS))
    project.feedback("ingest", str(landed), "--partition", DAY)
    project.feedback("run", "--partition", DAY, "--select", "raw_feedback")

    unfinished = project.path / f"data/lake/feedback_embeddings/_unfinished/{DAY}"
    command = project.command("run", "--partition", DAY, "--select", "feedback_embeddings")
    run = subprocess.Popen(
        command,
        cwd=project.path,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while run.poll() is None and len(list(unfinished.glob("*.parquet"))) < 3:
        time.sleep(0.01)
    stopped = run.poll() is None
    # The run and the process of its step.
    os.killpg(run.pid, signal.SIGKILL)
    output, _ = run.communicate(timeout=60)
    assert stopped, f"the run ended before it could be killed:\n{output}"
    kept = sum(pl.read_parquet(file).height for file in unfinished.glob("*.parquet"))
    assert not json.loads(
        project.feedback("query", "select count(*) as n from feedback_embeddings", "--format", "json")
    )[0]["n"]

    before = inferences(project)
    project.feedback("run", "--partition", DAY, "--select", "feedback_embeddings")
    assert 0 < inferences(project) - before == TEXTS - kept
    assert not list(unfinished.glob("*.parquet"))
    rows = "select content_hash, embedding, status from feedback_embeddings order by content_hash"
    resumed = json.loads(project.feedback("query", rows, "--format", "json"))
    assert len(resumed) == TEXTS

    # As if it had never been embedded: nothing is there to be taken from.
    (project.path / "data/lake/feedback_embeddings").rename(tmp_path / "before")
    project.feedback("run", "--partition", DAY, "--select", "feedback_embeddings")
    assert json.loads(project.feedback("query", rows, "--format", "json")) == resumed
