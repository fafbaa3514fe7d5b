"""What every asset declares alike: retries, automation and the column contract.

Nothing that only one asset needs belongs here.
"""

from typing import Any, Final

import dagster as dg

from platform_assets.domain.tables import TABLES

LAKE_IO: Final = "lake_io"
"""Key of the IO manager over the Delta tables."""

SERVER_RETRIES: Final = dg.RetryPolicy(
    max_retries=3, delay=2, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
)
"""A server that restarts is back within seconds; writes are idempotent, so a step may simply run again."""

_ANOMALY_MODEL = dg.AssetSelection.assets("anomaly_model")

WHEN_UPSTREAM_CHANGES: Final = (
    dg.AutomationCondition.eager()
    .without(dg.AutomationCondition.in_latest_time_window())
    .replace("any_deps_missing", dg.AutomationCondition.any_deps_missing().ignore(_ANOMALY_MODEL))
    & dg.AutomationCondition.all_deps_blocking_checks_passed()
)
"""Any day whose inputs changed, not only the latest, and only behind passed gates. A day is not held up by the
anomaly model, which is fitted once enough days are there and then updates them."""


def table_metadata(table: str) -> dict[str, Any]:
    """The column contract of `table`, as the UI shows it."""
    columns = [dg.TableColumn(name, str(dtype)) for name, dtype in TABLES[table].items()]
    return {"dagster/column_schema": dg.TableSchema(columns), "dagster/table_name": table}
