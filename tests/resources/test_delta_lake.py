import multiprocessing
from datetime import date, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from resources.delta_lake import DeltaIOManager, DeltaLakeResource
from resources.errors import ConfigurationError, ServerUnavailableError
from tests.s3 import Bucket

DAY = date(2026, 9, 1)
NEXT = date(2026, 9, 2)
SCHEMA = {"partition_date": pl.Date, "name": pl.String, "vector": pl.List(pl.Float32)}


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLakeResource:
    return DeltaLakeResource(root=str(tmp_path / "lake"))


def rows(day: date, *names: str) -> pl.DataFrame:
    return pl.DataFrame([(day, name, [1.0, 2.0]) for name in names], schema=SCHEMA, orient="row")


def names(lake: DeltaLakeResource, day: date) -> list[str]:
    return sorted(lake.scan_partition("things", day).collect()["name"])


def put(lake: DeltaLakeResource, frame: pl.DataFrame, day: date) -> None:
    lake.replace("things", frame, {"partition_date": day})


def test_a_partition_is_replaced_and_the_others_are_left_alone(lake: DeltaLakeResource) -> None:
    put(lake, rows(DAY, "a", "b"), DAY)
    put(lake, rows(NEXT, "c"), NEXT)
    put(lake, rows(DAY, "d"), DAY)
    assert (names(lake, DAY), names(lake, NEXT)) == (["d"], ["c"])
    assert lake.version("things") == 2
    stored = lake.scan("things").collect()
    assert dict(stored.schema) == SCHEMA
    assert stored["vector"].to_list() == [[1.0, 2.0]] * 2


def test_an_empty_frame_empties_its_partition_only(lake: DeltaLakeResource) -> None:
    put(lake, rows(DAY, "a"), DAY)
    put(lake, rows(NEXT, "b"), NEXT)
    put(lake, rows(DAY), DAY)
    assert (names(lake, DAY), names(lake, NEXT)) == ([], ["b"])


def test_a_table_may_begin_with_an_empty_day(lake: DeltaLakeResource) -> None:
    put(lake, rows(DAY), DAY)
    assert lake.exists("things")
    assert dict(lake.scan("things").collect_schema()) == SCHEMA
    put(lake, rows(NEXT, "a"), NEXT)
    assert (names(lake, DAY), names(lake, NEXT)) == ([], ["a"])


def test_a_new_column_is_added_with_nulls_before(lake: DeltaLakeResource) -> None:
    put(lake, rows(DAY, "a"), DAY)
    put(lake, rows(NEXT, "b").with_columns(more=pl.lit(1)), NEXT)
    assert lake.scan("things").collect().sort("name")["more"].to_list() == [None, 1]


def test_rows_of_another_partition_are_refused_and_nothing_is_written(lake: DeltaLakeResource) -> None:
    put(lake, rows(DAY, "a"), DAY)
    with pytest.raises(Exception, match="partition_date"):
        put(lake, rows(NEXT, "b"), DAY)
    assert (names(lake, DAY), names(lake, NEXT)) == (["a"], [])


@pytest.mark.parametrize("value", [1, "it's", "a' OR '1'='1"])
def test_any_column_may_be_the_partition(lake: DeltaLakeResource, value: int | str) -> None:
    other = 2 if isinstance(value, int) else "other"
    for part in (value, other, value):
        lake.replace("models", pl.DataFrame({"model_version": [part], "cell": [0]}), {"model_version": part})
    assert lake.scan("models").collect().sort("model_version")["model_version"].to_list() == sorted([value, other])


def test_what_is_not_there(lake: DeltaLakeResource) -> None:
    assert (lake.exists("things"), lake.version("things"), lake.tables()) == (False, None, [])
    with pytest.raises(ConfigurationError, match=r"there is no table things under .*: run `feedback run` first"):
        lake.scan("things")
    put(lake, rows(DAY, "a"), DAY)
    (Path(lake.root) / "no_table").mkdir()
    assert lake.tables() == ["things"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    lake = DeltaLakeResource(root=str(tmp_path / "taken"))
    with pytest.raises(
        ConfigurationError, match=r"^table things cannot be written at .*taken/things .*`lake`"
    ) as caught:
        put(lake, rows(DAY, "a"), DAY)
    assert "\n" not in str(caught.value)


class Overtaken(DeltaLakeResource):
    """A lake in which another writer creates the table right after one has looked for it."""

    def exists(self, table: str) -> bool:
        found = super().exists(table)
        if not found:
            put(DeltaLakeResource(root=self.root), rows(NEXT, "first"), NEXT)
        return found


def test_the_creator_of_a_table_does_not_wipe_out_another(lake: DeltaLakeResource) -> None:
    put(Overtaken(root=lake.root), rows(DAY, "second"), DAY)
    assert (names(lake, DAY), names(lake, NEXT)) == (["second"], ["first"])


def write_at_once(root: str, day: date, name: str, barrier: Barrier, times: int) -> None:
    lake = DeltaLakeResource(root=root)
    lake.exists("things")
    barrier.wait(60)
    for turn in range(times):
        put(lake, rows(day, *(f"{name}{turn}" for _ in range(2))), day)


@pytest.mark.parametrize("first_exists", [False, True])
@pytest.mark.parametrize("days", [[DAY, NEXT, NEXT + timedelta(days=1)], [DAY, DAY]])
def test_processes_that_write_at_once_lose_nothing(
    lake: DeltaLakeResource, days: list[date], first_exists: bool
) -> None:
    kept = DAY - timedelta(days=1)
    if first_exists:
        put(lake, rows(kept, "kept"), kept)
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(len(days))
    writers = [
        spawn.Process(target=write_at_once, args=(lake.root, day, f"writer{number}_", barrier, 3))
        for number, day in enumerate(days)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0] * len(days)
    if first_exists:
        assert names(lake, kept) == ["kept"]
    for number, day in enumerate(days):
        found = names(lake, day)
        assert len(found) == 2
        assert len(set(found)) == 1, "a partition holds the rows of one writer, whole"
        assert found[0].endswith("_2")
        assert len(set(days)) == 1 or found[0].startswith(f"writer{number}_")


@dg.asset(partitions_def=dg.StaticPartitionsDefinition([str(DAY), str(NEXT)]))
def things(context: dg.AssetExecutionContext) -> pl.DataFrame:
    return rows(date.fromisoformat(context.partition_key), context.partition_key)


@dg.asset(partitions_def=things.partitions_def)
def counted(context: dg.AssetExecutionContext, things: pl.LazyFrame) -> pl.DataFrame:
    return things.group_by("partition_date").agg(pl.len()).collect()


def test_assets_are_stored_by_day_and_handed_on_lazily(lake: DeltaLakeResource) -> None:
    manager = {"io_manager": DeltaIOManager(root=lake.root)}
    for day in (DAY, NEXT, DAY):
        run = dg.materialize([things, counted], resources=manager, partition_key=str(day))
    assert names(lake, DAY) == [str(DAY)]
    assert sorted(lake.scan("counted").collect().rows()) == [(DAY, 1), (NEXT, 1)]
    metadata = run.asset_materializations_for_node("things")[0].metadata
    assert metadata["dagster/row_count"].value == 1
    assert metadata["dagster/uri"].value == lake.uri("things")
    assert metadata["delta_version"].value == 2


def test_an_asset_that_cannot_be_stored_fails_at_once_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("x")
    run = dg.materialize(
        [things],
        resources={"io_manager": DeltaIOManager(root=str(tmp_path / "taken"))},
        partition_key=str(DAY),
        raise_on_error=False,
    )
    failure = run.failure_data_for_node("things")
    assert not run.success
    assert failure is not None
    assert failure.user_failure_data is not None
    assert "cannot be written at" in failure.user_failure_data.description


def test_an_object_store_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "a",
        "AWS_REGION": "r",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ServerUnavailableError, match=r"s3://bucket/lake: no answer"):
        DeltaLakeResource(root="s3://bucket/lake").exists("things")


def test_an_object_store_that_refuses_needs_a_person(s3_bucket: Bucket) -> None:
    lake = DeltaLakeResource(root=f"{s3_bucket.uri}/lake")
    put(lake, rows(DAY, "a"), DAY)
    with s3_bucket.locked(), pytest.raises(ConfigurationError, match="access denied"):
        lake.exists("things")
    assert names(lake, DAY) == ["a"]
