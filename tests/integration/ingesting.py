"""`feedback pull` and `feedback run` of the project at hand, in a process that its parent may kill at any moment.

At each line that it is sent it begins, and says `pull`, `run` and `end`, each with the seconds since the beginning,
when it gets there. What the commands print goes to standard error.

It is a process of its own, not the fork of one that has imported everything: importing Polars starts threads, of which
a fork would have only the locks.
"""

import sys
import time
from contextlib import redirect_stdout
from importlib import import_module

IMPORTED_ON_THE_WAY = (
    "platform_assets.cli.pull",
    "platform_assets.cli.run",
    "platform_assets.definitions",
    "resources.bucket_store",
    "resources.folder_store",
    "resources.pulled_sources.folder",
    "resources.pulled_sources.kafka",
    "resources.pulled_sources.postgres",
    "resources.record_files.reader",
    "confluent_kafka",
    "deltalake",
    "fastexcel",
    "filelock",
    "obstore.store",
    "psycopg",
    "pyarrow",
)
"""So that the time from the line on is spent at work."""

COMMANDS = (("pull", "--until-empty"), ("run", "--select", "raw_feedback"))


def ingest() -> None:
    """Run both commands; one that fails ends the process with its exit code."""
    from platform_assets.cli import main

    parent = sys.stdout
    began = time.monotonic()
    for command in COMMANDS:
        parent.write(f"{command[0]} {time.monotonic() - began:.3f}\n")
        parent.flush()
        with redirect_stdout(sys.stderr):
            try:
                main(command)
            except SystemExit as end:
                if end.code:
                    raise
    parent.write(f"end {time.monotonic() - began:.3f}\n")
    parent.flush()


if __name__ == "__main__":
    for name in IMPORTED_ON_THE_WAY:
        import_module(name)
    while sys.stdin.readline():
        ingest()
