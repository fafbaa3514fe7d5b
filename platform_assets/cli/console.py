"""What all commands share: the lazy root group, options, one-line errors with exit codes, and printing.

What a command does belongs to its own file. Importing this stays cheap, because `feedback --help` needs it.
"""

import errno
import importlib
import json
import math
import sys
import traceback
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, TypeVar

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from platform_assets.domain.errors import FeedbackError
from resources.errors import ConfigurationError, ResourceError

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
Cell: TypeAlias = "str | int | float | date | None"
Function = TypeVar("Function", bound=Callable[..., object])

_DEBUG: Final = "feedback.debug"
_PIPE_WIDTH: Final = 200
"""Columns of a table that goes to a file or another program."""


class Exit(IntEnum):
    """The exit codes of every command."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    INTERRUPTED = 130


def _remember_debug(context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value:
        context.meta[_DEBUG] = True


_DEBUG_OPTION: Final = click.Option(
    ["--debug"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_remember_debug,
    help="Show the traceback of an error.",
)


class Command(click.Command):
    """A command with `--debug`. Its function returns the exit code; None is 0."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own parameters and `--debug`."""
        return [*super().get_params(ctx), _DEBUG_OPTION]


class Group(click.Group):
    """A group of such commands."""

    command_class = Command

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The group's own parameters and `--debug`."""
        return [*super().get_params(ctx), _DEBUG_OPTION]


@dataclass(frozen=True)
class LazyCommand:
    """Where a command is found, and what `feedback --help` says of it without importing it."""

    module: str
    attribute: str
    short_help: str


class Root(Group):
    """The group of everything: imports a command when it is called, and turns errors into one line."""

    def __init__(self, name: str, commands: Mapping[str, LazyCommand], *, help: str, epilog: str) -> None:  # noqa: A002
        super().__init__(name, help=help, epilog=epilog)
        self._lazy = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which they were given."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        lazy = self._lazy.get(cmd_name)
        if lazy is None:
            return None
        found = getattr(importlib.import_module(f"platform_assets.cli.{lazy.module}"), lazy.attribute)
        assert isinstance(found, click.Command)  # noqa: S101
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from what is known without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.short_help) for name, lazy in self._lazy.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: object,
    ) -> NoReturn:
        """Run the command line and leave the process with its exit code."""
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = Exit.USAGE
        except click.UsageError as error:
            where = f" (see `{error.ctx.command_path} --help`)" if error.ctx else ""
            _complain(f"{error.format_message().rstrip('.')}{where}")
            code = Exit.USAGE
        except click.ClickException as error:
            _complain(error.format_message())
            code = error.exit_code
        except click.Abort:
            _complain("interrupted")
            code = Exit.INTERRUPTED
        sys.exit(code or Exit.FINE)

    def invoke(self, ctx: click.Context) -> int:
        """Run the command; what it raises becomes one line on stderr and an exit code."""
        try:
            code: int | None = super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (click.Abort, KeyboardInterrupt):
            _show_traceback(ctx)
            _complain("interrupted")
            return Exit.INTERRUPTED
        except (FeedbackError, ConfigurationError) as error:
            _show_traceback(ctx)
            _complain(str(error))
            return Exit.USAGE
        except ResourceError as error:
            _show_traceback(ctx)
            _complain(str(error))
            return Exit.FAILED
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise
            _show_traceback(ctx)
            _complain(f"unexpected {type(error).__name__}: {first_line(error)}; run it again with --debug")
            return Exit.FAILED
        return code or Exit.FINE


def debugging() -> bool:
    """Whether `--debug` was given."""
    return bool(click.get_current_context().meta.get(_DEBUG))


def first_line(error: BaseException) -> str:
    """The first line of an error that says anything."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _show_traceback(context: click.Context) -> None:
    if context.meta.get(_DEBUG):
        traceback.print_exc()


def _complain(message: str) -> None:
    click.echo(f"Error: {printable(' '.join(message.split()))}", err=True)


class _Day(click.ParamType[date]):
    """A day, written YYYY-MM-DD."""

    name = "day"

    def convert(self, value: str | date, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """Read the day."""
        if isinstance(value, date):
            return value
        try:
            return date.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no day: write it as YYYY-MM-DD", param, ctx)


DAY: Final = _Day()
"""Type of arguments that name a day."""


def format_option(*formats: str) -> Callable[[Function], Function]:
    """The option `--format`; the first of `formats` is the default."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print the result.",
    )


def say(line: str) -> None:
    """Tell about progress: one line on stderr, so that stdout holds the result only."""
    click.echo(printable(line), err=True)


def printable(text: str) -> str:
    """The text without characters that would steer a terminal."""
    return "".join(
        character if character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs"} else "·"
        for character in text
    )


@contextmanager
def writing_to(target: Path | None) -> Iterator[None]:
    """Have what is printed on stdout go to a file, if one is given; its name is then what stdout gets.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    if target is None:
        yield
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("w", encoding="utf-8") as file, redirect_stdout(file):
            yield
    except OSError as error:
        raise ConfigurationError(f"{target} cannot be written ({error.strerror}): choose another place") from error
    click.echo(str(target))


def print_json(value: Json) -> None:
    """Print one JSON document on stdout."""
    click.echo(json.dumps(_finite(value), ensure_ascii=False, indent=2))


def _finite(value: Json) -> Json:
    """JSON has no word for NaN and the infinities: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(inner) for inner in value]
    return value


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    title: str | None = None,
    footer: Sequence[Cell] = (),
) -> None:
    """Print a table on stdout: numbers to the right, user text as it stands, long cells folded.

    Args:
        columns: The headers.
        rows: Cells; None is shown as a dash.
        title: A line above.
        footer: A last row, set apart.
    """
    table = Table(
        title=Text(title, style="bold") if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        show_footer=bool(footer),
    )
    for index, name in enumerate(columns):
        is_number = any(isinstance(row[index], int | float) for row in rows)
        table.add_column(
            Text(printable(name)),
            footer=Text(_shown(footer[index])) if footer else "",
            justify="right" if is_number else "left",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(printable(_shown(cell))) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)
    console.print(table)


def _shown(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.4g}"
    return str(cell)
