"""Whole runs of the `feedback_embeddings` asset: its memory over a million rows, its time when little has changed.

Run as `python -m benchmarks.embedding_runs peak …` or `… rerun …`, it is the process that is measured: it embeds a
day of a project of its own with the server it is told of, and prints JSON.
"""

import csv
import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from benchmarks.embedding_paths import served
from benchmarks.embedding_texts import PROJECT, short_texts
from benchmarks.ingestion import COLUMNS
from benchmarks.measurement import Result, seconds
from resources.embedded_triton import EmbeddedTriton
from resources.encoder_build import build_encoder
from resources.model_repository import ModelRepository

DAY = date(2026, 9, 1)
ROWS = 1_000_000
DIMS = 384
RERUNS = 3
_BUILT_AT = datetime(2026, 1, 1, tzinfo=UTC)
_RAW = ("raw_feedback", "quarantined_feedback", "landed_files")


def peak_memory() -> Result:
    """Most memory of a process that embedded 1,000,000 short rows, or found them embedded; all but the server."""
    with _tiny_models() as (url, repository), tempfile.TemporaryDirectory(prefix="feedback-bench-") as folder:
        _child("land", url, repository, folder)
        measured = _child("peak", url, repository, folder)
        again = _child("peak", url, repository, folder)
    return Result(
        name="embed_peak_mb_1m",
        value=max(measured["peak_mb"], again["peak_mb"]),
        unit="MB",
        goal="<= 1500",
        rounds=1,
        detail=f"{measured['rows']:,} rows of {DIMS} numbers in {measured['seconds']:.0f} s with their checks, "
        f"{measured['peak_mb']:.0f} MB; again with nothing new in {again['seconds']:.0f} s, {again['peak_mb']:.0f} MB; "
        f"a tiny model at the server; {measured['before_mb']:.0f} MB before the run",
    )


def rerun() -> Result:
    """Seconds of a day's second run, in which 1 % of the rows are new, ÷ those of its first."""
    with served() as given:
        measured = [_child("rerun", given.triton.url, given.triton.repository) for _ in range(RERUNS)]
    found = [one["again"] / one["first"] for one in measured]
    first, again = (statistics.median(one[name] for one in measured) for name in ("first", "again"))
    return Result(
        name="rerun_one_percent",
        value=statistics.median(found),
        unit="ratio",
        goal="<= 0.05",
        rounds=RERUNS,
        detail=f"from {min(found):.3f} to {max(found):.3f}; {measured[0]['rows']:,} rows, {first:.1f} s, "
        f"and {again:.2f} s with 1 % new ones",
    )


@contextmanager
def _tiny_models() -> Iterator[tuple[str, str]]:
    """A server with an encoder of a few hundred bytes under the real names."""
    from tests.resources.tiny_encoder import tiny_encoder, write_encoder

    with tempfile.TemporaryDirectory(prefix="feedback-bench-") as folder:
        root = Path(folder)
        shutil.copytree(PROJECT / "model_repository", root / "models", ignore=_built)
        repository = ModelRepository(root / "models")
        encoder = write_encoder(root / "encoder", tiny_encoder(dims=DIMS), sentence_bert_config={"max_seq_length": 64})
        build_encoder(repository, f"dir:{encoder}", root / "cache", _BUILT_AT, lambda _line: None)
        with EmbeddedTriton(
            repository=repository.path, environment=PROJECT / ".triton-venv", state=root / "state", idle_stop_s=0
        ) as server:
            yield server.url, str(repository.path)


def _built(_folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name.isdigit() or name.startswith(".")}


def _child(what: str, *arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.embedding_runs", what, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


class _Project:
    """A project of one day, with the server at hand."""

    def __init__(self, root: Path, url: str, repository: str) -> None:
        from platform_assets.definitions import build_defs
        from platform_assets.settings import Settings
        from resources.triton import TritonResource

        shutil.copytree(PROJECT / "config", root / "config", dirs_exist_ok=True)
        self.settings = Settings(root)
        triton = TritonResource(
            **{**self.settings.triton().model_dump(), "url": url, "repository": repository, "state": str(root)}
        )
        self._job = build_defs(
            self.settings, resource_overrides={"triton": triton}
        ).resolve_implicit_global_asset_job_def()
        self._day = root / "landing" / DAY.isoformat()
        self._day.mkdir(parents=True, exist_ok=True)

    def land(self, name: str, texts: Iterable[str]) -> None:
        """Land texts as a file of the source shop_reviews."""
        with (self._day / f"shop_reviews_{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            empty = [""] * (len(COLUMNS) - 2)
            writer.writerows([f"{name}-{number}", text, *empty] for number, text in enumerate(texts))

    def run(self, *assets: str) -> None:
        """Materialize assets of the day with their checks."""
        import dagster as dg

        with dg.DagsterInstance.ephemeral() as instance:
            self._job.execute_in_process(
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                instance=instance,
                partition_key=DAY.isoformat(),
                asset_selection=[dg.AssetKey(asset) for asset in assets],
            )

    def rows(self) -> int:
        """Vectors that the day has."""
        table = self.settings.lake().scan_partition("feedback_embeddings", DAY)
        found = table.group_by("status").len().collect()
        if set(found["status"]) != {"ok"}:
            raise RuntimeError(f"not every row has a vector: {dict(found.iter_rows())}")
        return int(found["len"].sum())


def _land(url: str, repository: str, folder: str) -> dict[str, Any]:
    """Lands and reads the million rows, in a process that is not measured."""
    chance, words = random.Random(ROWS), [f"word{number}" for number in range(3000)]
    project = _Project(Path(folder), url, repository)
    project.land("many", (f"{' '.join(chance.choices(words, k=8))} {number}" for number in range(ROWS)))
    project.run(*_RAW)
    return {}


def _peak(url: str, repository: str, folder: str) -> dict[str, Any]:
    project = _Project(Path(folder), url, repository)
    before = _peak_mb()
    taken = seconds(lambda: project.run("feedback_embeddings"))
    return {"rows": project.rows(), "seconds": taken, "before_mb": before, "peak_mb": _peak_mb()}


def _rerun(url: str, repository: str) -> dict[str, Any]:
    texts = short_texts().texts
    new = texts[: len(texts) // 100]
    with tempfile.TemporaryDirectory(prefix="feedback-bench-") as other:
        # What Dagster and the libraries load on first use is no part of either run.
        warm_up = _Project(Path(other), url, repository)
        warm_up.land("few", texts[:10])
        warm_up.run(*_RAW, "feedback_embeddings")
    with tempfile.TemporaryDirectory(prefix="feedback-bench-") as folder:
        project = _Project(Path(folder), url, repository)
        project.land("day", texts[len(new) :])
        project.run(*_RAW)
        first = seconds(lambda: project.run("feedback_embeddings"))
        project.land("new", new)
        project.run(*_RAW)
        again = seconds(lambda: project.run("feedback_embeddings"))
        return {"rows": project.rows(), "first": first, "again": again}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure in this process."""
    what, *places = sys.argv[1:]
    roles: dict[str, Callable[..., dict[str, Any]]] = {"land": _land, "peak": _peak, "rerun": _rerun}
    print(json.dumps(roles[what](*places)))


if __name__ == "__main__":
    main()
