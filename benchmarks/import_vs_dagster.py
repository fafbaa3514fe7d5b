"""How much longer the code location takes to import than Dagster alone: each run's process pays it."""

import sys

from benchmarks.measurement import Result, interleaved, run

ROUNDS = 9


def measure() -> Result:
    """Compare two fresh interpreters."""
    ratio, ratios = interleaved(
        run([sys.executable, "-c", "import platform_assets.definitions"]),
        run([sys.executable, "-c", "import dagster"]),
        ROUNDS,
    )
    return Result(
        name="import_vs_dagster",
        value=ratio,
        unit="ratio",
        goal="<= 1.5",
        rounds=ROUNDS,
        detail=f"from {min(ratios):.2f} to {max(ratios):.2f}",
    )
