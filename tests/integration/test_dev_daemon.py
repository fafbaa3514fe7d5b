"""`make dev`: a dropped file becomes a checked day without a click."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.integration.conftest import Project

pytestmark = pytest.mark.integration

DEADLINE_S = 240


@contextmanager
def dagster_dev(project: Project) -> Iterator[Path]:
    """The UI, the daemon and the code server; all of them end with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = project.path / "dev.log"
    with log.open("w") as output:
        dev = subprocess.Popen(
            [str(Path(sys.executable).with_name("dagster")), "dev", "--host", "127.0.0.1", "--port", str(port)],
            cwd=project.path,
            env=project.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        os.killpg(dev.pid, signal.SIGTERM)
        try:
            dev.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(dev.pid, signal.SIGKILL)
            dev.wait(timeout=10)


def test_dropped_file_becomes_a_checked_day(project: Project, project_root: Path) -> None:
    today = datetime.now(UTC).date().isoformat()
    settings = project.path / "config" / "platform.yaml"
    settings.write_text(settings.read_text().replace("settle_s: 10 ", "settle_s: 1 "))
    with dagster_dev(project) as log:
        folder = project.path / "landing" / today
        folder.mkdir(parents=True)
        sample = project_root / "samples" / "landing" / "2026-09-01" / "shop_reviews_2026-09-01.csv"
        # Appears half-written under a temporary name first, as an upload does.
        shutil.copy(sample, folder / "shop_reviews.csv.part")
        (folder / "shop_reviews.csv.part").rename(folder / "shop_reviews.csv")

        deadline = time.monotonic() + DEADLINE_S
        checks: list[dict[str, object]] = []
        while not any(check["asset"] == "daily_summary" for check in checks):
            assert time.monotonic() < deadline, f"no summary after {DEADLINE_S} s\n{log.read_text()[-3000:]}"
            time.sleep(3)
            checks = evaluated(project, today)
    assert {check["asset"] for check in checks} == {
        "raw_feedback",
        "feedback_embeddings",
        "anomaly_scores",
        "normalized_feedback",
        "daily_summary",
    }
    assert not [check for check in checks if check["outcome"] == "failed"]
    counted = project.feedback(
        "query",
        "select (select count(*) from raw_feedback) as loaded, (select count(*) from quarantined_feedback) as bad,"
        " (select count(*) from normalized_feedback) as normalized",
        "--format",
        "json",
    )
    (row,) = json.loads(counted)
    assert row["loaded"] == row["normalized"] > 0
    assert row["loaded"] + row["bad"] == records_in(sample)


def evaluated(project: Project, day: str) -> list[dict[str, object]]:
    """The day's evaluated checks, from the report that people read."""
    report = json.loads(project.feedback("report", "--partition", day, "--format", "json"))
    return [check for check in report["checks"] if check["outcome"] != "not evaluated"]


def records_in(path: Path) -> int:
    """Records of a CSV without quoted line feeds broken apart: counted by the standard reader."""
    import csv

    with path.open(newline="", encoding="utf-8-sig") as file:
        return sum(1 for row in csv.reader(file) if row) - 1
