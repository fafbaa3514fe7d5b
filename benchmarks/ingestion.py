"""How fast and in how much memory `raw_feedback` reads a big CSV file, and how the sensor takes many small files.

Run as `python -m benchmarks.ingestion rounds FILE N` or `… once FILE`, it is the process that is measured: it reads
the file as a first-time day, in a project of its own, and prints JSON.
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
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from benchmarks.measurement import Result, seconds

PROJECT = Path(__file__).parents[1]
DAY = date(2026, 9, 1)
ROUNDS = 5
SMALL_FILES = 10_000
COLUMNS = ("Order Nr.", "Review Text (full)", "Date/Time", "Stars (1-5)", "Customer #", "Lang", "Country")
ASSETS = ("raw_feedback", "quarantined_feedback", "landed_files")


def against_duckdb() -> Result:
    """DuckDB's seconds for `read_csv` → Parquet ÷ raw_feedback's for the same file, in turns in one process."""
    with reviews(1_000_000) as file:
        measured = _child("rounds", file, ROUNDS)
    ratios = [theirs / ours for ours, theirs in zip(measured["raw_feedback"], measured["duckdb"], strict=True)]
    names = ("raw_feedback", "duckdb", "same_work", "raw_feedback_cpu", "duckdb_cpu")
    ours, theirs, alike, our_cpu, their_cpu = (statistics.median(measured[name]) for name in names)
    return Result(
        name="ingest_vs_duckdb",
        value=statistics.median(ratios),
        unit="ratio",
        goal=">= 0.5",
        rounds=ROUNDS,
        detail=f"from {min(ratios):.2f} to {max(ratios):.2f}; raw_feedback with its checks {ours:.2f} s "
        f"({our_cpu:.2f} s of CPU), DuckDB {theirs:.2f} s ({their_cpu:.2f} s of CPU), and {alike:.2f} s with the same "
        "two hashes, times and row numbers; "
        f"{measured['rows']:,} rows + {measured['letters']:,} dead letters of 1,000,000",
    )


def growth() -> Result:
    """Seconds a row of 1,000,000 rows ÷ those of 100,000."""
    with reviews(1_000_000) as big, reviews(100_000) as small:
        of_big = _child("rounds", big, 3)["raw_feedback"]
        of_small = _child("rounds", small, 3)["raw_feedback"]
    ratio = statistics.median(of_big) / 10 / statistics.median(of_small)
    return Result(
        name="ingest_growth_1m_vs_100k",
        value=ratio,
        unit="ratio",
        goal="<= 1.1",
        rounds=3,
        detail=f"{statistics.median(of_big):.2f} s and {statistics.median(of_small):.2f} s",
    )


def peak_memory() -> Result:
    """Most memory that a process held that read 1,000,000 rows, everything included."""
    with reviews(1_000_000) as file:
        measured = _child("once", file)
    return Result(
        name="ingest_peak_mb_1m",
        value=measured["peak_mb"],
        unit="MB",
        goal="<= 1500",
        rounds=1,
        detail=f"{file.name}, {measured['rows']:,} rows",
    )


def many_small_files() -> Result:
    """Seconds of the landing sensor's tick over 10,000 files that landed at once."""
    with _project() as root:
        day = root / "landing" / DAY.isoformat()
        day.mkdir(parents=True)
        for number in range(SMALL_FILES):
            (day / f"shop_reviews_{number}.csv").write_text(f"{','.join(COLUMNS)}\nA-{number},It works,,,,,\n")
        measured = _child("tick", root)
    if measured["rows"] != SMALL_FILES:
        raise RuntimeError(f"{measured['rows']} rows came of {SMALL_FILES} files")
    return Result(
        name="landing_tick_10k_files",
        value=max(measured["ticks"]),
        unit="s",
        goal="<= 20",
        rounds=len(measured["ticks"]),
        detail=f"{measured['runs']} run, {measured['read']:.1f} s, {measured['rows']:,} rows",
    )


@contextmanager
def reviews(rows: int) -> Iterator[Path]:
    """A CSV file of reviews: a comma in each tenth, a quoted line feed in each fiftieth, each thousandth is bad."""
    chance = random.Random(rows)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(3000)]
    start = datetime(2026, 9, 1, tzinfo=UTC)
    with tempfile.TemporaryDirectory(prefix="feedback-bench-") as folder:
        file = Path(folder) / f"shop_reviews_{rows}.csv"
        with file.open("w", newline="", encoding="utf-8") as target:
            writer = csv.writer(target)
            writer.writerow(COLUMNS)
            for number in range(rows):
                text = " ".join(chance.choices(words, k=chance.randint(5, 30)))
                if number % 10 == 0:
                    text = text.replace(" ", ", ", 2)
                if number % 50 == 0:
                    text += '\nand a second "line"'
                moment = (start + timedelta(seconds=number)).strftime("%Y-%m-%d %H:%M:%S")
                stars = 9 if number % 1000 == 0 else chance.randint(1, 5)
                customer, language = f"C{chance.randint(1, 200_000)}", chance.choice(("en", "de", "es", "fr"))
                writer.writerow([f"R-{number:08d}", text, moment, stars, customer, language, "DE"])
        yield file


def _child(what: str, *arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.ingestion", what, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


@contextmanager
def _project() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="feedback-bench-") as folder:
        shutil.copytree(PROJECT / "config", Path(folder) / "config")
        yield Path(folder)


def _spent(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of CPU on all cores, which tell more on a busy machine."""
    before = time.process_time()
    taken = seconds(work)
    return taken, time.process_time() - before


def _read(root: Path) -> tuple[tuple[float, float], int, int]:
    """What the run that materializes the day spent, and its rows and dead letters."""
    import dagster as dg

    from platform_assets.definitions import build_defs
    from platform_assets.settings import Settings

    settings = Settings(root)
    job = build_defs(settings).resolve_implicit_global_asset_job_def()
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        spent = _spent(
            lambda: job.execute_in_process(
                run_config=quiet,
                instance=instance,
                partition_key=DAY.isoformat(),
                asset_selection=[dg.AssetKey(name) for name in ASSETS],
            )
        )
    lake = settings.lake()
    rows, letters = (lake.scan_partition(name, DAY).select("line_no").collect().height for name in ASSETS[:2])
    return spent, rows, letters


def _first_read(file: Path) -> tuple[tuple[float, float], int, int]:
    with _project() as root:
        day = root / "landing" / DAY.isoformat()
        day.mkdir(parents=True)
        shutil.copy(file, day)
        return _read(root)


def _rounds(file: Path, rounds: int) -> dict[str, Any]:
    import duckdb

    def theirs(query: str) -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as folder:
            return _spent(lambda: duckdb.sql(f"copy ({query}) to '{folder}/copy.parquet' (format parquet)"))

    copy = f"from read_csv('{file}')"
    same_work = f"""
        select *, row_number() over () as line_no, sha256("Review Text (full)") as content_hash,
            left(sha256('shop_reviews' || chr(0) || "Order Nr."), 32) as feedback_id,
            try_strptime("Date/Time", '%Y-%m-%d %H:%M:%S') at time zone 'Europe/Berlin' as created_at,
            try_cast("Stars (1-5)" as double) as rating
        from read_csv('{file}', all_varchar = true)"""
    _first_read(file), theirs(copy)
    found: dict[str, Any] = {"same_work": [theirs(same_work)[0] for _ in range(3)]}
    spent: dict[str, list[tuple[float, float]]] = {"raw_feedback": [], "duckdb": []}
    for number in range(rounds):
        if number % 2:
            spent["duckdb"].append(theirs(copy))
        ours, found["rows"], found["letters"] = _first_read(file)
        spent["raw_feedback"].append(ours)
        if not number % 2:
            spent["duckdb"].append(theirs(copy))
    for name, pairs in spent.items():
        found[name], found[f"{name}_cpu"] = map(list, zip(*pairs, strict=True))
    return found


def _tick(root: Path) -> dict[str, Any]:
    import dagster as dg

    from platform_assets.sensors.landing_sensor import landing_sensor
    from platform_assets.settings import SettingsResource

    platform = root / "config/platform.yaml"
    platform.write_text(platform.read_text().replace("settle_s: 10 ", "settle_s: 0 "))
    ticks, runs = [], 0
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(3):
            start = time.perf_counter()
            context = dg.build_sensor_context(
                instance=instance, resources={"settings": SettingsResource(project=str(root))}
            )
            answers = list(cast("Iterable[object]", landing_sensor(context)))
            runs = sum(isinstance(answer, dg.RunRequest) for answer in answers)
            ticks.append(time.perf_counter() - start)
    (taken, _), rows, _ = _read(root)
    return {"ticks": ticks, "runs": runs, "read": taken, "rows": rows}


def main() -> None:
    """Measure in this process."""
    what, place, *rest = sys.argv[1:]
    if what == "rounds":
        found = _rounds(Path(place), int(rest[0]))
    elif what == "tick":
        found = _tick(Path(place))
    else:
        _, rows, _ = _first_read(Path(place))
        found = {"rows": rows, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
