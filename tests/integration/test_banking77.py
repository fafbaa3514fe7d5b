"""A file that nobody here wrote: 3,080 customer queries of Banking77 (CC BY 4.0), where the data is at hand."""

import json
from pathlib import Path

import pytest

from tests.integration.conftest import Project

pytestmark = pytest.mark.integration


def test_every_query_is_loaded(project: Project, project_root: Path) -> None:
    file = project_root.parent / "shared" / "data" / "banking77" / "test.csv"
    if not file.is_file():
        pytest.skip(f"{file} is not here: the data set is not part of this repository")
    project.feedback("ingest", str(file), "--source", "banking77", "--map", "text=text", "--partition", "2026-09-01")
    project.feedback("run", "--select", "raw_feedback")
    answer = project.feedback(
        "query",
        "select (select count(*) from raw_feedback) as loaded, "
        " (select count(distinct text) from raw_feedback) as texts,"
        " (select count(*) from quarantined_feedback) as quarantined",
        "--format",
        "json",
    )
    assert json.loads(answer) == [{"loaded": 3080, "texts": 3080, "quarantined": 0}]
