"""Resolves the records of a day that carry the same id: one stays, the others become dead letters that name it.

Which one stays is a rule of `domain/raw_feedback.py`.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

from platform_assets.day_plan import DayPlan, FileGoneError, PlannedFile
from platform_assets.domain.raw_feedback import dead_letters, superseded
from platform_assets.domain.tables import RAW_FEEDBACK
from resources.landing_zone import LandingZoneResource
from resources.record_files.batches import LINE_NO
from resources.staged_partition import StagedPartition

_PLACE: Final = ["file_uri", "line_no"]
_RAWS: Final = {"file_uri": pl.String(), "line_no": pl.Int64(), "raw": pl.String()}
_LOOKED_AT: Final = ["feedback_id", "source", *_PLACE, "created_at", "received_at"]


def id_hashes(rows: pl.DataFrame) -> pl.Series:
    """A number of 64 bits for each id."""
    return rows["feedback_id"].hash()


def resolve_ids(
    plan: DayPlan,
    landing: LandingZoneResource,
    loaded: StagedPartition,
    letters: StagedPartition,
    hashes: Sequence[pl.Series],
) -> None:
    """Leave one row for each id in `loaded`; the others go to `letters`, as they stand in their files.

    `hashes` are those of all ids, and possibly of more: what is there once is not looked at, so that a day without
    repeated ids is not read again.

    Raises:
        FileGoneError: a file is not what it was when its rows were read.
    """
    seen = pl.concat([pl.Series(dtype=pl.UInt64), *hashes])
    if seen.n_unique() == len(seen):
        return
    repeated = seen.filter(seen.is_duplicated()).unique()
    candidates = pl.concat(
        [rows.filter(id_hashes(rows).is_in(repeated.implode())) for rows in loaded.frames(_LOOKED_AT)]
    )
    rules = {one.content.source: one.source.dedupe for one in plan.files if one.source}
    losers = superseded(candidates.sort("received_at", maintain_order=True), rules)
    raws = _raws(losers, plan, landing, loaded)
    if raws.height < losers.height:
        raise FileGoneError("a file was written to while its day was read: it is read again")
    for (source,), lost in losers.group_by("source", maintain_order=True):
        whole = lost.join(raws, on=_PLACE, how="left", maintain_order="left")
        letters.add(dead_letters(whole, str(source), plan.day))
    loaded.keep(~pl.struct(_PLACE).is_in(losers.select(pl.struct(_PLACE)).to_series().implode()))


def _raws(losers: pl.DataFrame, plan: DayPlan, landing: LandingZoneResource, loaded: StagedPartition) -> pl.DataFrame:
    """`file_uri`, `line_no` and `raw` of each loser; of a file that is gone, its row as JSON."""
    there = {one.file.uri: one for one in plan.files}
    found: list[pl.DataFrame] = []
    for (uri,), lost in losers.group_by("file_uri", maintain_order=True):
        if (planned := there.get(str(uri))) is not None:
            found += _raws_in_file(planned, landing, lost["line_no"])
    gone = losers.filter(~pl.col("file_uri").is_in(list(there))).select(_PLACE)
    if gone.height:
        for rows in loaded.frames([name for name in RAW_FEEDBACK if name != "partition_date"]):
            lost = rows.join(gone, on=_PLACE, how="semi")
            found.append(lost.select(*_PLACE, pl.struct(pl.all()).struct.json_encode().alias("raw")))
    return pl.concat([pl.DataFrame(schema=_RAWS), *found])


def _raws_in_file(planned: PlannedFile, landing: LandingZoneResource, line_nos: pl.Series) -> list[pl.DataFrame]:
    found = []
    for batch in planned.read(landing):
        lines = batch.records[LINE_NO]
        at = lines.is_in(line_nos.implode()).arg_true()
        raws = pl.Series("raw", batch.raws(at.to_list()), dtype=pl.String)
        found.append(
            pl.DataFrame([lines.gather(at).alias("line_no"), raws]).select(
                pl.lit(planned.file.uri).alias("file_uri"), "line_no", "raw"
            )
        )
    return found
