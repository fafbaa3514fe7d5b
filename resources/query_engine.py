"""SQL over Delta tables: one read-only statement in, columns and rows out.

The engine is an in-memory DuckDB that reaches nothing but the tables. What they mean belongs to the callers.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from resources.delta_lake import DeltaLakeResource
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    import duckdb

Value: TypeAlias = "Mapping[str, Value] | Sequence[Value] | str | int | float | bool | None"

_READING = {"SELECT", "EXPLAIN", "MULTI"}
"""Kinds of statements that are let through: DESCRIBE, SHOW, VALUES and WITH are SELECT, a PIVOT is MULTI."""

_CONFINED = (
    "SET enable_external_access = false",
    "SET python_enable_replacements = false",
    "SET TimeZone = 'UTC'",
    "SET lock_configuration = true",
)


class QueryError(ConfigurationError):
    """The SQL cannot be run; the message is the engine's own first line."""


@dataclass(frozen=True)
class QueryResult:
    """What a statement gave."""

    columns: list[str]
    """Names, made unique with a number where a name repeats."""
    rows: list[tuple[Value, ...]]
    """Numbers, strings, booleans, lists, mappings; dates, times and intervals in ISO 8601, in UTC."""


class QueryEngine:
    """Runs SQL over the tables of a lake.

    Args:
        lake: The tables that are written.
        declared: Columns of tables that are to be empty where they are not written yet, by name.
    """

    def __init__(self, lake: DeltaLakeResource, declared: Mapping[str, Mapping[str, pl.DataType]]) -> None:
        self._lake = lake
        self._declared = declared

    def query(self, sql: str) -> QueryResult:
        """Run one statement that reads.

        Raises:
            QueryError: It is not one statement, not a reading one, or the engine refuses it.
        """
        import duckdb

        with duckdb.connect(":memory:") as connection:
            try:
                self._check(connection, sql)
                files = [file for name in self._named_tables(sql) for file in self._define(connection, name)]
                connection.execute("SET allowed_paths = ?", [files])
                for setting in _CONFINED:
                    connection.execute(setting)
                relation = connection.sql(sql)
                table = relation.to_arrow_table()
            except duckdb.Error as error:
                raise QueryError(_first_line(error)) from None
        columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
        return QueryResult(_unique(table.column_names), list(zip(*columns, strict=True)))

    def _check(self, connection: "duckdb.DuckDBPyConnection", sql: str) -> None:
        statements = connection.extract_statements(sql)
        if len(statements) != 1:
            raise QueryError(f"{len(statements)} statements were given: give exactly one SELECT")
        kind = statements[0].type.name
        if kind not in _READING:
            raise QueryError(f"a {kind} statement is not run here: tables are only read, give a SELECT")

    def _named_tables(self, sql: str) -> list[str]:
        """The tables whose names stand in the SQL; all where none does, as in SHOW TABLES."""
        known = sorted({*self._declared, *self._lake.tables()})
        words = {word.lower() for word in re.findall(r"\w+", sql)}
        return [name for name in known if name.lower() in words] or known

    def _define(self, connection: "duckdb.DuckDBPyConnection", name: str) -> list[str]:
        """Make a table known to DuckDB, which reads its Parquet files itself; gives the files it may read."""
        from deltalake import DeltaTable

        if not self._lake.exists(name):
            connection.register(name, pl.DataFrame(schema=self._declared[name]).to_arrow())
            return []
        table = DeltaTable(self._lake.uri(name))
        if self._lake.is_remote:
            # DuckDB would need an extension that is not part of it.
            connection.register(name, table.to_pyarrow_table())
            return []
        files = table.file_uris()
        if not files:
            connection.register(name, table.to_pyarrow_table())
            return []
        stored = connection.read_parquet(files, hive_partitioning=True, union_by_name=True)
        # In the table's own order; a column that came later is in none of its files until a day is written again.
        columns = [field.name for field in table.schema().fields]
        stored.project(
            ", ".join(f'"{column}"' if column in stored.columns else f'NULL AS "{column}"' for column in columns)
        ).create_view(name)
        return files


def _unique(names: Sequence[str]) -> list[str]:
    """The names, each later one of a kind with its number."""
    unique: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in itertools.count(2))
        unique.append(name if name not in unique else next(each for each in numbered if each not in {*unique, *names}))
    return unique


def _plain(value: object) -> Value:
    """A value in the words of JSON."""
    plain: Value
    match value:
        case None | str() | bool() | int() | float():
            plain = value
        case Decimal():
            plain = int(value) if value == value.to_integral_value() else float(value)
        case datetime() | date() | time():
            plain = value.isoformat()
        case timedelta():
            plain = value.total_seconds()
        case bytes():
            plain = value.hex()
        case Mapping():
            plain = {str(key): _plain(inner) for key, inner in value.items()}
        case tuple() if hasattr(value, "nanoseconds"):  # an interval, as Arrow has it
            months, days, nanoseconds = value
            plain = f"P{months}M{days}DT{nanoseconds / 1e9:g}S"
        case list() | tuple():
            plain = [_plain(inner) for inner in value]
        case _:
            plain = str(value)
    return plain


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
