"""A project whose sensors are asked; no server is needed to look at files and tables."""

from pathlib import Path

import pytest

from resources.triton import TritonResource
from tests.project import Project, make_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path, TritonResource(url="127.0.0.1:1", repository="none"))
    project.edit("platform", lambda text: text.replace("settle_s: 10 ", "settle_s: 0 "))
    return project
