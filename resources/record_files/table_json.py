"""Rows of a table as JSON objects: what the column formats give as EXTRA and as raws."""

from collections.abc import Sequence

import polars as pl


def json_rows(columns: dict[str, pl.Series], height: int) -> pl.Series:
    """Each row of some columns, all of this height, as a JSON object without white space."""
    if not columns:
        return pl.repeat("{}", height, dtype=pl.String, eager=True)
    return pl.DataFrame(columns).to_struct().struct.json_encode()


def json_rows_at(columns: dict[str, pl.Series], positions: Sequence[int]) -> list[str]:
    """The rows at these positions only."""
    rows = pl.Series(positions, dtype=pl.UInt32)
    return json_rows({name: column.gather(rows) for name, column in columns.items()}, len(rows)).to_list()
