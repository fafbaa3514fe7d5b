import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from resources.embedded_triton import EmbeddedServer, EmbeddedTriton
from resources.errors import ConfigurationError, ServerUnavailableError
from resources.triton import TritonResource
from tests.resources.conftest import write_echo, write_model

pytestmark = pytest.mark.integration

_PATIENCE_S = 40.0


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)


def processes_of(state: Path) -> list[psutil.Process]:
    """Live processes that have to do with a state directory: the supervisor, the server, the stubs."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(state) in part for part in process.cmdline()) and process.status() != "zombie":
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write_echo(tmp_path / "model_repository")
    return tmp_path / "model_repository"


@pytest.fixture
def triton_at(
    repository: Path, triton_environment: Path, tmp_path: Path
) -> Iterator[Callable[..., EmbeddedTriton]]:
    """Makes embedded servers of one state directory; nothing of them is left after the test."""
    state = tmp_path / "state"

    def make(**options: float) -> EmbeddedTriton:
        return EmbeddedTriton(repository=repository, environment=triton_environment, state=state, **options)

    yield make
    make().stop()
    until(lambda: not processes_of(state), "processes of the state directory are gone")


@pytest.fixture
def resource(repository: Path, triton_environment: Path, tmp_path: Path) -> TritonResource:
    return TritonResource(
        repository=str(repository), environment=str(triton_environment), state=str(tmp_path / "state")
    )


def echoes(resource: TritonResource) -> bool:
    text = np.array([[b"one"], [b"two\x00"]], dtype=object)
    return bool((resource.infer("echo", {"text": text})["text"] == text).all())


def script(triton: str, repository: Path, environment: Path, state: Path) -> list[str]:
    """A Python process that does something with an `EmbeddedTriton` called `triton`."""
    made = f"EmbeddedTriton(repository=Path({str(repository)!r}), environment=Path({str(environment)!r}), "
    made += f"state=Path({str(state)!r}))"
    head = "from pathlib import Path\nfrom resources.embedded_triton import EmbeddedTriton\n"
    return [sys.executable, "-c", f"{head}triton = {made}\n{triton}"]


def test_many_processes_share_one_server(
    triton_at: Callable[..., EmbeddedTriton], repository: Path, triton_environment: Path, tmp_path: Path
) -> None:
    command = script("print(triton.ensure().server_pid)", repository, triton_environment, tmp_path / "state")
    asking = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {process.communicate(timeout=_PATIENCE_S)[0].strip() for process in asking}
    server = triton_at().status()
    assert server is not None
    assert answers == {str(server.server_pid)}
    names = [process.name() for process in processes_of(tmp_path / "state")]
    assert names.count("tritonserver") == 1


def test_only_the_one_that_starts_a_server_stops_it_on_leaving(
    triton_at: Callable[..., EmbeddedTriton],
) -> None:
    first, second = triton_at(), triton_at()
    with first as server:
        with second as same:
            assert same == server
            assert (first.started_here, second.started_here) == (True, False)
        assert first.status() == server
    assert first.status() is None


def test_stopping_leaves_no_process_and_no_port(
    triton_at: Callable[..., EmbeddedTriton], tmp_path: Path
) -> None:
    triton = triton_at()
    server = triton.ensure()
    ports = (server.grpc_port, server.http_port, server.metrics_port)
    assert all(listens(port) for port in ports)
    assert all(
        connection.laddr.ip.removeprefix("::ffff:") == "127.0.0.1"
        for connection in psutil.Process(server.server_pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    )
    assert triton.stop()
    assert not processes_of(tmp_path / "state")
    assert not any(listens(port) for port in ports)
    assert triton.status() is None
    assert not triton.stop()


def test_a_killed_server_comes_back_on_its_ports(
    triton_at: Callable[..., EmbeddedTriton], resource: TritonResource
) -> None:
    before = triton_at().ensure()
    assert echoes(resource)
    os.kill(before.server_pid, signal.SIGKILL)
    assert echoes(resource)
    after = triton_at().ensure()
    assert (after.pid, after.grpc_port) == (before.pid, before.grpc_port)
    assert after.server_pid != before.server_pid


def test_a_server_dies_with_its_supervisor_and_is_started_anew(
    triton_at: Callable[..., EmbeddedTriton], resource: TritonResource, tmp_path: Path
) -> None:
    before = triton_at().ensure()
    assert echoes(resource)
    os.kill(before.pid, signal.SIGKILL)
    until(lambda: not processes_of(tmp_path / "state"), "the server and its stubs died")
    assert triton_at().status() is None
    assert echoes(resource)
    after = triton_at().status()
    assert after is not None
    assert after.pid != before.pid


def test_a_server_whose_port_was_taken_moves(
    triton_at: Callable[..., EmbeddedTriton], resource: TritonResource
) -> None:
    before = triton_at().ensure()
    os.kill(before.pid, signal.SIGSTOP)
    os.kill(before.server_pid, signal.SIGKILL)
    with socket.socket() as taker:
        taker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def taken() -> bool:
            try:
                taker.bind(("127.0.0.1", before.grpc_port))
            except OSError:
                return False
            return True

        until(taken, "the port is free")
        taker.listen()
        os.kill(before.pid, signal.SIGCONT)
        until(lambda: _record(triton_at()).grpc_port != before.grpc_port, "the server moved")
        assert echoes(resource)
        assert triton_at().ensure().pid == before.pid


def _record(triton: EmbeddedTriton) -> EmbeddedServer:
    server = triton.status()
    assert server is not None
    return server


def test_a_server_for_another_configuration_is_replaced(
    triton_at: Callable[..., EmbeddedTriton], repository: Path
) -> None:
    first = triton_at().ensure()
    assert triton_at().ensure() == first
    config = repository / "echo/config.pbtxt"
    config.write_text(config.read_text() + "\n# another line\n")
    assert triton_at().ensure().pid != first.pid


def test_versions_and_models_made_later_are_loaded_by_the_running_server(
    triton_at: Callable[..., EmbeddedTriton], repository: Path, resource: TritonResource
) -> None:
    later = (repository / "echo/config.pbtxt").read_text().replace('"echo"', '"later"')
    (repository / "later").mkdir()
    (repository / "later/config.pbtxt").write_text(later)
    first = triton_at().ensure()
    assert resource.metadata("echo").version == "1"
    shutil.copytree(repository / "echo/1", repository / "later/1")
    shutil.copytree(repository / "echo/1", repository / "echo/2")
    assert triton_at().ensure() == first
    assert resource.metadata("echo").version == "2"
    assert resource.metadata("later").version == "1"


def test_an_idle_server_stops_by_itself(triton_at: Callable[..., EmbeddedTriton], tmp_path: Path) -> None:
    triton_at(idle_stop_s=0.5).ensure()
    until(lambda: not processes_of(tmp_path / "state"), "the idle server stopped")
    assert triton_at().status() is None


def test_a_model_that_cannot_be_loaded_is_named(
    triton_at: Callable[..., EmbeddedTriton], repository: Path, tmp_path: Path
) -> None:
    write_model(
        repository,
        "broken",
        """
        def initialize(self, args):
            raise RuntimeError("its weights are missing")
        """,
        inputs={"x": ("INT32", [1])},
        outputs={"y": ("INT32", [1])},
    )
    with pytest.raises(ServerUnavailableError) as caught:
        triton_at().ensure()
    message = str(caught.value)
    assert "broken" in message
    assert "its weights are missing" in message
    assert str(tmp_path / "state/server.log") in message
    assert "\n" not in message
    assert not processes_of(tmp_path / "state")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_start_leaves_nothing(
    how: signal.Signals,
    triton_at: Callable[..., EmbeddedTriton],
    repository: Path,
    triton_environment: Path,
    tmp_path: Path,
) -> None:
    write_model(
        repository,
        "endless",
        """
        def initialize(self, args):
            time.sleep(600)
        """,
        inputs={"x": ("INT32", [1])},
        outputs={"y": ("INT32", [1])},
    )
    state = tmp_path / "state"
    command = script("triton.ensure()", repository, triton_environment, state)
    starting = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    until(lambda: triton_at().status(), "the server is being started")
    starting.send_signal(how)
    starting.wait(_PATIENCE_S)
    until(lambda: not processes_of(state), "the half-started server is gone")


def test_serving_in_the_foreground_ends_with_an_interrupt(
    triton_at: Callable[..., EmbeddedTriton], repository: Path, triton_environment: Path, tmp_path: Path
) -> None:
    command = script(
        "triton.serve_foreground(lambda server: print(server.url, flush=True))",
        repository,
        triton_environment,
        tmp_path / "state",
    )
    for how in (signal.SIGINT, signal.SIGTERM):
        serving = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert serving.stdout is not None
        assert serving.stdout.readline().strip() == _record(triton_at()).url
        serving.send_signal(how)
        serving.communicate(timeout=_PATIENCE_S)
        assert serving.returncode == 0
        assert not processes_of(tmp_path / "state")


def test_a_missing_environment_names_the_command_that_makes_it(repository: Path, tmp_path: Path) -> None:
    triton = EmbeddedTriton(repository=repository, environment=tmp_path / "no-venv", state=tmp_path / "state")
    with pytest.raises(ConfigurationError, match=r"^.*no-venv holds no Triton server: run `make setup`$"):
        triton.ensure()


def test_a_repository_without_a_version_names_the_command_that_makes_one(
    triton_environment: Path, repository: Path, tmp_path: Path
) -> None:
    shutil.rmtree(repository / "echo/1")
    triton = EmbeddedTriton(repository=repository, environment=triton_environment, state=tmp_path / "state")
    with pytest.raises(ConfigurationError, match=r"no model in .* has a version: run `make setup`"):
        triton.ensure()


def test_the_server_sees_its_own_environment_only(
    toy_triton: TritonResource, triton_environment: Path
) -> None:
    seen = toy_triton.infer("surroundings", {"x": np.array([1], np.int32)})["seen"]
    lines = [one.decode() for one in seen]
    assert "OMP_NUM_THREADS=1" in lines
    packages = [line for line in lines if line.endswith("site-packages") and "=" not in line]
    assert packages
    assert all(Path(line).is_relative_to(triton_environment.absolute()) for line in packages)
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert not names & {"VIRTUAL_ENV", "PYTEST_CURRENT_TEST", "DAGSTER_HOME"}
