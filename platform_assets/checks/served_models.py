"""The check of `served_models`: the server answers with the versions that it should."""

import dagster as dg

from platform_assets.failures import clear_failures
from platform_assets.served import served_models
from platform_assets.settings import SettingsResource
from resources.delta_lake import DeltaLakeResource
from resources.triton import TritonResource


def checks() -> list[dg.AssetChecksDefinition]:
    """The one check; not of a day, unlike those of the tables."""
    return [served_as_pinned]


@dg.asset_check(
    asset="served_models",
    description="The server answers with the versions that the configurations and the record of promotions name.",
)
def served_as_pinned(
    settings: SettingsResource,
    lake: dg.ResourceParam[DeltaLakeResource],
    triton: dg.ResourceParam[TritonResource],
) -> dg.AssetCheckResult:
    """Warns where a server has not taken up a promotion, or serves from another folder."""
    with clear_failures():
        found = list(served_models(settings.get(), lake, triton))
    breaches = [one.breach for one in found if one.breach]
    return dg.AssetCheckResult(
        passed=not breaches,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(breaches) or f"{len(found)} models answer with the version that they should",
    )
