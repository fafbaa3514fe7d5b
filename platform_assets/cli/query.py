"""`feedback query`: SQL over every table, read-only."""

import csv
import json
import sys

import click

from platform_assets.cli.console import Cell, Command, format_option, print_json, print_table, say
from platform_assets.cli.project import open_settings
from platform_assets.domain.tables import TABLES
from resources.query_engine import QueryEngine, QueryResult, Value

_TABLE_ROWS = 200
_CELL_CHARACTERS = 160
_LIST_ITEMS = 4


@click.command(cls=Command)
@click.argument("sql")
@format_option("table", "json", "csv")
def query(sql: str, form: str) -> None:
    """Run one SELECT over the tables, in DuckDB's SQL; SHOW TABLES and DESCRIBE work too.

    Nothing can be written, and nothing but the tables be read. Tables that no run has written yet are empty.
    """
    result = QueryEngine(open_settings().lake(), TABLES).query(sql)
    if form == "json":
        print_json([dict(zip(result.columns, row, strict=True)) for row in result.rows])
    elif form == "csv":
        _print_csv(result)
    else:
        print_table(result.columns, [[_cell(value) for value in row] for row in result.rows[:_TABLE_ROWS]])
        if len(result.rows) > _TABLE_ROWS:
            say(f"… {len(result.rows) - _TABLE_ROWS:,} more rows: use --format csv or json for all")


def _print_csv(result: QueryResult) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows(
        [value if isinstance(value, str | int | float | None) else _json(value) for value in row] for row in result.rows
    )


def _cell(value: Value) -> Cell:
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, list) and len(value) > _LIST_ITEMS:
        first = ", ".join(_short(item) for item in value[:_LIST_ITEMS])
        return f"[{first}, … {len(value)} items]"
    text = value if isinstance(value, str) else _json(value)
    return text if len(text) <= _CELL_CHARACTERS else f"{text[:_CELL_CHARACTERS]}…"


def _short(value: Value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else _json(value)


def _json(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False)
