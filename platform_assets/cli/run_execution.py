"""Runs assets in this process, one run a day, and gathers from the run's events what became of it."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from uuid import uuid4

import dagster as dg
from dagster import DagsterEvent, DagsterEventType
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluation,
    AssetCheckEvaluationPlanned,
)
from dagster_shared.error import SerializableErrorInfo

from platform_assets.check_report import CheckEntry, Fate, Outcome, entry_of, not_evaluated
from platform_assets.cli.project import QUIET

_GATE = "DagsterAssetCheckFailedError"
"""How a step fails because of a check; the check says more."""
_INTERRUPTION = "DagsterExecutionInterruptedError"
"""What Dagster makes of a Ctrl-C during a run, which it then ends as failed."""


@dataclass
class RunResult:
    """What became of one run."""

    day: date | None
    run_id: str
    success: bool = False
    seconds: float = 0.0
    checks: dict[dg.AssetCheckKey, CheckEntry] = field(default_factory=dict)
    materialized: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    """Why it failed, one line each; empty where it did not."""
    interrupted: bool = False


class Runner:
    """Runs selections of a project's assets.

    Args:
        definitions: the project's definitions.
        instance: where runs are recorded.
        on_step: told the name of each step that starts.
        on_retry: told the step and the reason when a step is tried again.
    """

    def __init__(
        self,
        definitions: dg.Definitions,
        instance: dg.DagsterInstance,
        *,
        on_step: Callable[[str], None],
        on_retry: Callable[[str, str], None],
    ) -> None:
        self._job = definitions.resolve_implicit_global_asset_job_def()
        self._instance = instance
        self._on_step = on_step
        self._on_retry = on_retry

    def run(self, assets: Sequence[dg.AssetKey], day: date | None) -> RunResult:
        """Make `assets` with their checks, of one day where they are made by day.

        Raises:
            KeyboardInterrupt: the run was interrupted; it is recorded as ended.
        """
        result = RunResult(day, str(uuid4()))
        self._instance.add_event_listener(result.run_id, lambda entry: self._follow(entry.dagster_event, result))
        started = time.perf_counter()
        try:
            run = self._job.execute_in_process(
                run_config=QUIET,
                instance=self._instance,
                partition_key=day.isoformat() if day else None,
                raise_on_error=False,
                asset_selection=assets,
                run_id=result.run_id,
            )
        except BaseException:
            self._cancel(result.run_id)
            raise
        if result.interrupted:
            raise KeyboardInterrupt
        result.seconds = time.perf_counter() - started
        result.problems = [*_failed_checks(result.checks.values()), *result.problems]
        result.success = run.success and not result.problems
        if not run.success and not result.problems:
            result.problems = [_run_problem(run.all_events)]
        return result

    def _cancel(self, run_id: str) -> None:
        run = self._instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            self._instance.report_run_canceled(run, message="Interrupted on the command line.")

    def _follow(self, event: DagsterEvent | None, result: RunResult) -> None:
        if event is None:
            return
        data = event.event_specific_data
        if isinstance(data, AssetCheckEvaluation):
            result.checks[data.asset_check_key] = entry_of(data, result.day or date.min)
        elif isinstance(data, AssetCheckEvaluationPlanned):
            key = data.asset_check_key
            result.checks[key] = not_evaluated(key, result.day or date.min, blocking=False, fate=Fate.ENDED_BEFORE)
        elif event.event_type is DagsterEventType.ASSET_MATERIALIZATION and event.asset_key is not None:
            result.materialized.add(event.asset_key.to_user_string())
        elif event.event_type is DagsterEventType.STEP_START:
            self._on_step(str(event.step_key))
        elif event.event_type is DagsterEventType.STEP_UP_FOR_RETRY:
            if _was_interrupted(event.step_retry_data.error):
                # Dagster would try an interrupted step again, as if Ctrl-C were a fault of the step.
                raise KeyboardInterrupt
            self._on_retry(str(event.step_key), _reason(event.step_retry_data.error))
        elif event.event_type is DagsterEventType.STEP_FAILURE:
            _note_failure(event, result)
        elif event.event_type is DagsterEventType.RUN_FAILURE:
            result.interrupted |= _is_interruption(event.job_failure_data.error)


def _note_failure(event: DagsterEvent, result: RunResult) -> None:
    failure = event.step_failure_data
    if _is_interruption(failure.error):
        result.interrupted = True
    elif failure.error is None or failure.error.cls_name != _GATE:
        given = failure.user_failure_data.description if failure.user_failure_data else None
        result.problems.append(f"{event.step_key}: {_one_line(given or _reason(failure.error))}")


def _was_interrupted(error: SerializableErrorInfo | None) -> bool:
    while error is not None:
        if _is_interruption(error):
            return True
        error = error.cause
    return False


def _is_interruption(error: SerializableErrorInfo | None) -> bool:
    return error is not None and error.cls_name == _INTERRUPTION


def _failed_checks(checks: Iterable[CheckEntry]) -> list[str]:
    problems = []
    for entry in checks:
        if entry.outcome is Outcome.FAILED:
            example = f": {entry.examples[0]}" if entry.examples else ""
            problems.append(f"{entry.asset}: check {entry.check} failed: {entry.sentence}{example}")
    return problems


def _run_problem(events: Sequence[DagsterEvent]) -> str:
    """Why a run failed in which no step did: a resource, or Dagster itself."""
    for event in events:
        if event.event_type is DagsterEventType.RUN_FAILURE:
            return _reason(event.job_failure_data.error)
    return "the run ended without saying why: see it in the UI with `make dev`"


def _reason(error: SerializableErrorInfo | None) -> str:
    """The message of the error at the root, without its class."""
    if error is None:
        return "no reason was given"
    while error.cause is not None:
        error = error.cause
    message = error.message.strip()
    first = next((line for line in message.splitlines() if line.strip()), error.cls_name or "unknown error")
    prefix, colon, rest = first.partition(": ")
    return _one_line(rest if colon and prefix.replace(".", "").replace("_", "").isalnum() and rest else first)


def _one_line(text: str) -> str:
    return " ".join(text.split())
