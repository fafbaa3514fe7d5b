"""Shows how far `feedback run` is, on stderr: a live bar on a terminal, one line a run elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from platform_assets.check_report import Outcome, tally
from platform_assets.cli.console import printable
from platform_assets.cli.run_execution import RunResult

_TOLD = (Outcome.FAILED, Outcome.NOT_EVALUATED, Outcome.WARNED, Outcome.NOT_ENOUGH_DATA, Outcome.PASSED)


class ProgressView:
    """The runs under way; a context manager, so that the terminal is always given back."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("runs"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None)
        self._label = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def expect(self, runs: int) -> None:
        """Set how many runs there will be in all, as far as is known."""
        self._progress.update(self._task, total=runs)

    def begin(self, label: str) -> None:
        """A run, or something else that takes a while, begins."""
        self._label = label
        self._progress.update(self._task, description=label)

    def step(self, name: str) -> None:
        """The run at hand comes to a step."""
        self._progress.update(self._task, description=f"{self._label}  {name}")

    def note(self, line: str, style: str = "") -> None:
        """Print a line above the bar."""
        self._console.print(Text(printable(line), style=style))

    def finish(self, result: RunResult) -> None:
        """The run at hand ended."""
        self._progress.advance(self._task)
        counts = tally(entry.outcome for entry in result.checks.values())
        checks = ", ".join(f"{counts[outcome]} {outcome}" for outcome in _TOLD if counts[outcome])
        mark, style = ("✓", "green") if result.success else ("✗", "bold red")
        line = f"{mark} {self._label}  {result.seconds:.1f} s"
        self.note(f"{line}  checks: {checks}" if checks else line, style)
        for problem in result.problems:
            self.note(f"    {problem}", "red")
