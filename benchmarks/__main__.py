"""`make bench`: runs the benchmarks, prints tables and writes `benchmarks/results/latest.json`."""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import demo_seconds_warm, embedding, embedding_runs, import_vs_dagster, ingestion, soak
from benchmarks.measurement import Result, Rows

Benchmark = Callable[[Sequence[str]], Iterable[Result]]
"""Measures those of its names that it is asked for."""


def _alone(measure: Callable[[], Result]) -> Benchmark:
    return lambda _names: [measure()]


BENCHMARKS: dict[str, Benchmark] = {
    "import_vs_dagster": _alone(import_vs_dagster.measure),
    "demo_seconds_warm": _alone(demo_seconds_warm.measure),
    "ingest_vs_duckdb": _alone(ingestion.against_duckdb),
    "ingest_growth_1m_vs_100k": _alone(ingestion.growth),
    "ingest_peak_mb_1m": _alone(ingestion.peak_memory),
    "landing_tick_10k_files": _alone(ingestion.many_small_files),
    **dict.fromkeys(embedding.NAMES, embedding.compare),
    "embed_peak_mb_1m": _alone(embedding_runs.peak_memory),
    "rerun_one_percent": _alone(embedding_runs.rerun),
    "soak_growth_mb": _alone(soak.measure),
}
RESULTS = Path(__file__).parent / "results" / "latest.json"


def main() -> int:
    """Run those named by --only, or all."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="names, separated by commas")
    names = parser.parse_args().only.split(",")
    if unknown := [name for name in names if name not in BENCHMARKS]:
        print(f"error: no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    # Told to end, it stops the servers that it started.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    # Those of one comparison take turns in one run.
    runs: dict[Benchmark, list[str]] = {}
    for name in names:
        runs.setdefault(BENCHMARKS[name], []).append(name)
    results: list[Result] = []
    print(f"{'benchmark':<30}{'value':>10} {'unit':<7}{'goal':<9}{'rounds':>6}  detail")
    for benchmark, asked in runs.items():
        for result in benchmark(asked):
            results.append(result)
            row = f"{result.name:<30}{result.value:>10.3g} {result.unit:<7}{result.goal:<9}{result.rounds:>6}"
            print(f"{row}  {result.detail}", flush=True)
    for result in results:
        for title, rows in result.tables.items():
            _print_table(title, rows)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    return 0


def _print_table(title: str, rows: Rows) -> None:
    lines = [list(rows[0]), *([str(cell) for cell in row.values()] for row in rows)] if rows else []
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{title}")
    for line in lines:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


sys.exit(main())
