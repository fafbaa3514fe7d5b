"""A temporary project: the shipped configuration, an own landing zone, own tables and an own Dagster instance."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import dagster as dg
import polars as pl

from platform_assets.definitions import build_defs
from platform_assets.settings import Settings
from resources.delta_lake import DeltaLakeResource
from resources.landing_zone import LandedFile, LandingZoneResource
from resources.triton import TritonResource

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "samples" / "landing"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass
class Project:
    """A project under `root`, with everything that a test does to it."""

    root: Path
    triton: TritonResource
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)

    @property
    def settings(self) -> Settings:
        return Settings(self.root)

    @property
    def lake(self) -> DeltaLakeResource:
        return self.settings.lake()

    @property
    def landing(self) -> LandingZoneResource:
        return self.settings.landing()

    @property
    def definitions(self) -> dg.Definitions:
        return build_defs(self.settings, resource_overrides={"triton": self.triton})

    def edit(self, name: str, change: Callable[[str], str]) -> None:
        """Change a file of the configuration."""
        path = self.root / "config" / f"{name}.yaml"
        before = path.read_text(encoding="utf-8")
        after = change(before)
        assert after != before, f"nothing changed in {path}"
        path.write_text(after, encoding="utf-8")

    def land(self, day: date, name: str, content: str | bytes) -> LandedFile:
        """Land a file of one's own."""
        outside = self.root / "outside" / name
        outside.parent.mkdir(exist_ok=True)
        outside.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self.landing.land(outside, day)

    def path_of(self, file: LandedFile) -> Path:
        """Where a landed file lies."""
        return Path(self.landing.root) / file.uri

    def land_samples(self, days: Iterable[date]) -> None:
        for day in days:
            for path in sorted((SAMPLES / day.isoformat()).iterdir()):
                self.landing.land(path, day)

    def run(self, day: date | None, *assets: str) -> dg.ExecuteInProcessResult:
        """Materialize a day with its checks, or only some assets."""
        selection = [dg.AssetKey(name) for name in assets]
        job = self.definitions.resolve_implicit_global_asset_job_def() if assets else self.day_job
        return job.execute_in_process(
            run_config=QUIET,
            instance=self.instance,
            partition_key=day.isoformat() if day else None,
            asset_selection=selection or None,
            raise_on_error=False,
        )

    @property
    def day_job(self) -> dg.JobDefinition:
        return self.definitions.resolve_job_def("feedback_day")

    def rows(self, table: str, day: date) -> pl.DataFrame:
        """A day's rows, in an order that does not depend on how they were written."""
        found = self.lake.scan_partition(table, day).collect()
        first = [name for name in ("feedback_id", "file_uri", "source", "line_no", "category") if name in found.columns]
        return found.sort(first)


def make_project(root: Path, triton: TritonResource) -> Project:
    """Write a project of the shipped configuration that uses the models of `triton`."""
    shutil.copytree(ROOT / "config", root / "config")
    project = Project(root, triton)
    project.edit(
        "platform", lambda text: text.replace("repository: model_repository", f"repository: {triton.repository}")
    )
    return project


def failed_checks(run: dg.ExecuteInProcessResult) -> list[str]:
    """Names of the checks that did not pass, as asset:check."""
    return sorted(
        f"{one.asset_key.to_user_string()}:{one.check_name}"
        for one in run.get_asset_check_evaluations()
        if not one.passed
    )


def materialized(run: dg.ExecuteInProcessResult) -> set[str]:
    """Names of the assets that the run made."""
    return {event.asset_key.to_user_string() for event in run.get_asset_materialization_events() if event.asset_key}


def failure_line(run: dg.ExecuteInProcessResult, step: str) -> str:
    """Why a step failed: the description of its failure, or the message of the error at the root."""
    failure = run.failure_data_for_node(step)
    assert failure is not None, f"{step} did not fail"
    if failure.user_failure_data and failure.user_failure_data.description:
        return failure.user_failure_data.description
    error = failure.error
    while error is not None and error.cause is not None:
        error = error.cause
    return error.message.strip() if error else ""
