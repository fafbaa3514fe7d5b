"""Versions are added whole, once, and never changed; the fingerprint follows what would be served."""

import hashlib
import resource
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pydantic import ValidationError

from resources.errors import ConfigurationError
from resources.model_repository import ModelCard, ModelRepository

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CARD = ModelCard(source="a test", created_at=MOMENT)


@pytest.fixture
def repository(tmp_path: Path) -> ModelRepository:
    for model in ("embedder", "detector"):
        (tmp_path / model).mkdir()
        (tmp_path / model / "config.pbtxt").write_text(f'name: "{model}"\n')
    (tmp_path / "notes").mkdir()
    return ModelRepository(tmp_path)


def entries(repository: ModelRepository) -> list[str]:
    """All but the writers' locks, which stay."""
    found = (path.relative_to(repository.path).as_posix() for path in repository.path.rglob("*"))
    return sorted(name for name in found if name not in {".detector.lock", ".embedder.lock"})


def test_models_are_the_folders_with_a_configuration(repository: ModelRepository) -> None:
    assert repository.models() == ["detector", "embedder"]


def test_a_version_holds_its_files_and_their_hashes(repository: ModelRepository, tmp_path: Path) -> None:
    source = tmp_path / "notes" / "words.txt"
    source.write_bytes(b"word")

    version = repository.add_version("embedder", {"model.onnx": b"graph", "words.txt": source}, CARD)

    folder = repository.version_path("embedder", version)
    card = repository.card("embedder", version)
    assert (version, card.model, card.version, card.created_at) == (1, "embedder", 1, MOMENT)
    assert {name: (folder / name).read_bytes() for name in card.files} == {
        "model.onnx": b"graph",
        "words.txt": b"word",
    }
    assert card.files["model.onnx"] == hashlib.sha256(b"graph").hexdigest()
    # A server often runs as another user.
    assert stat.S_IMODE(folder.stat().st_mode) & 0o005 == 0o005


def test_versions_count_up_and_sort_as_numbers(repository: ModelRepository) -> None:
    added = [repository.add_version("embedder", {"model.onnx": bytes([i])}, CARD) for i in range(11)]

    assert added == repository.versions("embedder") == list(range(1, 12))
    assert repository.versions("detector") == []


def test_the_newest_content_is_not_written_again(repository: ModelRepository) -> None:
    first = repository.add_version("embedder", {"model.onnx": b"one"}, CARD)
    before = entries(repository), repository.version_path("embedder", first).stat().st_mtime_ns

    later = CARD.model_copy(update={"created_at": MOMENT + timedelta(days=1), "source": "elsewhere"})
    assert repository.add_version("embedder", {"model.onnx": b"one"}, later) == first
    assert (entries(repository), repository.version_path("embedder", first).stat().st_mtime_ns) == before

    assert repository.add_version("embedder", {"model.onnx": b"two"}, CARD) == 2
    assert repository.add_version("embedder", {"model.onnx": b"one"}, CARD) == 3


@pytest.mark.parametrize("change", [{"dims": 3}, {"token_limit": 9}, {"details": {"threshold": 0.5}}])
def test_another_fact_about_the_same_file_is_another_version(
    repository: ModelRepository, change: dict[str, object]
) -> None:
    repository.add_version("embedder", {"model.onnx": b"one"}, CARD)

    assert repository.add_version("embedder", {"model.onnx": b"one"}, CARD.model_copy(update=change)) == 2


def test_nothing_is_left_of_a_version_that_could_not_be_written(repository: ModelRepository) -> None:
    before = entries(repository)

    with pytest.raises(FileNotFoundError):
        repository.add_version("embedder", {"a": b"a", "b": repository.path / "missing"}, CARD)
    assert entries(repository) == before


def test_writers_at_the_same_time_get_versions_of_their_own(repository: ModelRepository) -> None:
    start, got = threading.Barrier(8), []

    def add(number: int) -> None:
        start.wait()
        got.append(repository.add_version("embedder", {"model.onnx": bytes([number])}, CARD))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(got) == repository.versions("embedder") == list(range(1, 9))


_ADD = """
import sys
from datetime import datetime, timezone
from pathlib import Path
import filelock
from resources.model_repository import ModelCard, ModelRepository

repository = ModelRepository(Path(sys.argv[1]))
card = ModelCard(source=sys.argv[2], created_at=datetime.now(timezone.utc))
print("ready", flush=True)
sys.stdin.readline()
print(repository.add_version("embedder", {"model.onnx": b"one"}, card), flush=True)
"""


def test_processes_that_add_the_same_at_the_same_time_make_one_version(
    repository: ModelRepository, project_root: Path
) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _ADD, repository.path, f"writer {number}"],
            cwd=project_root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.communicate(timeout=60)[0] for writer in writers] == ["1\n"] * 4
    assert [writer.returncode for writer in writers] == [0] * 4
    assert repository.version_folders("embedder") == [1]


def test_a_number_that_was_given_away_is_not_given_again(repository: ModelRepository) -> None:
    content = {"model.onnx": b"one"}
    assert repository.add_version("embedder", content, CARD, above=7) == 8
    assert repository.add_version("embedder", content, CARD, above=8) == 8
    assert repository.add_version("embedder", content, CARD) == 8
    repository.remove_version("embedder", 8)
    assert repository.add_version("embedder", content, CARD, above=8) == 9
    assert repository.add_version("embedder", content, CARD, above=12) == 13


def test_an_incomplete_folder_is_no_version_and_is_not_overwritten(repository: ModelRepository) -> None:
    folder = repository.version_path("embedder", 4)
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"half")
    (repository.path / "embedder" / "05").mkdir()

    assert repository.versions("embedder") == []
    assert repository.version_folders("embedder") == [4]
    assert repository.add_version("embedder", {"model.onnx": b"whole"}, CARD) == 5
    (repository.version_path("embedder", 5) / "model.onnx").unlink()
    assert repository.versions("embedder") == []


def test_a_removed_version_is_gone(repository: ModelRepository) -> None:
    before = entries(repository)
    version = repository.add_version("embedder", {"model.onnx": b"one"}, CARD)

    repository.remove_version("embedder", version)
    repository.remove_version("embedder", version)

    assert entries(repository) == before


def test_the_fingerprint_follows_what_would_be_served(repository: ModelRepository) -> None:
    seen = [repository.fingerprint()]

    def changed() -> bool:
        seen.append(repository.fingerprint())
        return seen[-1] != seen[-2]

    assert not changed()
    repository.add_version("embedder", {"model.onnx": b"one"}, CARD)
    assert changed()
    (repository.path / "embedder" / "config.pbtxt").write_text("max_batch_size: 3\n")
    assert changed()
    (repository.path / "embedder" / "configs").mkdir()
    (repository.path / "embedder" / "configs" / "gpu.pbtxt").write_text("")
    assert changed()
    by_hand = repository.version_path("detector", 1)
    by_hand.mkdir()
    (by_hand / "model.py").write_text("")
    assert changed()
    (by_hand / "model.py").write_text("pass")
    assert changed()
    repository.remove_version("embedder", 1)
    assert changed()
    assert len(set(seen)) == len(seen) - 1


def test_equal_repositories_have_equal_fingerprints(repository: ModelRepository, tmp_path: Path) -> None:
    other = ModelRepository(tmp_path / "other")
    for model in repository.models():
        (other.path / model).mkdir(parents=True)
        (other.path / model / "config.pbtxt").write_text(f'name: "{model}"\n')
    for one, day in ((repository, 1), (other, 2)):
        card = CARD.model_copy(update={"created_at": MOMENT + timedelta(days=day)})
        one.add_version("embedder", {"model.onnx": b"one"}, card)

    assert repository.fingerprint() == other.fingerprint()


@pytest.mark.parametrize("name", ["../escape", "folder/file", "model.json", "", "."])
def test_a_file_must_have_a_plain_name(repository: ModelRepository, name: str) -> None:
    with pytest.raises(ConfigurationError, match="plain file name"):
        repository.add_version("embedder", {name: b""}, CARD)


@pytest.mark.parametrize("model", ["missing", "notes", "../embedder", ""])
def test_a_model_without_configuration_is_refused(repository: ModelRepository, model: str) -> None:
    with pytest.raises(ConfigurationError, match="has no model"):
        repository.add_version(model, {}, CARD)


def test_a_repository_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not a folder"):
        ModelRepository(tmp_path / "missing").models()


def test_a_card_names_its_moment_in_utc() -> None:
    east = datetime(2026, 1, 2, 5, 4, 5, tzinfo=timezone(timedelta(hours=2)))

    assert '"2026-01-02T03:04:05Z"' in ModelCard(source="a test", created_at=east).model_dump_json()
    with pytest.raises(ValidationError):
        ModelCard(source="a test", created_at=datetime(2026, 1, 2))  # noqa: DTZ001


def test_unknown_fields_of_a_card_are_refused(repository: ModelRepository) -> None:
    version = repository.add_version("embedder", {}, CARD)
    path = repository.version_path("embedder", version) / "model.json"
    path.write_text(path.read_text().replace('"dims"', '"dimensions"'))

    with pytest.raises(ConfigurationError, match=r"model\.json: dimensions: .*build it again"):
        repository.card("embedder", version)
    with pytest.raises(ConfigurationError, match="has no version 7"):
        repository.card("embedder", 7)


def test_a_full_disk_is_one_line_and_leaves_nothing(repository: ModelRepository) -> None:
    before = entries(repository)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(ConfigurationError, match=r"embedder cannot be written \(File too large\)"):
            repository.add_version("embedder", {"small": b"s", "model.onnx": bytes(1 << 21)}, CARD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert entries(repository) == before
