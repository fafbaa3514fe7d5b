"""SQL over Delta tables: what is answered, in which words, and what is refused."""

from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

from resources.delta_lake import DeltaLakeResource
from resources.query_engine import QueryEngine, QueryError

DECLARED = {
    "things": {"partition_date": pl.Date(), "n": pl.Int64()},
    "unwritten": {"name": pl.String(), "vector": pl.List(pl.Float32())},
}


@pytest.fixture
def engine(tmp_path: Path) -> QueryEngine:
    lake = DeltaLakeResource(root=str(tmp_path / "lake"))
    for day in (1, 2):
        rows = pl.DataFrame({"partition_date": [date(2026, 9, day)] * 3, "n": [1, 2, 3]})
        lake.replace("things", rows, {"partition_date": date(2026, 9, day)})
    lake.replace(
        "undeclared",
        pl.DataFrame(
            {
                "partition_date": [date(2026, 9, 1)],
                "at": [datetime(2026, 9, 1, 10, tzinfo=UTC)],
                "vector": pl.Series([[0.5, 1.0]], dtype=pl.List(pl.Float32)),
            }
        ),
        {"partition_date": date(2026, 9, 1)},
    )
    return QueryEngine(lake, DECLARED)


def test_columns_and_rows(engine: QueryEngine) -> None:
    result = engine.query("select partition_date, sum(n) as total from things group by all order by all")
    assert result.columns == ["partition_date", "total"]
    assert result.rows == [("2026-09-01", 6), ("2026-09-02", 6)]
    assert isinstance(result.rows[0][1], int)


def test_tables_that_are_not_written_yet_are_empty(engine: QueryEngine) -> None:
    result = engine.query("select name, vector from unwritten")
    assert result.columns == ["name", "vector"]
    assert result.rows == []


def test_tables_that_nobody_declared_are_found(engine: QueryEngine) -> None:
    assert engine.query("select undeclared.at, vector from undeclared").rows == [
        ("2026-09-01T10:00:00+00:00", [0.5, 1.0])
    ]


def test_show_and_describe(engine: QueryEngine) -> None:
    assert engine.query("show tables").rows == [("things",), ("undeclared",), ("unwritten",)]
    assert engine.query("describe things").rows[0][:2] == ("partition_date", "DATE")


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("1.50::decimal(5, 2)", 1.5),
        ("3::hugeint", 3),
        ("interval '2 months 90 seconds'", "P2M0DT90S"),
        ("{'a': [1, null]}", {"a": [1, None]}),
        ("'x'::blob", "78"),
        ("time '10:30'", "10:30:00"),
        ("true", True),
        ("null", None),
    ],
)
def test_values_in_the_words_of_json(engine: QueryEngine, sql: str, value: object) -> None:
    [[found]] = engine.query(f"select {sql} as value").rows
    assert found == value
    assert type(found) is type(value)


def test_columns_of_one_name_are_told_apart(engine: QueryEngine) -> None:
    assert engine.query("select 1 as a, 2 as a").columns == ["a", "a_2"]


def test_pivot(engine: QueryEngine) -> None:
    assert engine.query("pivot things on n using count(*) group by partition_date").columns[1:] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "sql",
    [
        "delete from things",
        "insert into things values (date '2026-09-01', 1)",
        "create table copied as select 1",
        "drop table things",
        "copy things to '/tmp/stolen.csv'",
        "attach '/tmp/other.db'",
        "install httpfs",
        "set threads = 1",
        "pragma threads = 1",
        "select 1; select 2",
        "",
        "-- nothing",
        "selec 1",
        "select * from nothing_like_it",
        "select * from '/etc/passwd'",
        "select * from read_text('/etc/passwd')",
        "select * from read_csv('https://example.org/x.csv')",
        "select * from glob('/*')",
        "select * from sql",
    ],
)
def test_refused_in_one_line(engine: QueryEngine, sql: str) -> None:
    with pytest.raises(QueryError) as refusal:
        engine.query(sql)
    assert "\n" not in str(refusal.value)


def test_nothing_was_written(engine: QueryEngine, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    engine.query("select count(*) from things")
    assert sorted(tmp_path.rglob("*")) == before
