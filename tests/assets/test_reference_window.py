"""Which days the anomaly model is fitted on; no server is needed to look at tables."""

from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pytest

from platform_assets.assets.anomaly_model import reference_days, reference_window
from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.tables import FEEDBACK_EMBEDDINGS
from platform_assets.domain.thresholds import AnomalyModelLimits
from resources.delta_lake import DeltaLakeResource

FIRST = date(2026, 9, 1)
LIMITS = AnomalyModelLimits(
    reference_days=3,
    min_reference_vectors=20,
    vectors_per_cell=2,
    max_cells=5,
    false_alarm_rate=0.1,
    reason="small enough to count",
)


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLakeResource:
    return DeltaLakeResource(root=str(tmp_path))


def store(lake: DeltaLakeResource, offset: int, texts: list[str], version: str = "1", file_hash: str = "e1") -> None:
    day = FIRST + timedelta(offset)
    rows = [
        {
            "feedback_id": f"{offset}-{number}",
            "partition_date": day,
            "content_hash": text,
            "embedding": [1.0, 0.0],
            "status": "ok",
            "model_version": version,
            "model_hash": file_hash,
        }
        for number, text in enumerate(texts)
    ]
    lake.replace("feedback_embeddings", pl.DataFrame(rows, schema=FEEDBACK_EMBEDDINGS), {"partition_date": day})


def offsets(lake: DeltaLakeResource) -> tuple[list[int], int]:
    """The window's days, counted from the first, and its different texts."""
    found = reference_days(lake, LIMITS)
    assert found is not None
    return [(day - FIRST).days for day in found.days], found.distinct


@pytest.mark.parametrize(
    ("texts_a_day", "days", "distinct"),
    [(10, [0, 1, 2], 30), (7, [0, 1, 2], 21), (5, [0, 1, 2, 4], 20), (4, [0, 1, 2, 4, 5], 20), (2, None, 14)],
)
def test_the_window_grows_until_it_holds_enough_different_texts(
    lake: DeltaLakeResource, texts_a_day: int, days: list[int] | None, distinct: int
) -> None:
    for offset in (5, 4, 2, 1, 0, 6, 7):
        store(lake, offset, [f"{offset}-{number}" for number in range(texts_a_day)])
    assert offsets(lake) == (days or [0, 1, 2, 4, 5, 6, 7], distinct)
    window = reference_window(lake, LIMITS)
    assert window.rows.height == distinct
    assert window.vectors.shape == (distinct, 2)


def test_a_text_that_recurs_counts_once_and_stands_in_the_window_each_time(lake: DeltaLakeResource) -> None:
    for offset in range(6):
        store(lake, offset, [*"ab", *(f"{offset}-{number}" for number in range(4))])
    assert offsets(lake) == ([0, 1, 2, 3, 4], 22)
    assert reference_window(lake, LIMITS).rows.height == 30


@pytest.mark.parametrize("newest", [("10", "e1"), ("9", "e2")])
def test_vectors_of_an_earlier_encoder_are_left_out(lake: DeltaLakeResource, newest: tuple[str, str]) -> None:
    store(lake, 0, [f"0-{number}" for number in range(30)], "9", "e1")
    for offset in (1, 2):
        store(lake, offset, [f"{offset}-{number}" for number in range(30)], *newest)
    assert offsets(lake) == ([1, 2], 60)
    window = reference_window(lake, LIMITS)
    assert (window.embedder_version, window.embedder_hash) == newest
    assert {str(identity)[0] for identity in window.rows["feedback_id"]} == {"1", "2"}


def test_without_vectors_there_is_no_window(lake: DeltaLakeResource) -> None:
    assert reference_days(lake, LIMITS) is None
    store(lake, 0, [])
    assert reference_days(lake, LIMITS) is None
    with pytest.raises(FeedbackError, match="there are no vectors yet: materialize feedback_embeddings first"):
        reference_window(lake, LIMITS)
