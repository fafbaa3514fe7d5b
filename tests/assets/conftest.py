"""Projects whose days were run."""

from datetime import date
from pathlib import Path

import pytest

from resources.triton import TritonResource
from tests.project import Project, make_project

DAYS = [date(2026, 9, 1), date(2026, 9, 5)]


@pytest.fixture
def project(tmp_path: Path, triton: TritonResource) -> Project:
    return make_project(tmp_path, triton)


@pytest.fixture(scope="module")
def two_days(tmp_path_factory: pytest.TempPathFactory, triton: TritonResource) -> Project:
    """Two sample days, run whole, without an anomaly model."""
    project = make_project(tmp_path_factory.mktemp("two_days"), triton)
    project.land_samples(DAYS)
    for day in DAYS:
        project.run(day)
    return project
