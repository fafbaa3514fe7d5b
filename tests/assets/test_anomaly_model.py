"""Fitting, serving and scoring with the anomaly model, on a real server."""

from datetime import date
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from platform_assets.current_model import DETECTOR
from platform_assets.domain.tables import ANOMALY_MODEL
from resources.model_repository import ModelRepository
from tests.assets.conftest import DAYS
from tests.project import Project, failed_checks, failure_line, materialized

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def fitted(two_days: Project) -> Project:
    """The two days with a model fitted on them."""
    limits = {"min_reference_vectors: 100": "min_reference_vectors: 40", "alarm_rate: 0.01": "alarm_rate: 0.3"}
    for shipped, small in limits.items():
        two_days.edit("thresholds", lambda text, shipped=shipped, small=small: text.replace(shipped, small))
    run = two_days.run(None, "anomaly_model")
    assert run.success
    return two_days


def test_the_model_is_stored_and_served(fitted: Project) -> None:
    cells = fitted.lake.scan("anomaly_model").collect()
    assert dict(cells.schema) == ANOMALY_MODEL
    version = cells["model_version"].unique().item()
    assert str(version) in fitted.triton.metadata(DETECTOR).versions
    assert cells["cell"].sort().to_list() == list(range(cells.height))
    assert (cells["reference_from"].unique().item(), cells["reference_to"].unique().item()) == (DAYS[0], DAYS[-1])
    reference = fitted.lake.scan("feedback_embeddings").filter(pl.col("status") == "ok").collect()
    assert cells["reference_rows"].unique().item() == reference.height
    assert cells["cell_size"].sum() == reference["content_hash"].n_unique()
    assert set(cells["nearest_feedback_id"]) <= set(reference["feedback_id"])
    card = ModelRepository(Path(fitted.triton.repository)).card(DETECTOR, version)
    assert cells["model_hash"].unique().to_list() == [card.files["model.onnx"][:16]]
    assert cells.select("embedder_version", "embedder_hash").unique().rows() == (
        reference.select("model_version", "model_hash").unique().rows()
    )


def test_fitting_the_same_again_makes_no_new_version(fitted: Project) -> None:
    repository = ModelRepository(Path(fitted.triton.repository))
    before, cells = repository.versions(DETECTOR), fitted.lake.scan("anomaly_model").collect()
    assert fitted.run(None, "anomaly_model").success
    assert repository.versions(DETECTOR) == before
    assert_frame_equal(fitted.lake.scan("anomaly_model").collect(), cells, check_row_order=False)


def test_a_day_that_is_run_again_is_scored(fitted: Project) -> None:
    run = fitted.run(DAYS[0])
    assert run.success
    scores = fitted.rows("anomaly_scores", DAYS[0])
    readable = fitted.rows("feedback_embeddings", DAYS[0])["status"] == "ok"
    scored = scores.filter(readable)
    assert scored["score"].is_between(-1e-5, 2).all()
    assert (scored["is_anomaly"] == (scored["score"] > scored["threshold"])).all()
    assert scored["nearest_feedback_id"].null_count() == 0
    model = fitted.lake.scan("anomaly_model").select("model_version", "model_hash").unique().collect()
    named = scores.select("model_name", pl.col("model_version").cast(pl.Int64), "model_hash").unique()
    assert named.rows() == [(DETECTOR, *model.row(0))], "a row without a vector was looked at, too"
    assert scores.filter(~readable)["score"].null_count() == (~readable).sum()


def test_an_anomaly_is_deferred_in_the_same_run(fitted: Project) -> None:
    header = "Order Nr.,Review Text (full),Date/Time,Stars (1-5),Customer #,Lang\n"
    stranger = "The train to Hamburg left from another platform and the conductor was wonderful and I love him"
    fitted.land(date(2026, 9, 20), "shop_reviews_1.csv", f"{header}0001,{stranger},2026-09-20 10:00,5,C,en\n")
    assert fitted.run(date(2026, 9, 20)).success
    assert fitted.rows("anomaly_scores", date(2026, 9, 20))["is_anomaly"].to_list() == [True]
    row = fitted.rows("normalized_feedback", date(2026, 9, 20)).row(0, named=True)
    assert (row["status"], row["route_reason"]) == ("deferred", "anomaly")


@pytest.mark.parametrize("other_encoder", [("99", None), (None, "0123456789abcdef")])
def test_vectors_of_another_encoder_are_refused_with_what_to_do(
    fitted: Project, other_encoder: tuple[str | None, str | None]
) -> None:
    day = date(2026, 9, 21)
    known = fitted.rows("feedback_embeddings", DAYS[0]).select("model_version", "model_hash").row(0)
    version, file_hash = (given or same for given, same in zip(other_encoder, known, strict=True))
    other = fitted.rows("feedback_embeddings", DAYS[0]).with_columns(
        partition_date=pl.lit(day), model_version=pl.lit(version), model_hash=pl.lit(file_hash)
    )
    raw = fitted.rows("raw_feedback", DAYS[0]).with_columns(partition_date=pl.lit(day))
    fitted.lake.replace("feedback_embeddings", other, {"partition_date": day})
    fitted.lake.replace("raw_feedback", raw, {"partition_date": day})
    scoring = fitted.run(day, "anomaly_scores")
    assert failure_line(scoring, "anomaly_scores") == (
        f"the vectors come from text_embedder {version} {file_hash}, the anomaly model was fitted on "
        f"{' '.join(known)}: run `feedback run --select anomaly_model`"
    )
    assert materialized(scoring) == set()
    scores = fitted.rows("anomaly_scores", DAYS[0]).with_columns(partition_date=pl.lit(day))
    fitted.lake.replace("anomaly_scores", scores, {"partition_date": day})
    normalizing = fitted.run(day, "normalized_feedback")
    assert failure_line(normalizing, "normalized_feedback") == (
        f"the day's vectors come from text_embedder {version} {file_hash}, {' '.join(known)} serves now: "
        "materialize feedback_embeddings of this day again"
    )
    assert fitted.rows("normalized_feedback", day).is_empty()
    fitted.lake.replace("feedback_embeddings", other.clear(), {"partition_date": day})


def test_a_fit_after_its_versions_were_lost_gets_a_number_of_its_own_and_scores(fitted: Project) -> None:
    repository = ModelRepository(Path(fitted.triton.repository))
    before = int(fitted.lake.scan("anomaly_model").select(pl.col("model_version").max()).collect().item())
    for version in repository.versions(DETECTOR):
        repository.remove_version(DETECTOR, version)
    assert fitted.run(None, "anomaly_model").success
    assert repository.versions(DETECTOR) == [before + 1]
    assert fitted.run(DAYS[0]).success
    scores = fitted.rows("anomaly_scores", DAYS[0])
    assert scores["model_version"].unique().to_list() == [str(before + 1)]
    assert scores["score"].null_count() < scores.height


@pytest.mark.parametrize(
    ("with_vectors", "says"), [(False, "there are no vectors yet"), (True, "distinct vectors, 100 are needed")]
)
def test_a_fit_without_enough_to_learn_from_says_so_and_writes_nothing(
    project: Project, two_days: Project, with_vectors: bool, says: str
) -> None:
    if with_vectors:
        project.lake.replace(
            "feedback_embeddings", two_days.rows("feedback_embeddings", DAYS[0]), {"partition_date": DAYS[0]}
        )
    run = project.run(None, "anomaly_model")
    assert says in failure_line(run, "anomaly_model")
    assert not project.lake.exists("anomaly_model")
    assert failed_checks(run) == []
