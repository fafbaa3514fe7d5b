from datetime import date, timedelta

import dagster as dg
import polars as pl
import pytest

from platform_assets.domain.tables import ANOMALY_MODEL, FEEDBACK_EMBEDDINGS
from platform_assets.sensors.anomaly_model_sensor import anomaly_model_sensor
from platform_assets.settings import SettingsResource
from tests.project import Project

DAY = date(2026, 9, 1)


def look(project: Project) -> object:
    return anomaly_model_sensor(
        dg.build_sensor_context(
            instance=project.instance, resources={"settings": SettingsResource(project=str(project.root))}
        )
    )


def store_vectors(project: Project, day: date, contents: list[str], status: str = "ok") -> None:
    rows = [{"feedback_id": str(n), "content_hash": one, "status": status} for n, one in enumerate(contents)]
    frame = pl.DataFrame(rows, schema=FEEDBACK_EMBEDDINGS).with_columns(partition_date=pl.lit(day))
    project.lake.replace("feedback_embeddings", frame, {"partition_date": day})


@pytest.mark.parametrize(
    ("contents", "status", "held"),
    [([], "ok", 0), (list("abcab"), "ok", 3), ([str(n) for n in range(200)], "failed", 0)],
)
def test_too_few_distinct_vectors_are_counted(project: Project, contents: list[str], status: str, held: int) -> None:
    store_vectors(project, DAY, contents, status)
    answer = look(project)
    assert isinstance(answer, dg.SkipReason)
    assert answer.skip_message == f"{held} of 100 different texts for the reference window"


def test_without_a_table_there_are_none(project: Project) -> None:
    answer = look(project)
    assert isinstance(answer, dg.SkipReason)
    assert answer.skip_message == "0 of 100 different texts for the reference window"


def test_enough_vectors_over_several_days_start_the_fit(project: Project) -> None:
    for offset in range(2):
        store_vectors(project, DAY + timedelta(offset), [f"{offset}-{n}" for n in range(50)])
    answer = look(project)
    assert isinstance(answer, dg.RunRequest)
    assert answer.run_key == "first-fit:100"
    assert answer.partition_key is None


def test_a_fitted_model_is_left_to_people(project: Project) -> None:
    store_vectors(project, DAY, [str(n) for n in range(200)])
    model = pl.DataFrame([{"model_version": 1}], schema=ANOMALY_MODEL)
    project.lake.replace("anomaly_model", model, {"model_version": 1})
    answer = look(project)
    assert isinstance(answer, dg.SkipReason)
    assert answer.skip_message == "the anomaly model is fitted"
