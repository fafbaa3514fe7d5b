"""A version of the encoder is promoted and taken back while requests go on: none is lost, and none is answered twice.

Two encoders of a few hundred bytes stand for real ones; the server, the commands and the tables are the real ones.
"""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import numpy as np
import pytest
from click.testing import CliRunner, Result
from onnx import numpy_helper

from platform_assets import promotions
from platform_assets.canary import encode
from platform_assets.cli.models_promote import promote_model, rollback_model
from platform_assets.cli.models_reembed import reembed
from platform_assets.current_model import current_model
from platform_assets.domain.errors import FeedbackError
from platform_assets.model_swap import roll_back
from platform_assets.promotions import DETECTOR, EMBEDDER, ENCODER, TOKENIZER
from resources.embedded_triton import EmbeddedTriton
from resources.encoder_build import build_encoder
from resources.model_promotion import beside, served_parts
from resources.model_repository import ModelRepository
from resources.text_encoder import TextEncoder
from resources.triton import TritonResource
from resources.version_pins import loaded_versions, step_versions
from tests.project import Project, make_project
from tests.resources.tiny_encoder import tiny_encoder, write_encoder

pytestmark = pytest.mark.integration

DAY = date(2026, 9, 1)
TEXTS = ["the refund", "the app ok !", "word", "die app la le ?"]
PARTS = {1: {TOKENIZER: 1, EMBEDDER: 1}, 2: {TOKENIZER: 1, EMBEDDER: 2}}


@pytest.fixture(scope="module")
def triton(
    project_root: Path, triton_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TritonResource]:
    """A server of version 1; version 2 lies in its repository, built while version 1 served."""
    root = tmp_path_factory.mktemp("promotion")
    repository = root / "model_repository"
    shutil.copytree(project_root / "model_repository", repository, ignore=shutil.ignore_patterns("[0-9]*", ".*"))
    resource = TritonResource(
        repository=str(repository), environment=str(triton_environment), state=str(root / "state"), timeout_s=30
    )
    server = EmbeddedTriton(repository=repository, environment=triton_environment, state=Path(resource.state))
    build(repository, root / "one", shift=0)
    try:
        assert served_parts(resource, ENCODER) == PARTS[1]
        build(repository, root / "two", shift=4)
        yield resource
    finally:
        server.stop()


@pytest.fixture(scope="module")
def vectors(triton: TritonResource) -> dict[int, np.ndarray]:
    """What each version makes of the texts, asked while one is loaded beside the other."""
    repository = ModelRepository(Path(triton.repository))
    assert step_versions(repository, ENCODER) == PARTS[2], "the configurations ask for the newest"
    with beside(repository, triton, ENCODER, 2):
        assert served_parts(triton, ENCODER) == PARTS[1], "what serves is held, though the newest is loaded"
        found = {version: encode(triton, parts, TEXTS) for version, parts in PARTS.items()}
    assert not np.allclose(found[1], found[2], atol=0.1)
    assert served_parts(triton, ENCODER) == PARTS[1]
    assert triton.metadata(EMBEDDER).versions == ("1",), "left without a switch, the new one is unloaded"
    return found


def build(repository: Path, folder: Path, shift: int) -> None:
    """An encoder of the same size, whose vectors point elsewhere for each `shift`."""
    encoder = tiny_encoder()
    weights = next(one for one in encoder.graph.initializer if one.name == "projection")
    weights.CopyFrom(numpy_helper.from_array(np.roll(numpy_helper.to_array(weights), shift, axis=0), "projection"))
    source = f"dir:{write_encoder(folder, encoder)}"
    build_encoder(ModelRepository(repository), source, folder / "cache", datetime.now(UTC), lambda _: None)


@pytest.fixture(scope="module")
def project(
    tmp_path_factory: pytest.TempPathFactory,
    project_root: Path,
    triton: TritonResource,
    vectors: dict[int, np.ndarray],
) -> Project:
    """A project that uses that server, with a day of sample feedback."""
    made = make_project(tmp_path_factory.mktemp("promoting"), triton)
    made.edit("platform", lambda text: text.replace(": .triton-venv", f": {triton.environment}"))
    made.edit("platform", lambda text: text.replace("state: .triton ", f"state: {triton.state} "))
    shutil.copy(project_root / "dagster.yaml", made.root)
    made.land_samples([DAY])
    assert made.run(DAY, "raw_feedback", "quarantined_feedback", "landed_files", "feedback_embeddings").success
    return made


@pytest.fixture
def models(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command of `feedback models` in the project."""
    monkeypatch.chdir(project.root)
    for variable in ("DAGSTER_HOME", "FEEDBACK_PROJECT", "TRITON_URL"):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    commands = {"promote": promote_model, "rollback": rollback_model, "reembed": reembed}

    def run(command: str, *arguments: str, expected: int = 0) -> Result:
        result = CliRunner().invoke(commands[command], arguments, standalone_mode=False)
        assert result.exception is None, result.exception
        assert (result.return_value or 0) == expected, result.stdout
        return result

    return run


@dataclass
class Traffic:
    """Clients that ask all the time: some take whatever serves, some keep for a while what served at first."""

    triton: TritonResource
    vectors: dict[int, np.ndarray]
    answers: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0})
    runs: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0})
    faults: list[str] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Traffic":
        self._threads = [threading.Thread(target=one) for one in (self._unpinned, self._unpinned, self._runs)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _unpinned(self) -> None:
        text = np.array([[one.encode()] for one in TEXTS], dtype=object)
        while not self._end.is_set():
            try:
                found = self._made_by(self.triton.infer(ENCODER, {"text": text})["embeddings"])
                self.answers[found] += 1
            except Exception as error:  # noqa: BLE001  # whatever it is, a client would have seen it
                self.faults.append(f"unpinned: {error}")

    def _runs(self) -> None:
        while not self._end.is_set():
            try:
                encoder = TextEncoder(self.triton)
                versions = {
                    self._made_by(one.embeddings, says=int(one.model_version))
                    for one in encoder.encode_all(TEXTS for _ in range(30))
                }
                if len(versions) > 1:
                    self.faults.append(f"one run gave vectors of {versions}")
                self.runs[versions.pop()] += 1
            except Exception as error:  # noqa: BLE001
                self.faults.append(f"a run: {error}")

    def _made_by(self, found: np.ndarray, says: int | None = None) -> int:
        [version] = [one for one, vectors in self.vectors.items() if np.allclose(found, vectors, atol=1e-5)]
        assert says in (None, version), f"vectors of version {version} say that they are of {says}"
        return version


def test_promoting_and_going_back_under_traffic_costs_no_request(
    triton: TritonResource, project: Project, models: Callable[..., Result], vectors: dict[int, np.ndarray]
) -> None:
    process = EmbeddedTriton(
        repository=Path(triton.repository), environment=Path(triton.environment), state=Path(triton.state)
    ).status()
    with Traffic(triton, vectors) as traffic:
        models("promote", ENCODER, "2", "--accept-differences")
        assert served_parts(triton, ENCODER) == PARTS[2]
        models("rollback", ENCODER)
        assert served_parts(triton, ENCODER) == PARTS[1]
    assert traffic.faults == []
    assert all(traffic.answers.values()), traffic.answers
    assert all(traffic.runs.values()), traffic.runs
    after = EmbeddedTriton(
        repository=Path(triton.repository), environment=Path(triton.environment), state=Path(triton.state)
    ).ensure()
    assert process is not None
    assert after.server_pid == process.server_pid, "no pin makes another process start the server anew"
    record = [(one.action.value, one.version, one.former) for one in promotions.recorded(project.lake, ENCODER)]
    assert record == [("promoted", 2, 1), ("rolled back", 1, 2)]
    assert "neighbours_changed" in promotions.recorded(project.lake, ENCODER)[0].figures


def test_a_run_that_has_begun_ends_on_the_version_it_began_with(
    triton: TritonResource, project: Project, models: Callable[..., Result], vectors: dict[int, np.ndarray]
) -> None:
    def texts() -> Iterator[list[str]]:
        for chunk in range(20):
            if chunk == 10:
                models("promote", ENCODER, "2", "--accept-differences")
            yield TEXTS

    found = list(TextEncoder(triton).encode_all(texts()))
    assert served_parts(triton, ENCODER) == PARTS[2], "it was promoted meanwhile"
    assert {one.model_version for one in found} == {"1"}
    np.testing.assert_allclose(np.concatenate([one.embeddings for one in found]), np.tile(vectors[1], (20, 1)), 0, 1e-5)
    assert TextEncoder(triton).encode(TEXTS).model_version == "2"
    roll_back(project.settings, triton, ENCODER)


def test_what_is_beyond_a_limit_is_refused_and_changes_nothing(
    triton: TritonResource, project: Project, models: Callable[..., Result]
) -> None:
    before = files(triton), len(promotions.recorded(project.lake, ENCODER))
    project.edit("thresholds", lambda text: text.replace("    limit: 0.2\n    min_rows: 100", "    limit: 0.001"))
    try:
        found = json.loads(models("promote", ENCODER, "2", "--format", "json", expected=1).stdout)
        assert found["refused"] == ["neighbours_changed"]
        assert "--accept-differences" in found["messages"][0]
        assert models("promote", EMBEDDER, "2", "--dry-run", expected=1).stderr.startswith("text_embedder 2 is served")
        dry = models("promote", ENCODER, "2", "--dry-run", "--accept-differences")
        assert "would be accepted" in dry.stdout
    finally:
        project.edit("thresholds", lambda text: text.replace("    limit: 0.001", "    limit: 0.2\n    min_rows: 100"))
    assert (files(triton), len(promotions.recorded(project.lake, ENCODER))) == before
    assert served_parts(triton, ENCODER) == PARTS[1]
    assert triton.metadata(EMBEDDER).versions == loaded(triton)
    assert "serves already" in models("promote", ENCODER, "1").stdout


def test_a_version_that_cannot_be_loaded_costs_no_request_either(
    triton: TritonResource,
    models: Callable[..., Result],
    vectors: dict[int, np.ndarray],
    tmp_path: Path,
) -> None:
    before, repository = files(triton), ModelRepository(Path(triton.repository))
    build(repository.path, tmp_path, shift=2)
    for graph in repository.version_path(EMBEDDER, 3).glob("*.onnx"):
        graph.write_bytes(graph.read_bytes()[:-100])
    with Traffic(triton, vectors) as traffic, pytest.raises(AssertionError, match=f"load.*{EMBEDDER}"):
        models("promote", ENCODER, "3", "--accept-differences")
    for model in (EMBEDDER, ENCODER):
        repository.remove_version(model, 3)
    assert traffic.faults == []
    assert files(triton) == before
    assert served_parts(triton, ENCODER) == PARTS[1]


def test_the_anomaly_model_is_promoted_and_gone_back_from(
    triton: TritonResource, project: Project, models: Callable[..., Result]
) -> None:
    project.edit("thresholds", lambda text: text.replace("min_reference_vectors: 100", "min_reference_vectors: 20"))
    for cells, other in (
        ("vectors_per_cell: 4", "vectors_per_cell: 8"),
        ("vectors_per_cell: 8", "vectors_per_cell: 4"),
    ):
        assert project.run(None, "anomaly_model").success
        project.edit("thresholds", lambda text, cells=cells, other=other: text.replace(cells, other))
    assert current(project) == 2, "a fit serves at once"
    assert project.run(DAY, "anomaly_scores").success

    promoted = models("promote", DETECTOR, "1", "--accept-differences")
    assert "fit_rank_loss" in promoted.stdout
    assert f"--from {DAY} --to {DAY} --select anomaly_scores normalized_feedback daily_summary" in promoted.stdout
    assert current(project) == 1
    assert project.run(DAY, "anomaly_scores").success
    assert project.rows("anomaly_scores", DAY)["model_version"].unique().to_list() == ["1"]
    for version in (2, 1):
        assert roll_back(project.settings, triton, DETECTOR).switched
        assert current(project) == version
    with pytest.raises(FeedbackError, match="there is nothing to go back to"):
        roll_back(project.settings, triton, DETECTOR)
    with pytest.raises(AssertionError, match="no anomaly_detector version 7 was fitted"):
        models("promote", DETECTOR, "7")


def current(project: Project) -> int:
    cells = current_model(project.lake)
    assert cells is not None
    return int(cells["model_version"].unique().item())


def test_the_days_of_another_version_are_named_and_made_anew(
    triton: TritonResource, project: Project, models: Callable[..., Result]
) -> None:
    said = models("promote", ENCODER, "2", "--accept-differences").stdout
    assert f"1 day ({DAY} to {DAY}) have vectors of another version: `feedback models reembed`" in said
    assert set(project.rows("feedback_embeddings", DAY)["model_version"]) == {"1"}
    assert "fitted on another encoder" in said
    models("reembed")
    rows = project.rows("feedback_embeddings", DAY)
    assert set(rows["model_version"]) == {"2"}
    [shown] = rows.filter(rows["status"] == "ok")["model_hash"].unique().to_list()
    assert promotions.recorded(project.lake, ENCODER)[-1].model_hash == shown
    assert "every vector" in models("reembed").stdout
    assert current(project) == 3, "the anomaly model was fitted on the new vectors"
    assert set(project.rows("anomaly_scores", DAY)["model_version"]) == {"3"}
    with pytest.raises(AssertionError, match="was fitted on text_embedder 1 "):
        models("promote", DETECTOR, "1")

    assert project.run(None, "served_models").success
    event = project.instance.get_latest_materialization_event(dg.AssetKey("served_models"))
    assert event is not None
    materialization = event.asset_materialization
    assert materialization is not None
    assert materialization.metadata[EMBEDDER].value == 2
    assert f"| {ENCODER} | 2 |" in str(materialization.metadata["served"].value)
    roll_back(project.settings, triton, ENCODER)


def files(triton: TritonResource) -> dict[str, str]:
    return {path.parent.name + path.name: path.read_text() for path in Path(triton.repository).rglob("*.pbtxt")}


def loaded(triton: TritonResource) -> tuple[str, ...]:
    return tuple(map(str, loaded_versions(ModelRepository(Path(triton.repository)), EMBEDDER)))
