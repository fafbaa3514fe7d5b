"""Seconds from the sample files to checked records, environments and models being there."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.measurement import Result, run, seconds

PROJECT = Path(__file__).parents[1]


def measure() -> Result:
    """Run the demo's commands in a fresh copy of the project; its own server is started and stopped."""
    with tempfile.TemporaryDirectory(prefix="feedback-demo-") as folder:
        copy = Path(folder)
        shutil.copytree(PROJECT / "config", copy / "config")
        shutil.copy(PROJECT / "dagster.yaml", copy)
        shutil.copytree(
            PROJECT / "model_repository",
            copy / "model_repository",
            ignore=lambda at, names: [n for n in names if Path(at).name == "anomaly_detector" and n.isdigit()],
        )
        (copy / ".triton-venv").symlink_to(PROJECT / ".triton-venv")
        feedback = str(Path(sys.executable).with_name("feedback"))
        environment = {**os.environ, "FEEDBACK_PROJECT": folder, "DAGSTER_HOME": folder}

        def command(*arguments: str) -> float:
            return seconds(run([feedback, *arguments], env=environment, cwd=folder))

        try:
            taken = {
                "ingest": command("ingest", str(PROJECT / "samples" / "landing")),
                "run": command("run"),
                "report": command("report"),
            }
        finally:
            command("triton", "stop")
    return Result(
        name="demo_seconds_warm",
        value=sum(taken.values()),
        unit="s",
        goal="<= 120",
        rounds=1,
        detail=", ".join(f"{step} {value:.1f}" for step, value in taken.items()),
    )
