"""What is sent for vectors, what is not sent again, and what becomes of texts that a model fails on."""

import csv
import io
import weakref
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from platform_assets.assets.feedback_embeddings import Part, embedded
from platform_assets.stored_vectors import HashRange, Model, StoredVectors, hash_ranges
from resources.text_encoder import TextEncoder
from resources.triton import TritonResource
from tests.project import Project, failed_checks, make_project

pytestmark = pytest.mark.integration

DAY, NEXT = date(2026, 9, 1), date(2026, 9, 2)
RAW = ("raw_feedback", "quarantined_feedback", "landed_files")


def reviews(texts: Iterable[str], first: int = 1) -> str:
    content = io.StringIO()
    writer = csv.writer(content)
    writer.writerow(["Order Nr.", "Review Text (full)", "Date/Time", "Stars (1-5)", "Customer #", "Lang"])
    writer.writerows([number, text, "2026-09-01 10:00", 1, "C1", "en"] for number, text in enumerate(texts, first))
    return content.getvalue()


def embed(project: Project, day: date, texts: Iterable[str]) -> dict[str, Any]:
    """Land the texts as the day's only file and run the day up to its vectors; what the materialization says."""
    project.land(day, f"shop_reviews_{day}.csv", reviews(texts))
    assert project.run(day, *RAW).success
    return vectors(project, day)


def vectors(project: Project, day: date) -> dict[str, Any]:
    run = project.run(day, "feedback_embeddings")
    assert run.success, run.all_events[-1].message
    [made] = [one for one in run.get_asset_materialization_events() if one.asset_key == dg.AssetKey(EMBEDDINGS)]
    found = made.materialization.metadata
    return {name: found[name].value for name in ("texts_sent", "texts_reused", "texts_resumed", "texts_failed")}


EMBEDDINGS = "feedback_embeddings"
TEXTS = [f"the lamp number {number} is broken" for number in range(40)]


@pytest.fixture
def project(tmp_path: Path, triton: TritonResource) -> Project:
    project = make_project(tmp_path, triton)
    project.edit("platform", lambda text: text.replace("chunk_rows: 16384", "chunk_rows: 8"))
    return project


def test_a_day_in_chunks_is_the_day_as_a_whole(project: Project, tmp_path: Path, triton: TritonResource) -> None:
    # Equal texts, texts without a word, and a text of its own in each chunk.
    texts = [*TEXTS, *TEXTS[:10], " ", "\u200b"]
    told = embed(project, DAY, texts)
    assert told == {"texts_sent": 40, "texts_reused": 0, "texts_resumed": 0, "texts_failed": 0}
    whole = make_project(tmp_path / "whole", triton)
    embed(whole, DAY, texts)
    rows = project.rows(EMBEDDINGS, DAY)
    assert rows.height == len(texts)
    assert_frame_equal(rows, whole.rows(EMBEDDINGS, DAY), abs_tol=1e-6)
    stored = project.lake.scan_partition(EMBEDDINGS, DAY).collect()
    assert stored["content_hash"].is_sorted()
    assert not any((Path(project.lake.root) / EMBEDDINGS / "_unfinished").rglob("*.parquet"))


def test_only_texts_without_a_stored_vector_are_sent(project: Project) -> None:
    embed(project, DAY, TEXTS)
    before = project.rows(EMBEDDINGS, DAY)
    assert vectors(project, DAY)["texts_sent"] == 0
    assert_frame_equal(project.rows(EMBEDDINGS, DAY), before)
    told = embed(project, DAY, ["this one is new", *TEXTS[1:]])
    assert (told["texts_sent"], told["texts_reused"]) == (1, 39)
    told = embed(project, NEXT, ["so is this", *TEXTS[20:]])
    assert (told["texts_sent"], told["texts_reused"]) == (1, 20)
    again = project.rows(EMBEDDINGS, NEXT).join(before, on="content_hash", suffix="_before")
    assert again.height == 20
    assert (again["embedding"] == again["embedding_before"]).all()


def test_days_that_lie_too_far_back_are_not_looked_at(project: Project) -> None:
    project.edit("platform", lambda text: text.replace("reuse_days: 30", "reuse_days: 0"))
    embed(project, DAY, TEXTS)
    assert embed(project, NEXT, [*TEXTS, "one more"])["texts_sent"] == 41
    assert vectors(project, NEXT)["texts_reused"] == 41


def test_vectors_of_another_model_are_not_taken(project: Project) -> None:
    embed(project, DAY, TEXTS)
    rows = project.lake.scan_partition(EMBEDDINGS, DAY).collect()
    project.lake.replace(EMBEDDINGS, rows.with_columns(model_hash=pl.lit("other")), {"partition_date": DAY})
    assert vectors(project, DAY)["texts_sent"] == 40
    assert project.rows(EMBEDDINGS, DAY)["model_hash"].unique().to_list() == rows["model_hash"].unique().to_list()


def test_a_text_that_the_model_fails_on_says_why_and_is_asked_for_again(
    tmp_path: Path, picky_triton: TritonResource
) -> None:
    project = make_project(tmp_path, picky_triton)
    told = embed(project, DAY, ["no!", *TEXTS])
    # The toy's vectors are not of unit length, so that all of them fail, each with its reason.
    assert told["texts_failed"] == told["texts_sent"] == 41
    rows = project.rows(EMBEDDINGS, DAY)
    assert set(rows["status"]) == {"failed"}
    assert rows["embedding"].null_count() == 41
    assert rows["failure"].str.contains("a ! is too much").sum() == 1
    assert rows["failure"].str.contains("of length").sum() == 40
    assert vectors(project, DAY)["texts_sent"] == 41
    assert failed_checks(project.run(DAY)) != []


@pytest.mark.parametrize("count", [1, 2, 7, 61])
def test_ranges_hold_each_hash_once(count: int) -> None:
    ranges = hash_ranges(count)
    assert len(ranges) == count
    hashes = pl.DataFrame({"content_hash": ["0000", "0" * 64, "7fff9", "8000", "f" * 64]})
    held = [hashes.filter(within.holds()).height for within in ranges]
    assert sum(held) == hashes.height
    neighbours = [[one.meets(other) for other in ranges] for one in ranges]
    assert all(row == [index == place for place in range(count)] for index, row in enumerate(neighbours))


def test_what_a_killed_run_left_is_found_by_model_and_range_and_forgotten(project: Project) -> None:
    model, other = Model("text_embedder", "1", "aa"), Model("text_embedder", "2", "bb")
    left = pl.DataFrame(
        {
            "content_hash": ["10", "90"],
            "embedding": [[1.0, 0.0], [0.0, 1.0]],
            "token_count": [3, 4],
            "truncated": False,
        },
        schema_overrides={"embedding": pl.List(pl.Float32), "token_count": pl.Int32},
    )
    for number, within in enumerate(hash_ranges(2)):
        StoredVectors(project.lake, DAY, model, 0).keep(left[number : number + 1], within)
    everything = HashRange("", None)
    wanted = left["content_hash"]
    found, resumed = StoredVectors(project.lake, DAY, model, 0).of(wanted, everything)
    assert_frame_equal(found.sort("content_hash"), left)
    assert resumed == 2
    upper, _ = StoredVectors(project.lake, DAY, model, 0).of(wanted[1:], hash_ranges(2)[1])
    assert upper["content_hash"].to_list() == ["90"]
    assert StoredVectors(project.lake, DAY, other, 0).of(wanted, everything)[1] == 0
    assert StoredVectors(project.lake, NEXT, model, 0).of(wanted, everything)[1] == 0
    StoredVectors(project.lake, DAY, other, 0).forget()
    assert StoredVectors(project.lake, DAY, model, 0).of(wanted, everything)[1] == 0


@pytest.mark.parametrize("new", [[], [59], list(range(30, 60)), list(range(60))], ids=["none", "last", "half", "all"])
def test_a_day_is_never_in_memory_as_a_whole(new: list[int], triton: TritonResource) -> None:
    made: list[weakref.ref[Part]] = []
    ranges = hash_ranges(60)
    nothing = pl.DataFrame(schema={"text": pl.String})

    def parts() -> Iterator[Part]:
        for number, within in enumerate(ranges):
            texts = pl.DataFrame({"text": ["a new one"]}) if number in new else nothing
            part = Part(within, nothing, nothing, 0, texts)
            made.append(weakref.ref(part))
            yield part
            del part

    most, given = 0, []
    for part, encoded in embedded(parts(), TextEncoder(triton)):
        assert (encoded is None) == part.new.is_empty()
        given.append(part.within)
        most = max(most, sum(one() is not None for one in made))
        del part
    assert given == ranges
    # Those under way, one that is tokenized meanwhile, one that was just read, and the one that was given away.
    assert most <= triton.in_flight + 3
