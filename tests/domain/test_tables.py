import polars as pl
import pytest

from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.tables import TABLES, conform, schema_breaches

CONTRACT = {"a": pl.Int64(), "b": pl.List(pl.String())}


@pytest.mark.parametrize(
    ("found", "breaches"),
    [
        (CONTRACT, []),
        (dict(reversed(CONTRACT.items())), []),
        ({"a": pl.Int64()}, ["b is missing"]),
        ({**CONTRACT, "c": pl.Int8()}, ["c is not in the contract"]),
        ({**CONTRACT, "a": pl.String()}, ["a is String, the contract says Int64"]),
        ({"c": pl.Int8()}, ["a is missing", "b is missing", "c is not in the contract"]),
    ],
)
def test_schema_breaches(found: dict[str, pl.DataType], breaches: list[str]) -> None:
    assert schema_breaches(found, CONTRACT) == breaches


def test_conform_orders_types_and_drops() -> None:
    frame = pl.DataFrame({"extra": [1], "b": [["x"]], "a": [1]}, schema_overrides={"a": pl.Int8})
    assert dict(conform(frame, CONTRACT).schema) == CONTRACT


@pytest.mark.parametrize("frame", [pl.DataFrame({"a": [1]}), pl.DataFrame({"a": ["one"], "b": [["x"]]})])
def test_conform_refuses_what_does_not_fit_in_one_line(frame: pl.DataFrame) -> None:
    with pytest.raises(FeedbackError, match=r"^a table does not fit its contract: .+$") as caught:
        conform(frame, CONTRACT)
    assert "\n" not in str(caught.value)


def test_every_table_of_a_day_has_its_partition_column() -> None:
    of_no_day = [name for name, schema in TABLES.items() if schema.get("partition_date") != pl.Date()]
    assert of_no_day == ["anomaly_model", "model_promotions"]
