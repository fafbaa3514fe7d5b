"""The sample feedback: it is what its README says, and the local tier does on it what the thresholds promise."""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from platform_assets.assets.normalized_feedback import taxonomy_prototypes
from platform_assets.domain.anomaly_model import fit_anomaly_model, novelty
from platform_assets.domain.categories import Prototypes
from platform_assets.domain.normalized_feedback import normalize
from platform_assets.domain.raw_feedback import Reason, sendable
from platform_assets.domain.vectors import column
from platform_assets.settings import Settings
from resources.record_files.batches import FileKind, RecordFormat
from resources.text_encoder import TextEncoder
from resources.triton import TritonResource
from tests.project import Project, make_project

DAYS = [date(2026, 9, 1) + timedelta(days=number) for number in range(14)]
REFERENCE_DAYS = DAYS[:7]
DRIFTED_DAY = date(2026, 9, 13)
INGESTION = ("raw_feedback", "quarantined_feedback", "landed_files")
KEY = ["source", "source_record_id"]


@pytest.fixture(scope="module")
def readme(project_root: Path) -> str:
    return (project_root / "samples/README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def truth(project_root: Path) -> pl.DataFrame:
    return pl.read_csv(project_root / "samples/truth.csv", infer_schema=False).with_columns(
        pl.col("landing_date").str.to_date(), pl.col("note").fill_null("")
    )


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """All fourteen days, read and filed; this needs no server."""
    project = make_project(tmp_path_factory.mktemp("samples"), TritonResource(repository="none"))
    project.land_samples(DAYS)
    for day in DAYS:
        assert project.run(day, *INGESTION).success
    return project


@pytest.fixture(scope="module")
def raw(ingested: Project) -> pl.DataFrame:
    return ingested.lake.scan("raw_feedback").collect()


@pytest.fixture(scope="module")
def dead(ingested: Project) -> pl.DataFrame:
    return ingested.lake.scan("quarantined_feedback").collect()


@pytest.fixture(scope="module")
def ledger(ingested: Project) -> pl.DataFrame:
    return ingested.lake.scan("landed_files").collect()


def number_in(readme: str, pattern: str) -> int:
    found = re.search(pattern, readme)
    assert found, pattern
    return int(found.group(1))


def test_there_is_enough_of_it(raw: pl.DataFrame, ledger: pl.DataFrame) -> None:
    assert sorted(ledger["partition_date"].unique()) == DAYS
    assert ledger["records"].sum() >= 500
    assert raw.filter(sendable())["text"].n_unique() >= 300
    assert {FileKind.of(uri) for uri in ledger["file_uri"]} == {
        FileKind(RecordFormat.CSV),
        FileKind(RecordFormat.JSONL),
        FileKind(RecordFormat.PARQUET),
    }


@pytest.mark.parametrize("source", ["shop_reviews", "helpdesk", "app_store"])
def test_the_readme_counts_the_files_and_rows_of_each_source(readme: str, ledger: pl.DataFrame, source: str) -> None:
    row = re.search(rf"\| `{source}_<date>\.\w+` \|[^|]*\| (\d+) \| (\d+) \|", readme)
    assert row
    files = ledger.filter(source=source)
    assert (files.height, files["records"].sum()) == (int(row[1]), int(row[2]))


def test_the_readme_counts_the_whole(
    readme: str, ledger: pl.DataFrame, raw: pl.DataFrame, dead: pl.DataFrame, truth: pl.DataFrame
) -> None:
    malformed = dead.filter(pl.col("reason") != Reason.SUPERSEDED.value)
    kept = raw.select(KEY).unique()
    valid = ledger["records"].sum() - malformed.height
    counted = {
        r"\| data rows \| (\d+) \|": ledger["records"].sum(),
        r"\| malformed \| (\d+) \|": malformed.height,
        r"\| valid \| (\d+) \|": valid,
        r"\| re-deliveries among the valid ones \| (\d+) \|": valid - kept.height,
        r"\| accepted records .* \| (\d+) \|": kept.height,
        r"\*\*(\d+) data rows\*\*": ledger["records"].sum(),
        r"data rows\*\* in (\d+) files": ledger.height,
        r"hold (\d+) distinct texts": raw.filter(sendable())["text"].n_unique(),
        r"English (\d+)": truth.filter(language="en").height,
        r"German (\d+)": truth.filter(language="de").height,
        r"Spanish (\d+)": truth.filter(language="es").height,
        r"Chinese (\d+)": truth.filter(language="zh").height,
    }
    assert {pattern: number_in(readme, pattern) for pattern in counted} == counted


def test_each_malformed_row_is_a_dead_letter_of_its_line(readme: str, dead: pl.DataFrame) -> None:
    named = re.findall(r"^\| `([\w.-]+)` \| (\d+) \| [a-z]", readme, re.MULTILINE)
    letters = dead.filter(pl.col("reason") != Reason.SUPERSEDED.value)
    found = [(Path(uri).name, str(line)) for uri, line in letters.select("file_uri", "line_no").iter_rows()]
    assert sorted(found) == sorted(named)
    assert len(named) == 13


def test_each_redelivery_leaves_the_last_version(readme: str, raw: pl.DataFrame, dead: pl.DataFrame) -> None:
    again = re.findall(r"^\| `([\w-]+)` \| .* \| `([\w.-]+)` \| [a-z ]+ \|$", readme, re.MULTILINE)
    assert len(again) == 16
    superseded = dead.filter(reason=Reason.SUPERSEDED.value).height
    over_days = raw.height - raw.select(KEY).unique().height
    assert superseded + over_days == 16
    for identity, file in again:
        last = raw.filter(source_record_id=identity).sort("partition_date")["file_uri"].to_list()[-1]
        assert Path(last).name == file


def test_the_truth_covers_each_record_once(raw: pl.DataFrame, truth: pl.DataFrame, ingested: Project) -> None:
    last = raw.group_by(KEY).agg(pl.col("partition_date").max().alias("landing_date"))
    assert truth.select(*KEY, "landing_date").sort(KEY).equals(last.sort(KEY).select(*KEY, "landing_date"))
    assert set(truth["category"]) <= {category.key for category in ingested.settings.taxonomy.categories}


def test_no_sample_is_an_example_of_the_taxonomy(raw: pl.DataFrame, ingested: Project) -> None:
    examples = {text for category in ingested.settings.taxonomy.categories for text in category.examples}
    assert examples.isdisjoint(raw["text"])


@dataclass(frozen=True)
class Labelled:
    """The records of truth.csv with what the local tier says of them."""

    rows: pl.DataFrame
    encoder: TextEncoder
    known: Prototypes
    settings: Settings


def label(feedback: pl.DataFrame, known: Prototypes, settings: Settings) -> pl.DataFrame:
    ranges = {name: source.rating_range for name, source in settings.sources.sources.items()}
    return normalize(feedback, known, settings.thresholds.local_tier, model="sample", rating_ranges=ranges)


@pytest.fixture(scope="module")
def labelled(ingested: Project, raw: pl.DataFrame, truth: pl.DataFrame, triton: TritonResource) -> Labelled:
    """The local tier as the assets run it, once over all days."""
    encoder = TextEncoder(triton)
    texts = raw.filter(sendable()).unique("content_hash", maintain_order=True)
    vectors = encoder.encode(texts["text"].to_list()).embeddings
    rows = raw.join(
        texts.select("content_hash").with_columns(embedding=column(vectors)), on="content_hash", how="left"
    ).with_columns(
        embedding_status=pl.when(pl.col("embedding").is_null()).then(pl.lit("no_text")).otherwise(pl.lit("ok"))
    )
    readable = rows.filter(embedding_status="ok")
    reference = readable.filter(pl.col("partition_date").is_in(REFERENCE_DAYS))
    model = fit_anomaly_model(
        np.stack(reference["embedding"].to_numpy()),
        reference["content_hash"].rank("dense").cast(pl.Int64).to_numpy(),
        reference["partition_date"].to_physical().cast(pl.Int64).to_numpy(),
        ingested.settings.thresholds.anomaly_model,
    )
    scores = novelty(np.stack(readable["embedding"].to_numpy()), model.centroids)
    anomalies = readable.select(*KEY, "partition_date").with_columns(
        is_anomaly=pl.Series(scores > model.threshold), novelty=pl.Series(scores)
    )
    rows = rows.join(anomalies, on=[*KEY, "partition_date"], how="left")
    last = rows.join(
        truth.select(*KEY, pl.col("landing_date").alias("partition_date")), on=[*KEY, "partition_date"], how="semi"
    )
    known = taxonomy_prototypes(ingested.settings.taxonomy, encoder)
    answers = label(last, known, ingested.settings).drop("partition_date")
    said = last.select("feedback_id", *KEY, "partition_date", "text", "rating", "is_anomaly", "novelty").join(
        answers, on="feedback_id"
    )
    judged = said.join(truth, on=KEY, suffix="_true")
    return Labelled(judged, encoder, known, ingested.settings)


def accuracy(rows: pl.DataFrame, label: str) -> float:
    return rows.select((pl.col(label) == pl.col(f"{label}_true")).fill_null(value=False).mean()).item()


@pytest.mark.integration
def test_every_record_is_labelled_once(labelled: Labelled, truth: pl.DataFrame) -> None:
    assert labelled.rows.height == truth.height


@pytest.mark.integration
def test_the_language_is_right_nearly_always(labelled: Labelled) -> None:
    written = labelled.rows.filter(pl.col("language_true") != "")
    found = accuracy(written, "language")
    assert found >= 0.9, f"language right for {found:.3f} of {written.height} (0.99 when this was written)"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("what", "least", "measured"), [("language", 0.95, 1.0), ("category", 0.65, 0.76), ("sentiment", 0.65, 0.78)]
)
def test_what_counts_as_sure_is_mostly_right(labelled: Labelled, what: str, least: float, measured: float) -> None:
    sure = labelled.rows.filter(status="ok")
    found = accuracy(sure, what)
    assert found >= least, f"{what} right for {found:.3f} of {sure.height} sure records ({measured} was measured)"
    assert sure.height >= 40, f"only {sure.height} of {labelled.rows.height} records count as sure"


@pytest.mark.integration
def test_being_sure_means_something(labelled: Labelled) -> None:
    sure = labelled.rows.filter(status="ok")
    unsure = labelled.rows.filter(status="deferred", language="en")
    assert accuracy(sure, "category") > accuracy(unsure, "category")
    assert accuracy(sure, "sentiment") > accuracy(unsure, "sentiment")


@pytest.mark.integration
def test_the_drifted_day_stands_out(labelled: Labelled) -> None:
    # In the language of the default encoder: to it, all texts of another are alike.
    later = labelled.rows.filter(pl.col("partition_date") > REFERENCE_DAYS[-1], language_true="en")
    means = later.group_by("partition_date").agg(pl.col("novelty").mean()).sort("novelty", descending=True)
    assert means["partition_date"][0] == DRIFTED_DAY, means.rows()


INJECTED = re.compile(r"(</feedback>|SYSTEM:).*", re.DOTALL)


@pytest.mark.integration
def test_injected_words_do_not_make_a_record_good(labelled: Labelled) -> None:
    injected = labelled.rows.filter(pl.col("note").str.contains("injection"))
    assert injected.height == 2
    clean = injected.with_columns(text=pl.Series([INJECTED.sub("", text).strip() for text in injected["text"]]))
    assert (clean["text"] != injected["text"]).all()
    vectors = labelled.encoder.encode(clean["text"].to_list()).embeddings
    feedback = clean.select(
        "feedback_id", "partition_date", "source", "text", "rating", pl.lit(None, pl.String).alias("language"),
        column(vectors).alias("embedding"), is_anomaly=pl.lit(value=False), embedding_status=pl.lit("ok"),
    )  # fmt: skip
    plain = label(feedback, labelled.known, labelled.settings)
    for row, without in zip(injected.iter_rows(named=True), plain.iter_rows(named=True), strict=True):
        taken_over = row["status"] == "ok" and (row["sentiment"] == "positive" or row["urgency"] == "low")
        same = all(row[name] == without[name] for name in ("sentiment", "urgency", "status"))
        assert not taken_over or same, row
