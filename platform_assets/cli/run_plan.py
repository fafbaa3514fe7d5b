"""What `feedback run` runs: which assets in which order, and which days.

Running them belongs to `run_execution.py`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import click
import dagster as dg
import polars as pl

from platform_assets.check_report import Outcome, read_report
from platform_assets.domain.errors import FeedbackError
from platform_assets.file_ledger import LEDGER
from platform_assets.jobs import DAY_ASSETS
from platform_assets.partitions import check_day
from platform_assets.settings import Settings
from platform_assets.waiting_days import waiting_days
from resources.delta_lake import DeltaLakeResource

MODEL: Final = "anomaly_model"


@dataclass(frozen=True)
class Plan:
    """The assets to make: of each day up to the model, the model, and of each day the rest."""

    before: list[dg.AssetKey]
    model: bool
    after: list[dg.AssetKey]
    by_default: bool
    """Whether the user named no assets: then the model is only fitted where there is none."""

    @property
    def of_days(self) -> list[dg.AssetKey]:
        """The assets that are made by day."""
        return [*self.before, *self.after]


def make_plan(definitions: dg.Definitions, select: Sequence[str], *, fitted: bool) -> Plan:
    """Put the assets of `select`, or of a whole day, in order.

    Assets that one step makes are made together. With a fitted model and nothing selected, each day is one
    run; otherwise the days stop before the model, so that all of them can be its reference.

    Raises:
        UsageError: there is no such asset.
    """
    graph = definitions.resolve_asset_graph()
    known = {
        key.to_user_string(): key
        for key in graph.toposorted_asset_keys
        if graph.get(key).is_executable and (graph.get(key).is_partitioned or key.to_user_string() == MODEL)
    }
    if unknown := [name for name in select if name not in known]:
        raise click.UsageError(f"there is no asset {unknown[0]!r}: name one of {', '.join(known)}")
    chosen = {member for name in (select or DAY_ASSETS) for member in graph.get(known[name]).execution_set_asset_keys}
    model = known[MODEL]
    upstream = graph.get_ancestor_asset_keys(model)
    of_days = [key for key in graph.toposorted_asset_keys if key in chosen and key != model]
    first = {member for key in upstream for member in graph.get(key).execution_set_asset_keys} - {model}
    fits = model in chosen if select else not fitted
    return Plan(
        before=[key for key in of_days if key in first] if fits else of_days,
        model=fits,
        after=[key for key in of_days if key not in first] if fits else [],
        by_default=not select,
    )


def needs_triton(definitions: dg.Definitions, plan: Plan) -> bool:
    """Whether a step of the plan talks to Triton."""
    assets = [*plan.of_days, *([dg.AssetKey(MODEL)] if plan.model else [])]
    return any("triton" in definitions.resolve_assets_def(key).required_resource_keys for key in assets)


@dataclass(frozen=True)
class Days:
    """The days to run, ascending, and those that cannot be run, with the reason."""

    run: list[date]
    refused: dict[date, str]


def days_that_wait(settings: Settings, instance: dg.DagsterInstance) -> Days:
    """The days with files that no run has read, and those whose last run did not come to its end."""
    waiting = waiting_days(settings, instance)
    run, refused = [], dict(waiting.refused)
    for day in waiting.content:
        try:
            check_day(day)
            run.append(day)
        except FeedbackError as error:
            refused[day] = str(error)
    return Days(run, refused)


def days_with_files(settings: Settings, first: date, last: date) -> list[date]:
    """The days from `first` to `last` for which files lie here, or were read before."""
    lake = settings.lake()
    held = {day for day in settings.landing().days() if settings.landing().files(day)} | _ledger_days(lake)
    return sorted(day for day in held if first <= day <= last)


def unscored_days(lake: DeltaLakeResource) -> set[date]:
    """Days on which a vector has no score."""
    if not lake.exists("feedback_embeddings"):
        return set()
    vectors = lake.scan("feedback_embeddings").filter(pl.col("status") == "ok")
    if lake.exists("anomaly_scores"):
        scored = lake.scan("anomaly_scores").filter(pl.col("score").is_not_null())
        vectors = vectors.join(scored, on=["partition_date", "feedback_id"], how="anti")
    return set(vectors.select("partition_date").unique().collect()["partition_date"])


def gated_days(
    instance: dg.DagsterInstance, definitions: dg.Definitions, plan: Plan, days: Collection[date]
) -> set[date]:
    """The days on which a check of an asset before the model failed and stops what follows."""
    before = {key.to_user_string() for key in plan.before}
    report = read_report(instance, definitions, sorted(days))
    return {
        entry.day
        for entry in report.entries
        if entry.blocking and entry.outcome is Outcome.FAILED and entry.asset in before
    }


def _ledger_days(lake: DeltaLakeResource) -> set[date]:
    if not lake.exists(LEDGER):
        return set()
    return set(lake.scan(LEDGER).select("partition_date").unique().collect()["partition_date"])
