"""Dead letters come back as rows after their source was corrected, and everything downstream follows."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Project

pytestmark = pytest.mark.integration

COUNTS = (
    "select (select count(*) from raw_feedback) as loaded, (select count(*) from quarantined_feedback) as letters, "
    "(select count(*) from feedback_embeddings) as vectors, (select count(*) from normalized_feedback) as normalized, "
    "(select sum(volume) from daily_summary) as volume"
)
# A record that was delivered on two days stands on both.
OTHERS = (
    "select * exclude (flags) from raw_feedback where source <> 'shop_reviews' order by feedback_id, partition_date"
)


@pytest.fixture
def wrong_mapping(project: Project, project_root: Path) -> Project:
    """Two sample days, read with the customers' numbers for ratings."""
    sources = project.path / "config/sources.yaml"
    sources.write_text(sources.read_text().replace("rating: Stars (1-5)", 'rating: "Customer #"'))
    days = project_root / "samples/landing"
    for day in ("2026-09-01", "2026-09-02"):
        project.feedback("ingest", *map(str, sorted((days / day).iterdir())), "--partition", day)
    return project


def test_replay_brings_back_just_those_rows(wrong_mapping: Project) -> None:
    project = wrong_mapping

    def ask(sql: str) -> list[dict[str, Any]]:
        return json.loads(project.feedback("query", sql, "--format", "json"))

    project.feedback("run", expected=0)
    [before] = ask(COUNTS)
    bad = ask("select count(*) as n from quarantined_feedback where reason = 'bad_rating'")[0]["n"]
    others = ask(OTHERS)
    assert bad > 10
    sources = project.path / "config/sources.yaml"
    sources.write_text(sources.read_text().replace('rating: "Customer #"', "rating: Stars (1-5)"))
    done = json.loads(project.feedback("quarantine", "replay", "--reason", "bad_rating", "--format", "json"))
    back = sum(day["brought_back"] for day in done["days"])
    assert done["run"]["success"]
    [after] = ask(COUNTS)
    assert 10 < back <= bad
    assert (after["loaded"], after["letters"]) == (before["loaded"] + back, before["letters"] - back)
    assert after["normalized"] == after["vectors"] == after["volume"] == after["loaded"]
    assert ask(OTHERS) == others
