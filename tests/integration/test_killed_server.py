"""The server dies in the middle of a run: the run ends well or fails clearly, and no row is lost or doubled."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.integration.conftest import Project

pytestmark = pytest.mark.integration


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
