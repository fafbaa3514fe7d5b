"""The command line `feedback`: one file a command group, imported only when the command is called."""

from typing import Final

from platform_assets.cli.console import LazyCommand, Root

main: Final = Root(
    "feedback",
    {
        "ingest": LazyCommand("ingest", "ingest", "Land files for the next run."),
        "pull": LazyCommand("pull", "pull", "Fetch from the pulled sources for the next run."),
        "run": LazyCommand("run", "run", "Bring landed days through the pipeline."),
        "report": LazyCommand("report", "report", "What the checks found, by day."),
        "query": LazyCommand("query", "query", "Ask the tables in SQL, read-only."),
        "quarantine": LazyCommand("quarantine", "quarantine", "The records that could not be loaded, and replay."),
        "models": LazyCommand("models", "models", "List, build and validate the model repository."),
        "triton": LazyCommand("triton", "triton", "Serve, look at and stop the embedded server."),
        "doctor": LazyCommand("doctor", "doctor", "What is ready, and what to do about the rest."),
    },
    help="Feedback Platform: customer feedback, every day, into checked, normalized, searchable records.",
    epilog="Exit codes: 0 fine, 1 the data or a check failed, 2 usage or configuration, 130 interrupted.",
)
"""The console script."""
