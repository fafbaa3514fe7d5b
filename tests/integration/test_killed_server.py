"""The server dies in the middle of a run: the run ends well or fails clearly, and no row is lost or doubled."""

import csv
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from datetime import date
from pathlib import Path

import psutil
import pytest
from polars.testing import assert_frame_equal

from resources.embedded_triton import EmbeddedServer, EmbeddedTriton
from resources.triton import TritonResource
from tests.integration.conftest import Project
from tests.project import make_project

pytestmark = pytest.mark.integration

DAY = date(2026, 9, 1)
KILLS = 10
IN_FLIGHT = 4
TOKEN_BUDGET = 128
TEXTS = 600
"""Of which two make a request: enough of them for something to be under way at each kill."""


def test_killed_tritonserver_costs_no_row(project: Project, project_root: Path) -> None:
    project.feedback("ingest", str(project_root / "samples" / "landing"))
    run = subprocess.Popen(
        project.command("run"),
        cwd=project.path,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    killed = kill_server_once_it_works(project, run)
    output, _ = run.communicate(timeout=280)
    assert killed, f"the run ended before the server could be killed:\n{output}"
    if run.returncode:
        # It may have failed, but then it says so in words, and the next run completes.
        assert "Traceback" not in output
        assert "riton" in output
        project.feedback("run")
    loaded, quarantined, embedded, normalized, doubled = counts(project)
    assert loaded + quarantined == sum(records_landed(project))
    assert embedded == normalized == loaded
    assert doubled == 0


def kill_server_once_it_works(project: Project, run: subprocess.Popen[str]) -> bool:
    """SIGKILL the server after the first vectors are stored, while the run goes on."""
    while run.poll() is None:
        stored = project.path / "data" / "lake" / "feedback_embeddings"
        if stored.is_dir():
            for process in psutil.process_iter(["name", "cmdline"]):
                if process.info["name"] == "tritonserver" and str(project.path) in " ".join(process.info["cmdline"]):
                    os.kill(process.pid, signal.SIGKILL)
                    return True
        time.sleep(0.05)
    return False


def counts(project: Project) -> tuple[int, ...]:
    """Rows loaded, quarantined, embedded and normalized, and ids that stand twice in a day."""
    (row,) = json.loads(
        project.feedback(
            "query",
            """select (select count(*) from raw_feedback) as loaded,
                      (select count(*) from quarantined_feedback) as quarantined,
                      (select count(*) from feedback_embeddings where status in ('ok', 'no_text')) as embedded,
                      (select count(*) from normalized_feedback) as normalized,
                      (select count(*) from (select 1 from normalized_feedback
                         group by partition_date, feedback_id having count(*) > 1)) as doubled""",
            "--format",
            "json",
        )
    )
    return tuple(row.values())


def records_landed(project: Project) -> list[int]:
    """Records of each landed file, as the ledger has them."""
    rows = json.loads(project.feedback("query", "select records from landed_files", "--format", "json"))
    return [row["records"] for row in rows]


def test_ten_killed_tritonservers_change_no_number(
    tmp_path: Path, built_repository: Path, triton_environment: Path
) -> None:
    triton = TritonResource(
        repository=str(built_repository),
        environment=str(triton_environment),
        state=str(tmp_path / "triton"),
        in_flight=IN_FLIGHT,
    )
    server = EmbeddedTriton(repository=built_repository, environment=triton_environment, state=tmp_path / "triton")
    project = make_project(tmp_path, triton)
    project.edit("platform", lambda text: text.replace("# token_budget: 256", f"token_budget: {TOKEN_BUDGET}"))
    project.land(DAY, "shop_reviews_1.csv", reviews(TEXTS))
    assert project.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files").success
    try:
        assert project.run(DAY, "feedback_embeddings").success
        undisturbed = project.rows("feedback_embeddings", DAY)
        shutil.rmtree(project.root / "data/lake/feedback_embeddings")
        supervisor = server.ensure().pid
        with Killer(server) as killer:
            disturbed = project.run(DAY, "feedback_embeddings")
        # It started the server again each time, and did not give up for somebody else to begin anew.
        assert server.ensure().pid == supervisor
    finally:
        server.stop()
    assert disturbed.success
    assert killer.killed == KILLS, f"the run ended after {killer.killed} kills"
    assert set(undisturbed["status"]) == {"ok"}
    assert_frame_equal(project.rows("feedback_embeddings", DAY), undisturbed, check_exact=True)


class Killer(threading.Thread):
    """Kills a server KILLS times while its context lasts, each time a moment after it has got somewhere."""

    def __init__(self, server: EmbeddedTriton) -> None:
        super().__init__()
        self._server = server
        self._ended = threading.Event()
        self.killed = 0

    def __enter__(self) -> "Killer":
        # What it answered before would count.
        self._kill()
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        """Kill, until the context ends."""
        chance = random.Random(10)
        while self.killed < KILLS and not self._ended.wait(0.02):
            server = self._server.status()
            # So that no request meets its end so often that it is taken for the cause.
            if server is not None and answered(server) >= IN_FLIGHT:
                if self._ended.wait(chance.uniform(0, 0.05)):
                    return
                self._kill()
                self.killed += 1

    def _kill(self) -> None:
        server = self._server.status()
        assert server is not None
        os.kill(server.server_pid, signal.SIGKILL)
        while self._server.status() == server:
            time.sleep(0.01)


def answered(server: EmbeddedServer) -> int:
    """Requests that the embedder has answered since the server started."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics", timeout=5) as answer:
            metrics = answer.read().decode()
    except OSError:
        return 0
    found = re.search(r'^nv_inference_request_success\{model="text_embedder".*\} (\d+)', metrics, re.MULTILINE)
    return int(found[1]) if found else 0


def reviews(count: int) -> str:
    """A file of different reviews of some 60 tokens."""
    content = io.StringIO()
    writer = csv.writer(content)
    writer.writerow(["Order Nr.", "Review Text (full)", "Date/Time", "Stars (1-5)", "Customer #", "Lang"])
    text = "The parcel came two days late and the box was open. " * 4
    writer.writerows([number, f"{number} {text}", f"{DAY} 10:00", 1, "C1", "en"] for number in range(count))
    return content.getvalue()
