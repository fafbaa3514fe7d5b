"""`served_models`: which version of each model answers now, since when, and where it comes from."""

import dagster as dg

from platform_assets.assets.common import SERVER_RETRIES
from platform_assets.failures import clear_failures
from platform_assets.served import Served
from platform_assets.served import served_models as served_now
from platform_assets.settings import SettingsResource
from resources.delta_lake import DeltaLakeResource
from resources.triton import TritonResource

_COLUMNS = ("model", "version", "loaded", "since", "former", "source", "sha256")


@dg.asset(
    group_name="models",
    kinds={"triton"},
    retry_policy=SERVER_RETRIES,
    metadata={"dagster/column_schema": dg.TableSchema([dg.TableColumn(name, "string") for name in _COLUMNS])},
)
def served_models(
    settings: SettingsResource,
    lake: dg.ResourceParam[DeltaLakeResource],
    triton: dg.ResourceParam[TritonResource],
) -> dg.MaterializeResult[None]:
    """The versions that serve, as the server, the model repository and the record of promotions say it.

    Made anew by each promotion and rollback, and whenever somebody materializes it; nothing is stored but the
    table shown here (`feedback query "from model_promotions"` has the record).
    """
    with clear_failures():
        found = list(served_now(settings.get(), lake, triton))
    return dg.MaterializeResult(
        metadata={
            "served": dg.MetadataValue.md(_table(found)),
            **{one.model: one.version for one in found if one.version},
        },
    )


def _table(found: list[Served]) -> str:
    lines = [f"| {' | '.join(_COLUMNS)} |", f"|{' --- |' * len(_COLUMNS)}"]
    for one in found:
        cells = (
            one.model,
            one.version or "none",
            ", ".join(map(str, one.loaded)) or "none",
            f"{one.since:%Y-%m-%d %H:%M:%S} UTC" if one.since else "",
            one.former or "",
            one.source,
            one.sha256[:12],
        )
        lines.append(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)
