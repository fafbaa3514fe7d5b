from pathlib import Path

import pytest

from platform_assets.only_one import UnderWayError, only_one
from platform_assets.settings import Settings
from resources.errors import ConfigurationError


def hold(root: Path, day: str) -> None:
    with only_one(Settings(root), "days", day, wait_s=0.1):
        pass


def test_a_second_one_waits_and_then_says_so(tmp_path: Path) -> None:
    with only_one(Settings(tmp_path), "days", "2026-09-01", wait_s=0):
        hold(tmp_path, "2026-09-02")
        with pytest.raises(UnderWayError, match="2026-09-01: another process"):
            hold(tmp_path, "2026-09-01")
    hold(tmp_path, "2026-09-01")


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".cache").write_text("a file")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        hold(tmp_path, "2026-09-01")
