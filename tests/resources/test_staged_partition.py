import hashlib
import multiprocessing
from datetime import date
from multiprocessing.synchronize import Barrier
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable
from pyarrow import parquet

from resources.delta_lake import DeltaLakeResource
from resources.errors import ConfigurationError
from resources.staged_partition import StagedPartition
from tests.s3 import Bucket

DAY, NEXT = date(2026, 9, 1), date(2026, 9, 2)
SCHEMA = {"partition_date": pl.Date(), "name": pl.String(), "tags": pl.List(pl.String())}


@pytest.fixture(params=["folder", "bucket"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> DeltaLakeResource:
    if request.param == "folder":
        return DeltaLakeResource(root=str(tmp_path / "lake"))
    bucket: Bucket = request.getfixturevalue("s3_bucket")
    return DeltaLakeResource(root=f"{bucket.uri}/lake")


def rows(*names: str) -> pl.DataFrame:
    return pl.DataFrame(
        {"name": names, "tags": [[name] for name in names]}, schema={k: SCHEMA[k] for k in ("name", "tags")}
    )


def staged(lake: DeltaLakeResource, *frames: pl.DataFrame, day: date = DAY, part_rows: int = 2) -> StagedPartition:
    partition = lake.stage("things", SCHEMA, day, part_rows)
    for frame in frames:
        partition.add(frame)
    return partition


def names(lake: DeltaLakeResource, day: date = DAY) -> list[str]:
    return lake.scan_partition("things", day).collect()["name"].to_list()


def stored(lake: DeltaLakeResource) -> int:
    """Number of Parquet files of the table, whether a commit names them or not."""
    from resources.object_store import open_store

    return len([one for one in open_store(lake.root).files("things", lambda _: False) if one.uri.endswith(".parquet")])


def test_what_was_added_is_there_in_its_order(lake: DeltaLakeResource) -> None:
    partition = staged(lake, rows("c", "a", "b"), rows("a"))
    assert partition.height == 4
    assert [name for frame in partition.frames(["name"]) for name in frame["name"]] == ["c", "a", "b", "a"]
    assert partition.counts("name") == {"a": 2, "b": 1, "c": 1}
    lake.publish("things", partition)
    assert names(lake) == ["c", "a", "b", "a"]
    found = lake.scan("things").collect()
    assert dict(found.schema) == SCHEMA
    assert found["tags"].to_list() == [["c"], ["a"], ["b"], ["a"]]
    assert DeltaTable(lake.uri("things")).count() == 4


def test_each_column_is_stored_as_suits_its_values(tmp_path: Path) -> None:
    lake = DeltaLakeResource(root=str(tmp_path / "lake"))
    schema = {
        "partition_date": pl.Date(),
        "name": pl.String(),
        "hash": pl.String(),
        "kind": pl.String(),
        "number": pl.Int64(),
        "tags": pl.List(pl.String()),
    }
    numbers = range(3_000)
    frame = pl.DataFrame(
        {
            "name": [f"{number:05d} is the name of something" for number in numbers],
            "hash": [hashlib.sha256(bytes([number % 256, number // 256])).hexdigest() for number in numbers],
            "kind": [None if number % 3 else "a kind" for number in numbers],
            "number": numbers,
            "tags": [[] for _ in numbers],
        },
        schema={name: schema[name] for name in ("name", "hash", "kind", "number", "tags")},
    )
    partition = lake.stage("things", schema, DAY, sorted_by="name")
    partition.add(frame)
    lake.publish("things", partition)
    assert lake.scan_partition("things", DAY).drop("partition_date").collect().equals(frame)
    (file,) = DeltaTable(lake.uri("things")).file_uris()
    group = parquet.read_metadata(file).row_group(0)
    columns = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    assert {name: column.compression for name, column in columns.items() if "." not in name} == {
        "name": "SNAPPY",
        "hash": "UNCOMPRESSED",
        "kind": "SNAPPY",
        "number": "SNAPPY",
    }
    assert [name for name, column in columns.items() if column.has_dictionary_page] == ["kind"]
    assert [name for name, column in columns.items() if column.is_stats_set] == ["name", "number"]


def test_a_partition_is_replaced_and_the_others_are_left_alone(lake: DeltaLakeResource) -> None:
    lake.publish("things", staged(lake, rows("a", "b", "c")))
    lake.publish("things", staged(lake, rows("d"), day=NEXT))
    lake.publish("things", staged(lake, rows("e")))
    assert (names(lake), names(lake, NEXT)) == (["e"], ["d"])
    lake.publish("things", staged(lake))
    assert (names(lake), names(lake, NEXT)) == ([], ["d"])
    lake.replace("things", rows("f").with_columns(partition_date=pl.lit(DAY)), {"partition_date": DAY})
    assert (names(lake), names(lake, NEXT)) == (["f"], ["d"])
    lake.publish("things", staged(lake, rows("g")))
    assert (names(lake), names(lake, NEXT)) == (["g"], ["d"])


def test_a_table_may_begin_with_an_empty_partition(lake: DeltaLakeResource) -> None:
    lake.publish("things", staged(lake))
    assert dict(lake.scan("things").collect_schema()) == SCHEMA
    lake.publish("things", staged(lake, rows("a"), day=NEXT))
    assert (names(lake), names(lake, NEXT)) == ([], ["a"])


def test_rows_can_be_dropped_before(lake: DeltaLakeResource) -> None:
    partition = staged(lake, rows("a", "b"), rows("b", "b"), rows("c"), rows("d", "e"), rows("b"))
    partition.keep(pl.col("name") != "b")
    assert [name for frame in partition.frames(["name"]) for name in frame["name"]] == ["a", "c", "d", "e"]
    lake.publish("things", partition)
    assert names(lake) == ["a", "c", "d", "e"]
    assert stored(lake) == len(DeltaTable(lake.uri("things")).file_uris())


def test_nothing_is_left_of_what_was_not_published(lake: DeltaLakeResource) -> None:
    staged(lake, rows("a", "b"), rows("c", "d")).discard()
    assert stored(lake) == 0
    assert not lake.exists("things")
    published = staged(lake, rows("a", "b"))
    lake.publish("things", published)
    published.discard()
    assert names(lake) == ["a", "b"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        staged(DeltaLakeResource(root=str(tmp_path / "lake")), rows("a", "b"))


def write(root: str, name: str, barrier: Barrier) -> None:
    lake = DeltaLakeResource(root=root)
    for _ in range(5):
        partition = staged(lake, rows(name, name))
        barrier.wait(60)
        lake.publish("things", partition)


def test_of_racing_writers_of_one_partition_one_is_the_last(tmp_path: Path) -> None:
    """The first files of a partition are the case that a plain overwrite would double."""
    lake = DeltaLakeResource(root=str(tmp_path / "lake"))
    lake.publish("things", staged(lake, rows("x"), day=NEXT))
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    writers = [context.Process(target=write, args=(lake.root, name, barrier)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(90)
        assert writer.exitcode == 0
    assert names(lake) in (["a", "a"], ["b", "b"])
    assert names(lake, NEXT) == ["x"]
