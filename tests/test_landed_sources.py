import hashlib
import shutil
from datetime import date
from pathlib import Path

import pytest

from platform_assets.landed_sources import LandedSources, note_uri, rating_ranges
from platform_assets.settings import Settings
from resources.errors import ConfigurationError
from resources.landing_zone import LandingZoneResource

DAY, OTHER = date(2026, 9, 1), date(2026, 9, 2)
NOTE = "columns: {text: answer, rating: points}\nrating_range: [0, 10]\n"


@pytest.fixture
def settings(tmp_path: Path, project_root: Path) -> Settings:
    shutil.copytree(project_root / "config", tmp_path / "config")
    return Settings(tmp_path)


@pytest.fixture
def landing(settings: Settings) -> LandingZoneResource:
    return settings.landing()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "answers.csv"
    path.write_text("answer,points\nfine,5\n")
    return path


@pytest.mark.parametrize("folder", ["survey", "app_store"])
def test_a_contract_landed_with_the_files_goes_before_the_configured_one(
    settings: Settings, landing: LandingZoneResource, outside: Path, folder: str
) -> None:
    file, of_another_day = (landing.land(outside, day, folder) for day in (DAY, OTHER))
    landing.write_text(note_uri(DAY, folder), NOTE)
    sources = LandedSources(landing, settings)
    found = sources.source_of(file)
    assert found.name == folder
    assert found.source
    assert (found.source.columns.text, found.source.rating_range) == ("answer", (0, 10))
    assert sources.contract_hash(file) == hashlib.sha256(NOTE.encode()).hexdigest()
    assert sources.source_of(of_another_day).source == settings.sources.sources.get(folder)
    assert sources.contract_hash(of_another_day) is None


def test_the_contract_of_a_folder_holds_for_its_sub_folders(
    settings: Settings, landing: LandingZoneResource, outside: Path
) -> None:
    landing.write_text(note_uri(DAY, "survey"), NOTE)
    file = landing.land(outside, DAY, "survey/de/2026")
    sources = LandedSources(landing, settings)
    assert sources.source_of(file).name == "survey"
    assert sources.contract_hash(file) is not None


def test_a_file_in_no_folder_has_no_contract_of_its_own(
    settings: Settings, landing: LandingZoneResource, outside: Path
) -> None:
    file = landing.land(outside, DAY)
    landing.write_text("2026-09-01/_source.yaml", NOTE)
    assert LandedSources(landing, settings).contract_hash(file) is None


def test_one_look_reads_a_contract_once(settings: Settings, landing: LandingZoneResource, outside: Path) -> None:
    """A day of many files costs one read, and its files are of one mind."""
    first, second = (landing.land(outside, DAY, "survey", name) for name in ("a.csv", "b.csv"))
    look = LandedSources(landing, settings)
    assert look.source_of(first).source is None
    landing.write_text(note_uri(DAY, "survey"), NOTE)
    assert (look.source_of(second).source, look.contract_hash(second)) == (None, None)
    assert LandedSources(landing, settings).source_of(second).source


def test_a_broken_contract_is_named_with_its_line(
    settings: Settings, landing: LandingZoneResource, outside: Path
) -> None:
    file = landing.land(outside, DAY, "survey")
    landing.write_text(note_uri(DAY, "survey"), "columns:\n  text: a\ncolour: red\n")
    path = settings.project / "landing" / note_uri(DAY, "survey")
    for call in (LandedSources.source_of, LandedSources.contract_hash):
        with pytest.raises(ConfigurationError) as caught:
            call(LandedSources(landing, settings), file)
        assert str(caught.value).startswith(f"{path}:3: colour: unknown key")


def test_rating_ranges_are_those_of_the_day(settings: Settings, landing: LandingZoneResource) -> None:
    configured = {name: source.rating_range for name, source in settings.sources.sources.items()}
    assert rating_ranges(DAY, landing, settings) == configured
    for folder in ("survey", "app_store"):
        landing.write_text(note_uri(DAY, folder), NOTE)
    changed = {**configured, "survey": (0, 10), "app_store": (0, 10)}
    assert rating_ranges(DAY, landing, settings) == changed
    assert rating_ranges(OTHER, landing, settings) == configured
