"""Each way a repository can fail to be served is one line; a sound one gives none, and a server agrees."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import onnxruntime
import pytest
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from resources.embedded_triton import EmbeddedTriton
from resources.errors import ConfigurationError
from resources.model_config import read_config
from resources.model_repository import ModelRepository
from resources.repository_validation import validate_repository
from resources.repository_validation.backends import EMBEDDED
from resources.repository_validation.graphs import graph_problems
from tests.resources import breakages_of_ensembles, breakages_of_graphs, breakages_of_models
from tests.resources.breakages import EMBED_CONFIG, GPU_CONFIG, WHOLE_CONFIG, Case, edit, enlist, second_version
from tests.resources.small_repository import graph, write_small_repository

PATIENCE_S = 40.0
CASES = [*breakages_of_models.CASES, *breakages_of_graphs.CASES, *breakages_of_ensembles.CASES]
ASKED_AGAIN = (
    "version_01",
    "unknown_field",
    "platform_of_another_backend",
    "reshape",
    "absent_gpu",
    "other_size_in_the_graph",
    "tensor_that_nothing_takes",
    "absent_version_of_a_part",
    "steps_that_wait_for_each_other",
)
"""The cases that a server is asked for at every run; for all of them it takes minutes."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    write_small_repository(root)
    return root


@pytest.fixture
def repository(sound: Path, tmp_path: Path) -> ModelRepository:
    return ModelRepository(Path(shutil.copytree(sound, tmp_path / "repository")))


def problems_of(repository: ModelRepository, config_name: str = "") -> list[str]:
    """What is found for a host with two GPUs, with paths relative to the repository."""
    found = validate_repository(repository, config_name=config_name, gpus=2)
    return [line.replace(f"{repository.path}/", "") for line in found]


@pytest.mark.parametrize("config_name", ["", "gpu"])
def test_a_sound_repository_has_no_problem(repository: ModelRepository, config_name: str) -> None:
    assert problems_of(repository, config_name) == []


def test_the_project_s_own_repository_has_no_problem(built_repository: Path) -> None:
    for config_name in ("", "gpu", "shared"):
        assert validate_repository(ModelRepository(built_repository), config_name=config_name, gpus=1) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_breakage_is_one_line(repository: ModelRepository, case: Case) -> None:
    case.break_it(repository.path)

    problems = problems_of(repository)

    assert len(problems) == 1, problems
    assert case.line in problems[0]
    assert "\n" not in problems[0]


def test_a_file_larger_than_a_protobuf_message(repository: ModelRepository) -> None:
    path = repository.path / "embed/1/model.onnx"
    with path.open("r+b") as file:
        file.truncate(2**31)  # takes no space

    problems = list(graph_problems(path, read_config(repository.path / EMBED_CONFIG), [EMBEDDED], None))

    assert problems == [f"{path} is larger than 2 GiB, which no server reads: export it with external data"]


def test_a_host_without_a_gpu(repository: ModelRepository) -> None:
    with_default = validate_repository(repository, gpus=0)
    with_gpu = validate_repository(repository, config_name="gpu", gpus=0)
    assert with_default == []
    asked = "asks for the GPUs [0, 1], and the host has 0: name those that are there, or none for all"
    assert with_gpu == [f"{repository.path / GPU_CONFIG} {asked}"]
    edit(GPU_CONFIG, ", gpus: [ 0, 1 ]", "")(repository.path)
    assert "asks for a GPU, and the host has none" in validate_repository(repository, config_name="gpu", gpus=0)[0]


def test_a_backend_that_needs_a_gpu(repository: ModelRepository) -> None:
    plan = repository.path / "embed/1/model.plan"
    plan.write_bytes(b"an engine")
    enlist(plan.parent)
    edit(EMBED_CONFIG, "onnxruntime", "tensorrt")(repository.path)

    assert validate_repository(repository, gpus=1) == []
    needs = "is served by TensorRT, and the host has no GPU: serve it on a host with one"
    assert validate_repository(repository, gpus=0) == [f"{repository.path / EMBED_CONFIG} {needs}"]


def test_a_configuration_that_no_model_has(repository: ModelRepository) -> None:
    with pytest.raises(ConfigurationError, match=r"has a configs/tpu\.pbtxt: name one that is there"):
        validate_repository(repository, config_name="tpu")


def test_models_that_leave_the_server_to_decide(repository: ModelRepository) -> None:
    for old, new in (('name: "ids"\nb', "b"), ('backend: "python"\n', ""), ("count: 1, ", "")):
        edit("ids/config.pbtxt", old, new)(repository.path)
    edit(WHOLE_CONFIG, "dims: [ 4 ]", "dims: [ -1 ]")(repository.path)

    assert problems_of(repository) == []


def test_versions_without_a_common_name_may_keep_their_engines(repository: ModelRepository) -> None:
    second_version(name="two")(repository.path)

    assert problems_of(repository) == []


def test_what_the_embedded_server_reads_is_what_its_runtime_says(project_root: Path) -> None:
    lock = (project_root / "model_repository" / "requirements.lock").read_text()
    assert f"onnxruntime=={EMBEDDED.version} " in lock
    if onnxruntime.__version__ != EMBEDDED.version:
        pytest.skip(f"onnxruntime {onnxruntime.__version__} is installed here, the server's is {EMBEDDED.version}")

    def reads(opset: int, ir: int) -> bool:
        model = graph()
        model.opset_import[0].version, model.ir_version = opset, ir
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        except Exception:  # noqa: BLE001  # onnxruntime's exceptions share no base class of their own
            return False
        return True

    assert reads(EMBEDDED.opset, EMBEDDED.ir)
    assert not reads(EMBEDDED.opset + 1, EMBEDDED.ir)
    assert not reads(EMBEDDED.opset, EMBEDDED.ir + 1)


@pytest.fixture(scope="module")
def server(
    sound: Path, triton_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, InferenceServerClient]]:
    """A server of the sound repository, which each test may break and must mend."""
    root = tmp_path_factory.mktemp("served")
    shutil.copytree(sound, root / "repository")
    with EmbeddedTriton(
        repository=root / "repository", environment=triton_environment, state=root / "state"
    ) as running:
        yield root / "repository", InferenceServerClient(running.url)


@pytest.mark.integration
@pytest.mark.parametrize("case", [case for case in CASES if case.name in ASKED_AGAIN], ids=lambda case: case.name)
def test_a_server_refuses_it_too(sound: Path, server: tuple[Path, InferenceServerClient], case: Case) -> None:
    root, client = server
    case.break_it(root)
    try:
        with pytest.raises(InferenceServerException):
            client.load_model(case.refused, client_timeout=PATIENCE_S)
    finally:
        mend(root, sound)


def mend(root: Path, sound: Path) -> None:
    """Touches no more than what differs: the server loads again what was touched."""
    for path in sorted(root.rglob("*"), reverse=True):
        if not (sound / path.relative_to(root)).exists():
            path.rmdir() if path.is_dir() else path.unlink()
    for path in sorted(sound.rglob("*")):
        copy = root / path.relative_to(sound)
        if path.is_dir():
            copy.mkdir(exist_ok=True)
        elif not copy.exists() or copy.read_bytes() != path.read_bytes():
            shutil.copy2(path, copy)
