"""Pulls the rows of a PostgreSQL table or view into the landing zone, by a watermark column.

Each pull lands at most one file, `<day>/<source>/rows-<number>-after-<watermark>.jsonl`: one JSON object a row, as the
server writes it. `<number>` counts the source's files; `<watermark>` is the greatest one of the files before, or
`start`. The name thus follows from what has landed before and not from what is in the file: of two pulls that begin
with the same state, only one can land.

A pull goes on from the greatest watermark of the newest file and its name, less the overlap. Rows whose key and
watermark stand in a file that reaches up there have landed and are left out. The files are the only state: remove the
newest ones, and their rows come again; remove all, and everything comes again.

What a pull cannot see: rows committed later than the overlap allows, rows without a watermark, rows that were deleted,
and all but the last of several writes to a row since the pull before. A row stamped in the future, by the server's
clock, waits until then: once landed, it would hide all that follow. A time without a zone may be 14 hours ahead. NaN
and Infinity never come.

Types of watermarks belong to `watermarks.py`; what rows mean, to the callers.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

from resources.errors import ConfigurationError, ResourceError, ServerUnavailableError
from resources.landing_writer import AlreadyLandedError
from resources.landing_zone import LandedFile, LandingZoneResource
from resources.pulled_sources import Pulled
from resources.pulled_sources.watermarks import WATERMARK_TYPES, WatermarkType

if TYPE_CHECKING:
    from psycopg import Connection, Error
    from psycopg.sql import Composed, Identifier

_CONNECT_TIMEOUT_S: Final = 10
_SESSION: Final = {"application_name": "feedback-platform", "client_encoding": "UTF8"}
_ROWS_PER_FETCH: Final = 1000
_FILE_NAME: Final = re.compile(r"rows-(\d{8,})-after-(.+)\.jsonl")
_START: Final = "start"
_NAME_PART: Final = re.compile(r'"(?:[^"]|"")+"|[^".]+')
_JSON_SIGN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[][{},]')

_SETTINGS: Final = {
    "timezone": "UTC",
    # Planned now only where there is no other way, so that a plan without them is a matter of indexes, not of costs.
    "enable_seqscan": "off",
    "enable_sort": "off",
}

_NO_CONNECTION: Final = {
    r"authentication failed|no password supplied": "correct user and password in its connection string",
    r"database .* does not exist": "correct the database in its connection string",
    r"role .* does not exist|not permitted to log in": "correct the user in its connection string, or let it log in",
    r"pg_hba\.conf|permission denied": "let this user connect to this database from this machine",
    r"SSL|certificate": "correct sslmode and sslrootcert in its connection string",
    r"invalid|port number|Servname": (
        "write its connection string as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, special signs %-encoded"
    ),
}
"""What a person can mend, by what libpq says; it says so only in words."""

_PASSING_STATES: Final = ("08", "25P", "40", "53", "55", "57", "58", "XX")
"""What the SQLSTATE begins with that another try may not meet: connection, idle time, rollback, resources, locks,
operator, system."""


@dataclass(frozen=True)
class _State:
    """What has landed, as far as the next pull needs it."""

    file_name: str
    """Of the file that the next pull lands."""
    last: LandedFile | None
    start: Decimal
    """Lowest watermark that is looked at again."""
    seen: set[tuple[str, Decimal]]
    """Key and watermark of each row landed at or above `start`."""


@dataclass(frozen=True)
class PostgresSource:
    """Rows of one table or view; see the module for how they land."""

    name: str
    """The source, and its folder in the landing zone."""
    dsn: str = field(repr=False)
    """Connection string of libpq: a URL or `key=value` pairs."""
    table: str
    """`name` or `schema.name`, spelt as the database shows it; a part with a dot in it is put in double quotes."""
    watermark: str
    """Column that grows with each write of a row: timestamptz, timestamp, date, an integer or numeric."""
    key: str
    """Column that identifies a row."""
    overlap: float = 300
    """How far below the greatest landed watermark a pull looks again: seconds, or units of the number."""
    rows_per_pull: int = 50_000
    statement_timeout_s: float = 60
    """Longest wait for each answer of the server."""

    def pull(self, zone: LandingZoneResource, now: datetime) -> Pulled:
        """Land up to `rows_per_pull` rows that are new or were written again, by watermark and key.

        Nothing is landed where another pull of this source was faster.

        Raises:
            ConfigurationError: the connection string, the table, its columns, its index or the user's rights have to
                be mended, or the landed files are those of another watermark.
            ServerUnavailableError: the server does not answer, breaks off or is too slow.
        """
        import psycopg

        try:
            with self._connection() as connection:
                return self._pull(connection, zone, now)
        except psycopg.Error as error:
            raise self._explained(error) from error

    @property
    def _title(self) -> str:
        return f"source {self.name}: {self.table}"

    @contextmanager
    def _connection(self) -> "Iterator[Connection]":
        """One read-only transaction, in which everything happens."""
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        # libpq's own words may hold parts of the connection string, and so of the password: none is passed on.
        try:
            given = {"connect_timeout": _CONNECT_TIMEOUT_S, **conninfo_to_dict(self.dsn)}
            conninfo = make_conninfo("", **{**given, **_SESSION})
            # Statements are not prepared: a pooler may give each transaction another server.
            connection = psycopg.connect(conninfo, prepare_threshold=None)
        except psycopg.ProgrammingError:
            raise self._unconnected("invalid") from None
        except psycopg.Error as error:
            raise self._unconnected(str(error)) from None
        with connection:
            connection.read_only = True
            # One statement reads the rows. Its snapshot must not be older than what is known to have landed, as that
            # of a repeatable read would be.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            yield connection

    def _pull(self, connection: "Connection", zone: LandingZoneResource, now: datetime) -> Pulled:
        timeout = {"statement_timeout": f"{self.statement_timeout_s * 1000:.0f}"}
        for setting, value in {**_SETTINGS, **timeout}.items():
            connection.execute("SELECT set_config(%s, %s, true)", [setting, value])
        kind = self._watermark_type(connection)
        state = self._state(zone, kind)
        query = self._query(kind, state.start)
        self._check_plan(connection, query)
        # A clock that is behind must not put a file before those that it follows.
        day = max(now.date(), state.last.day) if state.last else now.date()
        more = False
        previous = None
        with (
            zone.writer(day, self.name, state.file_name) as writer,
            connection.cursor(name="feedback_rows", scrollable=False) as cursor,
        ):
            cursor.itersize = _ROWS_PER_FETCH
            for (row,) in cursor.execute(query):
                # Ends of lines come from columns of type json, which are kept as they were written: never in strings.
                line = row.replace("\r", " ").replace("\n", " ")
                pair = self._pair(line, kind)
                if pair == previous:
                    raise ConfigurationError(
                        f"{self._title} has two rows with {self.key} {pair[0]} and one {self.watermark}: set the "
                        "source's `key` to a column that identifies a row"
                    )
                previous = pair
                if pair in state.seen:
                    continue
                if writer.records == self.rows_per_pull:
                    more = True
                    break
                writer.append(line)
            # Around midnight another pull's file may lie in another day, where its name is no obstacle.
            if next((file for file, _, _ in self._landed_files(zone)), None) != state.last:
                return Pulled(more=True)
            try:
                landed = writer.land()
            except AlreadyLandedError:
                return Pulled(more=True)
        return Pulled([landed], writer.records, more) if landed else Pulled()

    def _watermark_type(self, connection: "Connection") -> WatermarkType:
        from psycopg.sql import SQL, Identifier

        # Without system columns, which are in no row's JSON.
        columns = SQL("SELECT t.{}, t.{} FROM (SELECT * FROM {}) AS t LIMIT 0").format(
            Identifier(self.watermark), Identifier(self.key), self._table()
        )
        described = connection.execute(columns).description
        kind = connection.adapters.types.get(described[0].type_code) if described else None
        if kind is None or kind.name not in WATERMARK_TYPES:
            raise ConfigurationError(
                f"{self._title}.{self.watermark} is of type {kind.name if kind else 'unknown'}: set the source's "
                f"`watermark` to a column of type {', '.join(WATERMARK_TYPES)}"
            )
        return WATERMARK_TYPES[kind.name]

    def _query(self, kind: WatermarkType, start: Decimal) -> "Composed":
        from psycopg.sql import SQL, Identifier, Literal

        watermark = SQL("t.{}").format(Identifier(self.watermark))
        # `t` alone would be a column of that name, if there is one. Parameters would give a meaning to % in names.
        return SQL(
            "SELECT row_to_json(t.*)::text FROM {table} AS t WHERE {watermark} >= {start}::{cast} AND {usable} "
            "ORDER BY {watermark}, t.{key}"
        ).format(
            table=self._table(),
            watermark=watermark,
            start=Literal(kind.text(start)),
            cast=SQL(kind.cast),
            usable=SQL(kind.usable).format(watermark),
            key=Identifier(self.key),
        )

    def _check_plan(self, connection: "Connection", query: "Composed") -> None:
        """Refuse a table, or one beneath a view, of which each pull would read all.

        A sort without a scan tells of an index in which the watermark is not the first: all of it would be read.
        """
        from psycopg.sql import SQL, Identifier

        explain = SQL("EXPLAIN (FORMAT JSON) DECLARE feedback_rows NO SCROLL CURSOR FOR {}").format(query)
        ((plans,),) = connection.execute(explain).fetchall()
        nodes = list(_nodes(plans[0]["Plan"]))
        whole = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
        if not whole and any(node["Node Type"] == "Sort" for node in nodes):
            whole = {self.table}
        if whole:
            index = SQL("CREATE INDEX ON {} ({}, {})").format(
                self._table(), Identifier(self.watermark), Identifier(self.key)
            )
            raise ConfigurationError(
                f"{self._title} has no index that begins with {self.watermark}, so each pull would read all of "
                f"{', '.join(sorted(whole))}: run {index.as_string(connection)} (for a view: on the table beneath, and "
                "index what the view joins by)"
            )

    def _state(self, zone: LandingZoneResource, kind: WatermarkType) -> _State:
        files = self._landed_files(zone)
        last, number, below = next(files, (None, 0, _START))
        if last is None:
            return _State(_file_name(1, _START), None, kind.least, set())
        rows = set(self._landed_rows(zone, last, kind))
        reached = max(position for _, position in rows) if rows else kind.least
        if below != _START:
            reached = max(reached, self._landed_position(last, below, kind))
        start = kind.back(reached, self.overlap)
        seen = {row for row in rows if row[1] >= start}
        for file, _, still_below in files:
            # No row of a file is above the watermark in the name of the file after it.
            if below == _START or self._landed_position(file, below, kind) < start:
                break
            seen.update(row for row in self._landed_rows(zone, file, kind) if row[1] >= start)
            below = still_below
        return _State(_file_name(number + 1, kind.text(reached)), last, start, seen)

    def _landed_files(self, zone: LandingZoneResource) -> Iterator[tuple[LandedFile, int, str]]:
        """The files that pulls of this source landed, the newest first: with number and watermark of their names."""
        for day in reversed(zone.days()):
            named = ((file, _FILE_NAME.fullmatch(file.name)) for file in zone.files_of(self.name, day))
            files = [(file, int(match[1]), match[2]) for file, match in named if match]
            yield from sorted(files, key=lambda file: file[1], reverse=True)

    def _landed_rows(
        self, zone: LandingZoneResource, file: LandedFile, kind: WatermarkType
    ) -> Iterator[tuple[str, Decimal]]:
        with zone.fetch(file) as path, path.open("rb") as lines:
            for line in lines:
                try:
                    yield self._pair(line, kind)
                except (ValueError, LookupError, TypeError, ArithmeticError):
                    raise self._foreign(file) from None

    def _landed_position(self, file: LandedFile, text: str, kind: WatermarkType) -> Decimal:
        try:
            return kind.position(text)
        except (ValueError, ArithmeticError):
            raise self._foreign(file) from None

    def _foreign(self, file: LandedFile) -> ConfigurationError:
        return ConfigurationError(
            f"source {self.name}: {file.uri} in the landing zone does not hold rows by {self.key} and {self.watermark} "
            "as they are now: give the source a new name where its table, key or watermark has changed"
        )

    def _pair(self, line: str | bytes, kind: WatermarkType) -> tuple[str, Decimal]:
        """Key and watermark of a row, from its JSON: so a row read and a row landed can never differ in form."""
        text = line if isinstance(line, str) else line.decode()
        try:
            row = _loads(text)
        except RecursionError:
            row = _shallow_columns(text)
            if self.key not in row:
                raise ConfigurationError(
                    f"{self._title}.{self.key} is nested too deeply in a row: set the source's `key` to a column of a "
                    "plain type"
                ) from None
        key = row[self.key]
        if key is None:
            raise ConfigurationError(
                f"{self._title} has a row without {self.key} at {self.watermark} {row[self.watermark]}: set the "
                "source's `key` to a column that is never null"
            )
        return key if isinstance(key, str) else json.dumps(key), kind.position(row[self.watermark])

    def _table(self) -> "Identifier":
        from psycopg.sql import Identifier

        parts = _NAME_PART.findall(self.table)
        if not parts or ".".join(parts) != self.table:
            raise ConfigurationError(
                f"source {self.name}: {self.table!r} is no name of a table: write `name` or `schema.name`"
            )
        return Identifier(*(part[1:-1].replace('""', '"') if part[0] == '"' else part for part in parts))

    def _unconnected(self, said: str) -> ResourceError:
        refusal = re.search(r"FATAL:\s*(.+)", said)
        reason = f" ({refusal[1].strip()})" if refusal else ""
        for pattern, advice in _NO_CONNECTION.items():
            if re.search(pattern, refusal[1] if refusal else said):
                return ConfigurationError(f"source {self.name}: no connection to PostgreSQL{reason}: {advice}")
        return ServerUnavailableError(
            f"source {self.name}: PostgreSQL does not answer{reason}: check that it is up, and host and port in the "
            "connection string"
        )

    def _explained(self, error: "Error") -> ResourceError:
        said = " ".join((error.diag.message_primary or str(error)).split())
        if error.sqlstate is None or error.sqlstate.startswith(_PASSING_STATES):
            return ServerUnavailableError(f"{self._title}: PostgreSQL broke off ({said}): pull again")
        return ConfigurationError(
            f"{self._title} cannot be read ({said}): correct the source's `table`, `watermark` or `key`, or the rights "
            "of its user"
        )


def _file_name(number: int, below: str) -> str:
    return f"rows-{number:08}-after-{below.replace(':', '')}.jsonl"


def _loads(text: str) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(text, parse_int=str, parse_float=str))


def _shallow_columns(row: str) -> dict[str, Any]:
    """The columns of a row's JSON but those that are nested too deeply for Python."""
    ends, depth = [row.index("{")], 0
    for sign in _JSON_SIGN.finditer(row):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(sign[0], 0)
        if depth == 0 or (depth == 1 and sign[0] == ","):
            ends.append(sign.start())
    columns: dict[str, Any] = {}
    for begin, end in pairwise(ends):
        with suppress(RecursionError):
            columns |= _loads(f"{{{row[begin + 1 : end]}}}")
    return columns


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan and all plans in it."""
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)
