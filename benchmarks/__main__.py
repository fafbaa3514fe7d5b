"""`make bench`: runs the benchmarks, prints a table and writes `benchmarks/results/latest.json`."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks import demo_seconds_warm, import_vs_dagster, ingestion
from benchmarks.measurement import Result

BENCHMARKS: dict[str, Callable[[], Result]] = {
    "import_vs_dagster": import_vs_dagster.measure,
    "demo_seconds_warm": demo_seconds_warm.measure,
    "ingest_vs_duckdb": ingestion.against_duckdb,
    "ingest_growth_1m_vs_100k": ingestion.growth,
    "ingest_peak_mb_1m": ingestion.peak_memory,
    "landing_tick_10k_files": ingestion.many_small_files,
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
    results: list[Result] = []
    print(f"{'benchmark':<24}{'value':>10} {'unit':<7}{'goal':<9}{'rounds':>6}  detail")
    for name in names:
        result = BENCHMARKS[name]()
        results.append(result)
        row = f"{result.name:<24}{result.value:>10.3g} {result.unit:<7}{result.goal:<9}{result.rounds:>6}"
        print(f"{row}  {result.detail}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    return 0


sys.exit(main())
