"""`feedback run`: brings landed days through the pipeline, shows how far it is, and sums up what came of it.

Which assets and days belongs to `run_plan.py`, one run to `run_execution.py`.
"""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import FrameType

import click
import dagster as dg

from platform_assets.assets.anomaly_model import reference_days
from platform_assets.cli.console import DAY, Command, Exit, format_option, print_json
from platform_assets.cli.embedded_server import embedded_server
from platform_assets.cli.project import check_known, dagster_instance, load_definitions, open_settings
from platform_assets.cli.run_execution import Runner, RunResult
from platform_assets.cli.run_plan import (
    MODEL,
    Days,
    Plan,
    days_that_wait,
    days_with_files,
    gated_days,
    make_plan,
    needs_triton,
    unscored_days,
)
from platform_assets.cli.run_progress import ProgressView
from platform_assets.cli.run_summary import RunSummary, sum_up
from platform_assets.current_model import is_fitted
from platform_assets.settings import Settings
from resources.triton import TritonResource


@click.command(cls=Command)
@click.option("--partition", type=DAY, help="Run this day, whether its files were read before or not.")
@click.option("--from", "first", type=DAY, help="Run the days from this one on …")
@click.option("--to", "last", type=DAY, help="… to this one, as far as they have files.")
@click.option("--select", multiple=True, metavar="ASSET…", help="Make these assets only.")
@click.argument("more", nargs=-1, metavar="")
@format_option("table", "json")
def run(
    *,
    partition: date | None,
    first: date | None,
    last: date | None,
    select: Sequence[str],
    more: Sequence[str],
    form: str,
) -> int:
    """Materialize what waits: days with files that no run has read, and days whose last run failed.

    Each day is a run of its own, in this process. The first anomaly model is fitted as soon as there are
    enough vectors. A day that fails holds up no other; then the exit code is 1.
    """
    if more and not select:
        raise click.UsageError(f"unexpected argument {more[0]!r}: name assets after --select")
    wanted = _span(partition, first, last)
    settings = open_settings()
    with dagster_instance(settings) as instance:
        definitions = load_definitions(settings)
        plan = make_plan(
            definitions, [*select, *more], fitted=is_fitted(settings.lake(), Path(settings.triton().repository))
        )
        if wanted:
            days = Days(days_with_files(settings, *wanted), {})
        else:
            days = days_that_wait(settings, instance) if plan.of_days else Days([], {})
        if plan.of_days and not days.run and not days.refused:
            return _nothing_to_do(wanted, form)
        summary = _carried_out(plan, days, settings, instance, definitions)
    _tell(summary, form)
    return Exit.FINE if summary.success else Exit.FAILED


def run_days(days: Sequence[date], settings: Settings) -> RunSummary:
    """Bring some days through the whole pipeline again, as `feedback run --partition` does."""
    with dagster_instance(settings) as instance:
        definitions = load_definitions(settings)
        plan = make_plan(definitions, [], fitted=is_fitted(settings.lake(), Path(settings.triton().repository)))
        return _carried_out(plan, Days(list(days), {}), settings, instance, definitions)


def _carried_out(
    plan: Plan, days: Days, settings: Settings, instance: dg.DagsterInstance, definitions: dg.Definitions
) -> RunSummary:
    with _termination_as_interruption(), ProgressView() as view:
        work = _Work(settings, definitions, instance, plan, view)
        with _server(settings.triton(), view, wanted=needs_triton(definitions, plan)):
            work.run(days)
    return sum_up(settings.lake(), work.results, days.refused, work.model, work.model_note)


def _span(partition: date | None, first: date | None, last: date | None) -> tuple[date, date] | None:
    """The first and the last day that the user named."""
    for day in (partition, first, last):
        check_known(day)
    if partition and (first or last):
        raise click.UsageError("--partition names one day: leave out --from and --to")
    if partition:
        return partition, partition
    if first and last:
        if first > last:
            raise click.UsageError(f"--from {first} lies after --to {last}: exchange them")
        return first, last
    if first or last:
        raise click.UsageError("give both --from and --to")
    return None


def _nothing_to_do(wanted: tuple[date, date] | None, form: str) -> int:
    if wanted is None:
        line = "nothing waits: every landed file was read; land more with `feedback ingest FILE…`"
    else:
        days = str(wanted[0]) if wanted[0] == wanted[1] else f"{wanted[0]} to {wanted[1]}"
        line = f"nothing has landed for {days}: land files with `feedback ingest FILE… --partition DAY`"
    if form == "json":
        print_json({"success": True, "days": [], "totals": {}, "model": None, "message": line})
    else:
        click.echo(line)
    return Exit.FINE


def _tell(summary: RunSummary, form: str) -> None:
    if form == "json":
        print_json(summary.as_json())
    else:
        summary.show()


@contextmanager
def _termination_as_interruption() -> Iterator[None]:
    """Let SIGTERM end the run as Ctrl-C does, so that no run is left behind that looks as if it still went on."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _server(triton: TritonResource, view: ProgressView, *, wanted: bool) -> Iterator[None]:
    """Have the server ready before the first run, so that a missing one fails before anything is done.

    On an interruption, stop it again if it was started here.
    """
    if not wanted:
        yield
        return
    if triton.url:
        view.begin(f"looking for Triton at {triton.url}")
        triton.server_version()
        yield
        return
    embedded = embedded_server(triton)
    view.begin("starting the embedded Triton server")
    try:
        embedded.ensure()
        yield
    except KeyboardInterrupt:
        if embedded.started_here:
            embedded.stop()
        raise


class _Work:
    """Carries out a plan; what came of it stands in its attributes."""

    def __init__(
        self,
        settings: Settings,
        definitions: dg.Definitions,
        instance: dg.DagsterInstance,
        plan: Plan,
        view: ProgressView,
    ) -> None:
        self.results: list[RunResult] = []
        self.model: RunResult | None = None
        self.model_note = ""
        self._settings = settings
        self._definitions = definitions
        self._instance = instance
        self._plan = plan
        self._view = view
        self._runner = Runner(definitions, instance, on_step=view.step, on_retry=self._tell_retry)

    def run(self, days: Days) -> None:
        """Make the assets before the model for every day, the model, then the rest for every sound day."""
        for day, reason in days.refused.items():
            self._view.note(f"✗ {day}  {reason}", "bold red")
        phases = bool(self._plan.before) + bool(self._plan.after)
        self._view.expect(len(days.run) * phases + self._plan.model)
        if self._plan.before:
            self._run_days(self._plan.before, days.run)
        rest = set(days.run) - {result.day for result in self.results if not result.success}
        if self._plan.model:
            self._fit()
            if self._plan.by_default and self.model and self.model.success:
                # The days before the first model have no scores; those stopped by a check stay stopped.
                older = unscored_days(self._settings.lake()) - set(days.run)
                rest |= older - gated_days(self._instance, self._definitions, self._plan, older)
        if self._plan.after:
            self._view.expect(len(days.run) * bool(self._plan.before) + self._plan.model + len(rest))
            self._run_days(self._plan.after, sorted(rest))

    def _run_days(self, assets: Sequence[dg.AssetKey], days: Sequence[date]) -> None:
        for day in days:
            self._view.begin(str(day))
            result = self._runner.run(assets, day)
            self.results.append(result)
            self._view.finish(result)

    def _fit(self) -> None:
        if self._plan.by_default:
            limits = self._settings.thresholds.anomaly_model
            window = reference_days(self._settings.lake(), limits)
            held, needed = window.distinct if window else 0, limits.min_reference_vectors
            if held < needed:
                self.model_note = f"not fitted yet: {held} of {needed} different texts for its reference window"
                self._view.note(f"– {MODEL}  {self.model_note}", "yellow")
                return
        self._view.begin(MODEL)
        self.model = self._runner.run([dg.AssetKey(MODEL)], None)
        self.model_note = "fitted" if self.model.success else "; ".join(self.model.problems)
        self._view.finish(self.model)

    def _tell_retry(self, step: str, reason: str) -> None:
        self._view.note(f"  {step} is tried again: {reason}", "yellow")
