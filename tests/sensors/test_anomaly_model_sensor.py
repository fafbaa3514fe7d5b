import uuid
from datetime import UTC, date, datetime, timedelta

import dagster as dg
import polars as pl
import pytest

from platform_assets.current_model import DETECTOR
from platform_assets.domain.tables import ANOMALY_MODEL, FEEDBACK_EMBEDDINGS
from platform_assets.sensors.anomaly_model_sensor import ATTEMPTS, SIZE_TAG, anomaly_model_sensor
from platform_assets.settings import SettingsResource
from resources.model_repository import ModelCard, ModelRepository
from tests.project import Project

DAY = date(2026, 9, 1)


def look(project: Project) -> object:
    return anomaly_model_sensor(
        dg.build_sensor_context(
            instance=project.instance, resources={"settings": SettingsResource(project=str(project.root))}
        )
    )


def store_vectors(project: Project, day: date, contents: list[str], status: str = "ok") -> None:
    encoder = {"status": status, "model_version": "1", "model_hash": "e1"}
    rows = [{"feedback_id": str(n), "content_hash": one, **encoder} for n, one in enumerate(contents)]
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
    assert answer.run_key == "first-fit:100:1"
    assert answer.tags[SIZE_TAG] == "100"
    assert answer.partition_key is None


def test_a_fit_is_tried_so_often_on_the_same_texts_then_a_person_is_asked(project: Project) -> None:
    store_vectors(project, DAY, [str(n) for n in range(100)])
    keys = []
    for _ in range(ATTEMPTS):
        answer = look(project)
        assert isinstance(answer, dg.RunRequest)
        keys.append(answer.run_key)
        run = project.instance.add_run(
            dg.DagsterRun(
                job_name="fit_anomaly_model",
                run_id=str(uuid.uuid4()),
                tags=answer.tags,
                status=dg.DagsterRunStatus.STARTED,
            )
        )
        answer = look(project)
        assert isinstance(answer, dg.SkipReason)
        assert answer.skip_message == "a fit is under way"
        project.instance.report_run_failed(run)
    assert len(set(keys)) == ATTEMPTS, "a run key is good for one run only"
    answer = look(project)
    assert isinstance(answer, dg.SkipReason)
    assert "tried 3 times without success" in (answer.skip_message or "")
    store_vectors(project, DAY + timedelta(1), ["one more"])
    assert isinstance(look(project), dg.RunRequest), "a larger window is a new matter"


def test_a_model_whose_file_is_gone_is_fitted_again(project: Project) -> None:
    repository = project.root / "none"
    (repository / DETECTOR).mkdir(parents=True)
    (repository / DETECTOR / "config.pbtxt").touch()
    store_vectors(project, DAY, [str(n) for n in range(200)])
    card = ModelCard(source="a test", created_at=datetime.now(UTC))
    version = ModelRepository(repository).add_version(DETECTOR, {"model.onnx": b"graph"}, card, above=4)
    for number in (4, version):
        model = pl.DataFrame([{"model_version": number}], schema=ANOMALY_MODEL)
        project.lake.replace("anomaly_model", model, {"model_version": number})
    answer = look(project)
    assert isinstance(answer, dg.SkipReason)
    assert answer.skip_message == "the anomaly model is fitted"
    ModelRepository(repository).remove_version(DETECTOR, version)
    assert isinstance(look(project), dg.RunRequest)


def test_a_fitted_model_on_a_server_elsewhere_is_left_to_people(project: Project) -> None:
    store_vectors(project, DAY, [str(n) for n in range(200)])
    model = pl.DataFrame([{"model_version": 1}], schema=ANOMALY_MODEL)
    project.lake.replace("anomaly_model", model, {"model_version": 1})
    answer = look(project)
    assert isinstance(answer, dg.SkipReason)
    assert answer.skip_message == "the anomaly model is fitted"
