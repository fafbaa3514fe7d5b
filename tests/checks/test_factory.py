import base64
import math
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from xml.etree import ElementTree

import dagster as dg
import polars as pl
import pytest

from platform_assets.checks import anomaly_scores, feedback_embeddings, normalized_feedback, raw_feedback
from platform_assets.checks.factory import Check, Day, checks_of, limited, schema_check, structure
from platform_assets.domain.measurement import Measurement
from platform_assets.domain.thresholds import CheckLimits, Limit
from platform_assets.partitions import ARRIVAL_DAYS
from resources.delta_lake import DeltaLakeResource
from tests.checks.conftest import DAY, Store, frame

FIRST = date(2026, 9, 1)
LIMIT = Limit(limit=0.5, reason="half is too much", min_rows=10)


def measuring(value: float | None, rows: int = 20) -> Callable[[Day], Measurement]:
    return lambda _: Measurement(value=value, limit=99, rows=rows, what="share", reason="", examples=["like this"])


def evaluate(
    *checks: Check, instance: dg.DagsterInstance | None = None, day: date = FIRST, lake: DeltaLakeResource | None = None
) -> dg.ExecuteInProcessResult:
    """Run the checks of an asset that does nothing, followed by one that depends on it."""

    @dg.asset(partitions_def=ARRIVAL_DAYS)
    def table() -> None: ...

    @dg.asset(partitions_def=ARRIVAL_DAYS, deps=[table])
    def downstream() -> None: ...

    definitions = dg.Definitions(
        assets=[table, downstream],
        asset_checks=[checks_of("table", checks)],
        resources={"lake": lake or DeltaLakeResource(root="nowhere")},
        executor=dg.in_process_executor,
    )
    return definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance or dg.DagsterInstance.ephemeral(), partition_key=day.isoformat(), raise_on_error=False
    )


def result_of(run: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    (evaluation,) = run.get_asset_check_evaluations()
    return evaluation


def downstream_ran(run: dg.ExecuteInProcessResult) -> bool:
    return any(event.asset_key == dg.AssetKey("downstream") for event in run.get_asset_materialization_events())


@pytest.mark.parametrize(
    ("value", "severity", "passed", "goes_on"),
    [
        (0.5, "warn", True, True),
        (0.6, "warn", False, True),
        (0.5, "block", True, True),
        (0.6, "block", False, False),
        (math.nan, "block", False, False),
        (math.inf, "warn", False, True),
    ],
)
def test_the_owner_says_what_blocks(value: float, severity: str, passed: bool, goes_on: bool) -> None:
    limit = LIMIT.model_copy(update={"severity": severity})
    run = evaluate(limited("share", "A share.", measuring(value), limit))
    evaluation = result_of(run)
    assert evaluation.passed is passed
    assert evaluation.severity is (dg.AssetCheckSeverity.ERROR if severity == "block" else dg.AssetCheckSeverity.WARN)
    assert (downstream_ran(run), run.success) == (goes_on, goes_on)


@pytest.mark.parametrize(("value", "passed"), [(0, True), (1, False)])
def test_structure_always_blocks(value: int, passed: bool) -> None:
    run = evaluate(structure("whole", "It is whole.", lambda _: Measurement(value, 0, 5, "breaches", "structure")))
    evaluation = result_of(run)
    assert (evaluation.passed, evaluation.severity) == (passed, dg.AssetCheckSeverity.ERROR)
    assert downstream_ran(run) is passed


def test_value_limit_and_verdict_stand_together() -> None:
    evaluation = result_of(evaluate(limited("share", "A share.", measuring(0.6), LIMIT)))
    metadata = {name: value.value for name, value in evaluation.metadata.items()}
    assert metadata.pop("plot").startswith("![share by day](data:image/svg+xml;base64,")
    assert metadata == {
        "value": 0.6,
        "limit": 0.5,
        "verdict": "failed",
        "rows": 20,
        "min_rows": 10,
        "reason": "half is too much",
        "day": "2026-09-01",
        "examples": ["like this"],
    }
    assert evaluation.description == "share: 0.6 > 0.5 (20 rows)"
    assert evaluation.partition == "2026-09-01"


def test_what_customers_wrote_is_data_and_no_markdown() -> None:
    evaluation = result_of(evaluate(limited("share", "A share.", measuring(0.6), LIMIT)))
    assert evaluation.metadata["examples"] == dg.MetadataValue.json(["like this"])


@pytest.mark.parametrize(("value", "rows"), [(0.9, 9), (None, 20), (None, 0)])
def test_too_little_data_neither_fails_nor_pretends(value: float | None, rows: int) -> None:
    run = evaluate(limited("share", "A share.", measuring(value, rows), LIMIT.model_copy(update={"severity": "block"})))
    evaluation = result_of(run)
    assert evaluation.passed
    assert evaluation.metadata["verdict"].value == "not enough data"
    assert ("value" in evaluation.metadata) is (value is not None)
    assert (evaluation.description or "").startswith("not enough data for share")
    assert downstream_ran(run)


def picture_in(evaluation: dg.AssetCheckEvaluation) -> ElementTree.Element:
    encoded = str(evaluation.metadata["plot"].value).split("base64,")[1].removesuffix(")")
    return ElementTree.fromstring(base64.b64decode(encoded, validate=True))  # noqa: S314


def values_drawn(svg: ElementTree.Element) -> dict[str, str]:
    titles = [title.text or "" for title in svg.iter("{http://www.w3.org/2000/svg}title")]
    return dict(title.split(": ") for title in titles)


def test_the_picture_shows_the_newest_value_of_each_of_thirty_days() -> None:
    instance = dg.DagsterInstance.ephemeral()
    for offset in range(34):
        value = 0.1 + offset / 100
        evaluate(
            limited("share", "A share.", measuring(value), LIMIT), instance=instance, day=FIRST + timedelta(offset)
        )
    again = FIRST + timedelta(20)
    for day, value in ((again, 0.9), (FIRST + timedelta(33), 0.43)):
        last = evaluate(limited("share", "A share.", measuring(value), LIMIT), instance=instance, day=day)
    drawn = values_drawn(picture_in(result_of(last)))
    assert list(drawn) == [str(FIRST + timedelta(offset)) for offset in range(4, 34)]
    assert drawn[str(again)] == "0.9"
    assert drawn["2026-10-04"] == "0.43"


@pytest.mark.parametrize("value", [math.nan, math.inf, -3.0, 0.0])
def test_any_number_makes_a_valid_picture(value: float) -> None:
    svg = picture_in(result_of(evaluate(limited("share", "A share.", measuring(value), LIMIT))))
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(values_drawn(svg)) == int(math.isfinite(value))


def test_an_error_of_the_infrastructure_raises_and_stops_what_follows() -> None:
    def broken(_: Day) -> Measurement:
        raise OSError("the disk is gone")

    run = evaluate(limited("share", "A share.", broken, LIMIT), structure("whole", "It is whole.", measuring(0)))
    assert not run.success
    assert "share" not in {one.check_name for one in run.get_asset_check_evaluations()}
    assert not downstream_ran(run)


def test_a_check_without_its_table_says_what_to_do(tmp_path: Path) -> None:
    lake = DeltaLakeResource(root=str(tmp_path))
    run = evaluate(schema_check("raw_feedback"), lake=lake)
    failure = run.failure_data_for_node("table_checks")
    assert failure is not None
    assert failure.user_failure_data is not None
    assert "there is no table raw_feedback" in (failure.user_failure_data.description or "")
    assert not downstream_ran(run)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda frame: frame, []),
        (lambda frame: frame.drop("flags"), ["flags is missing"]),
        (lambda frame: frame.with_columns(extra=pl.lit(1)), ["extra is not in the contract"]),
        (
            lambda frame: frame.with_columns(rating=pl.lit("5")),
            ["rating is String, the contract says Float64"],
        ),
    ],
)
def test_a_stored_table_is_held_against_its_contract(
    store: Store, change: Callable[[pl.DataFrame], pl.DataFrame], found: list[str]
) -> None:
    day = store()
    day.lake.replace("raw_feedback", change(frame("raw_feedback", [{"feedback_id": "1"}])), {"partition_date": DAY})
    measured = schema_check("raw_feedback").measure(day)
    assert (measured.examples, measured.value) == (found, len(found))


def test_every_limit_of_the_file_reaches_its_check(limits: CheckLimits) -> None:
    everything = CheckLimits.model_validate(
        {name: limit.model_copy(update={"severity": "block"}).model_dump() for name, limit in limits}
    )
    modules = (raw_feedback, feedback_embeddings, anomaly_scores, normalized_feedback)
    warning = {check.name for module in modules for check in module.checks(limits) if not check.blocking}
    assert warning == set(CheckLimits.model_fields)
    assert all(check.blocking for module in modules for check in module.checks(everything))
