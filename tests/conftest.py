"""What every test may use: where the project is, and one Triton server with its real models."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from resources.embedded_triton import EmbeddedTriton
from resources.triton import TritonResource

pytest_plugins = [
    "tests.s3",
    "tests.landing_places",
    "tests.kafka",
    "tests.picky_models",
    "tests.resources.routed_models",
]


# A slow machine must not fail a test; and where CI is set, as .ci/run does, each run draws the same examples.
settings.register_profile("feedback", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("feedback")


def pytest_configure() -> None:
    """Let the processes that tests start be interrupted: a shell ignores Ctrl-C for what it runs in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def project_root() -> Path:
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def triton_environment(project_root: Path) -> Path:
    """The server's own Python environment."""
    return Path(os.environ.get("FEEDBACK_TRITON_ENV", project_root / ".triton-venv"))


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture(scope="session")
def built_repository(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the model repository with the weights that `make setup` built; its big files are links."""
    source = project_root / "model_repository"
    if not any((source / "text_embedder").glob("[1-9]*/model.onnx")):
        pytest.fail(f"{source} holds no built text_embedder: run `make setup`", pytrace=False)
    copy = tmp_path_factory.mktemp("served") / "model_repository"

    def link_weights(source: str, target: str) -> str:
        # Files that a test may edit are its own.
        (_link_or_copy if source.endswith(".onnx") else shutil.copy2)(source, target)
        return target

    shutil.copytree(source, copy, copy_function=link_weights)
    return copy


@pytest.fixture(scope="session")
def triton(
    built_repository: Path, triton_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TritonResource]:
    """The project's models on a server of this test session; stopped at its end."""
    resource = TritonResource(
        repository=str(built_repository),
        environment=str(triton_environment),
        state=str(tmp_path_factory.mktemp("triton_state")),
    )
    server = EmbeddedTriton(repository=built_repository, environment=triton_environment, state=Path(resource.state))
    try:
        resource.server_version()
        yield resource
    finally:
        server.stop()
