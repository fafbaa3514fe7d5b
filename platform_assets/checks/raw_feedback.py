"""Checks of `raw_feedback`: nothing is lost, nothing stands twice, every file keeps its contract."""

import polars as pl

from platform_assets.checks.factory import Check, Day, limited, schema_check, structure
from platform_assets.domain.measurement import Measurement, breaches, share
from platform_assets.domain.raw_feedback import STRUCTURAL_REASONS
from platform_assets.domain.thresholds import CheckLimits


def checks(limits: CheckLimits) -> list[Check]:
    """All checks of this asset."""
    return [
        structure(
            "records_conserved",
            "Every record of every landed file is loaded or quarantined, exactly once.",
            lambda day: conserved(
                day.rows("landed_files"),
                day.rows("raw_feedback", "file_uri"),
                day.rows("quarantined_feedback", "file_uri"),
            ),
        ),
        structure(
            "ids_unique",
            "No feedback_id stands twice.",
            lambda day: ids_unique(day.rows("raw_feedback", "feedback_id")),
        ),
        structure(
            "files_match_contract",
            "Every landed file belongs to a source, can be read and has the mapped columns.",
            lambda day: files_match(
                day.rows("quarantined_feedback", "file_uri", "reason", "detail"), files=day.rows("landed_files").height
            ),
        ),
        schema_check("raw_feedback"),
        limited(
            "share_quarantined",
            "Share of the day's records that became dead letters.",
            share_quarantined,
            limits.share_quarantined,
        ),
    ]


def conserved(ledger: pl.DataFrame, raw: pl.DataFrame, quarantined: pl.DataFrame) -> Measurement:
    """Compare what the reader counted in each file with what the tables hold of it."""
    # The rows of a file stand together.
    runs = pl.concat([raw["file_uri"], quarantined["file_uri"]]).rle().struct.unnest()
    stored = runs.group_by(file_uri="value").agg(stored=pl.col("len").sum())
    compared = (
        ledger.select("file_uri", "records")
        .join(stored, on="file_uri", how="full", coalesce=True)
        .with_columns(pl.col("records").fill_null(0), pl.col("stored").fill_null(0))
        .filter(pl.col("records") != pl.col("stored"))
        .sort("file_uri")
    )
    found = [f"{uri}: {read} records read, {held} stored" for uri, read, held in compared.iter_rows()]
    return breaches(found, rows=int(ledger["records"].sum()), what="files whose records were lost or doubled")


def ids_unique(raw: pl.DataFrame) -> Measurement:
    """Count ids that stand on more than one row."""
    # Equal ids have equal hashes, which are quicker to compare; quickest is to see that all differ.
    hashes = raw["feedback_id"].hash()
    alike = raw.clear() if hashes.n_unique() == raw.height else raw.filter(hashes.is_duplicated())
    repeated = alike.group_by("feedback_id").len().filter(pl.col("len") > 1).sort("feedback_id")
    found = [f"{identity} stands {count} times" for identity, count in repeated.iter_rows()]
    return breaches(found, rows=raw.height, what="feedback_ids that stand twice")


def files_match(quarantined: pl.DataFrame, *, files: int) -> Measurement:
    """Count files that as a whole do not keep their source's contract."""
    structural = (
        quarantined.filter(pl.col("reason").is_in([reason.value for reason in STRUCTURAL_REASONS]))
        .group_by("file_uri", "reason")
        .agg(pl.col("detail").first())
        .sort("file_uri")
    )
    found = [f"{uri}: {reason}: {detail}" for uri, reason, detail in structural.iter_rows()]
    return breaches(found, rows=files, what="files that do not keep their source's contract")


def share_quarantined(day: Day) -> Measurement:
    """Dead letters ÷ records."""
    letters = day.rows("quarantined_feedback", "reason")
    records = letters.height + int(day.scan("raw_feedback").select(pl.len()).collect().item())
    reasons = letters.group_by("reason").len().sort("len", descending=True)
    return share(letters.height, records, "share quarantined", [f"{r}: {n}" for r, n in reasons.iter_rows()])
