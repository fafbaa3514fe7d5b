import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@dataclass(frozen=True)
class Place:
    """A repository with one tiny model, and the state directory of its server."""

    repository: Path
    environment: Path
    state: Path

    def triton(self, **options: float) -> EmbeddedTriton:
        return EmbeddedTriton(repository=self.repository, environment=self.environment, state=self.state, **options)

    def server(self) -> EmbeddedServer:
        """The server that runs, as another process would see it."""
        server = self.triton().status()
        assert server is not None
        return server

    def resource(self) -> TritonResource:
        return TritonResource(repository=str(self.repository), environment=str(self.environment), state=str(self.state))

    def command(self, statement: str) -> list[str]:
        """A process that makes a statement about an `EmbeddedTriton` called `triton`."""
        paths = ", ".join(
            f"{name}=Path({str(getattr(self, name))!r})" for name in ("repository", "environment", "state")
        )
        lines = [
            "from pathlib import Path",
            "from resources.embedded_triton import EmbeddedTriton",
            f"triton = EmbeddedTriton({paths})",
            statement,
        ]
        return [sys.executable, "-c", "\n".join(lines)]

    def processes(self) -> list[psutil.Process]:
        """What lives and names the state directory: the supervisor, the server, the models' stubs."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() != "zombie" and any(str(self.state) in part for part in process.cmdline()):
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        return found

    def end(self) -> None:
        self.triton().stop()
        until(lambda: not self.processes(), "nothing of the server is left")


def echoes(resource: TritonResource) -> bool:
    text = np.array([[b"one"], [b"two\x00"]], dtype=object)
    return bool((resource.infer("echo", {"text": text})["text"] == text).all())


def _place(folder: Path, environment: Path) -> Place:
    write_echo(folder / "model_repository")
    return Place(folder / "model_repository", environment, folder / "state")


@pytest.fixture
def place(tmp_path: Path, triton_environment: Path) -> Iterator[Place]:
    made = _place(tmp_path, triton_environment)
    yield made
    made.end()


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory, triton_environment: Path) -> Iterator[Place]:
    """A place whose server outlives a test, for those that do not care whether it already runs."""
    made = _place(tmp_path_factory.mktemp("shared"), triton_environment)
    yield made
    made.end()


def test_many_processes_share_one_server(shared_place: Place) -> None:
    command = shared_place.command("print(triton.ensure().server_pid)")
    asking = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {process.communicate(timeout=_PATIENCE_S)[0].strip() for process in asking}
    assert answers == {str(shared_place.server().server_pid)}
    names = [process.name() for process in shared_place.processes()]
    assert names.count("tritonserver") == 1


def test_it_listens_on_the_loopback_interface_only(shared_place: Place) -> None:
    server = shared_place.triton().ensure()
    listening = [
        connection.laddr
        for connection in psutil.Process(server.server_pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert {address.port for address in listening} == {
        server.grpc_port,
        server.http_port,
        server.metrics_port,
    }


def test_a_killed_server_comes_back_on_its_ports(shared_place: Place) -> None:
    before = shared_place.triton().ensure()
    resource = shared_place.resource()
    assert echoes(resource)
    os.kill(before.server_pid, signal.SIGKILL)
    assert echoes(resource)
    after = shared_place.server()
    assert (after.pid, after.grpc_port) == (before.pid, before.grpc_port)
    assert after.server_pid != before.server_pid


def test_a_server_dies_with_its_supervisor_and_is_started_anew(shared_place: Place) -> None:
    before = shared_place.triton().ensure()
    resource = shared_place.resource()
    assert echoes(resource)
    stubs = [one for one in shared_place.processes() if one.pid not in {before.pid, before.server_pid}]
    assert stubs
    # As one that waits for a lock of the server when that dies: it does not see the end.
    stubs[0].suspend()
    os.kill(before.pid, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(before.server_pid), "the server died")
    assert shared_place.triton().status() is None
    assert echoes(resource)
    assert shared_place.server().pid != before.pid
    assert not any(one.is_running() and one.status() != "zombie" for one in stubs)


def test_a_server_whose_port_was_taken_moves(shared_place: Place) -> None:
    before = shared_place.triton().ensure()
    resource = shared_place.resource()
    assert echoes(resource)
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
        until(lambda: shared_place.server().grpc_port != before.grpc_port, "the server moved")
        assert echoes(resource)
        assert shared_place.triton().ensure().pid == before.pid


def test_a_server_for_another_configuration_is_replaced(shared_place: Place) -> None:
    first = shared_place.triton().ensure()
    assert shared_place.triton().ensure() == first
    config = shared_place.repository / "echo/config.pbtxt"
    config.write_text(config.read_text() + "\n# another line\n")
    assert shared_place.triton().ensure().pid != first.pid


def test_versions_and_models_made_later_are_loaded_by_the_running_server(place: Place) -> None:
    resource = place.resource()
    config = (place.repository / "echo/config.pbtxt").read_text()
    (place.repository / "later").mkdir()
    (place.repository / "later/config.pbtxt").write_text(config.replace('"echo"', '"later"'))
    first = place.triton().ensure()
    assert resource.metadata("echo").version == "1"

    for version in ("later/1", "echo/2"):
        shutil.copytree(place.repository / "echo/1", place.repository / version)
    assert place.triton().ensure() == first
    assert resource.metadata("echo").version == "2"
    assert resource.metadata("later").version == "1"

    (place.repository / "echo/3").mkdir()
    (place.repository / "echo/3/model.py").write_text("raise RuntimeError('wrong weights')\n")
    with pytest.raises(
        ServerUnavailableError, match=r"cannot load model 'echo': .*version 3 .*wrong weights"
    ) as caught:
        place.triton().ensure()
    assert "\n" not in str(caught.value)
    assert resource.metadata("echo").version == "2"
    assert echoes(resource)


def test_only_the_one_that_starts_a_server_stops_it_and_then_nothing_is_left(place: Place) -> None:
    first, second = place.triton(), place.triton()
    with first as server:
        with second as same:
            assert same == server
            assert (first.started_here, second.started_here) == (True, False)
        assert first.status() == server
        ports = (server.grpc_port, server.http_port, server.metrics_port)
        assert all(listens(port) for port in ports)
    assert first.status() is None
    assert not place.processes()
    assert not any(listens(port) for port in ports)
    assert not first.stop()


def test_an_idle_server_stops_by_itself(place: Place) -> None:
    place.triton(idle_stop_s=0.5).ensure()
    until(lambda: not place.processes(), "the idle server stopped")
    assert place.triton().status() is None


def test_serving_in_the_foreground_ends_with_an_interrupt(place: Place) -> None:
    command = place.command("triton.serve_foreground(lambda server: print(server.url, flush=True))")
    for how in (signal.SIGINT, signal.SIGTERM):
        serving = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert serving.stdout is not None
        assert serving.stdout.readline().strip() == place.server().url
        serving.send_signal(how)
        serving.communicate(timeout=_PATIENCE_S)
        assert serving.returncode == 0
        assert not place.processes()


def test_a_model_that_cannot_be_loaded_is_named(place: Place) -> None:
    write_model(
        place.repository,
        "broken",
        """
        def initialize(self, args):
            raise RuntimeError("its weights are missing")
        """,
        inputs={"x": ("INT32", [1])},
        outputs={"y": ("INT32", [1])},
    )
    with pytest.raises(ServerUnavailableError) as caught:
        place.triton().ensure()
    message = str(caught.value)
    assert "'broken'" in message
    assert "its weights are missing" in message
    assert str(place.state / "server.log") in message
    assert "\n" not in message
    assert not place.processes()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_start_leaves_nothing(place: Place, how: signal.Signals) -> None:
    write_model(
        place.repository,
        "endless",
        """
        def initialize(self, args):
            time.sleep(600)
        """,
        inputs={"x": ("INT32", [1])},
        outputs={"y": ("INT32", [1])},
    )
    starting = subprocess.Popen(place.command("triton.ensure()"), stderr=subprocess.DEVNULL)
    until(place.triton().status, "the server is being started")
    starting.send_signal(how)
    starting.wait(_PATIENCE_S)
    until(lambda: not place.processes(), "the half-started server is gone")


def test_a_missing_environment_names_the_command_that_makes_it(tmp_path: Path) -> None:
    place = _place(tmp_path, tmp_path / "no-venv")
    with pytest.raises(ConfigurationError, match=r"^.*no-venv holds no Triton server: run `make setup`$"):
        place.triton().ensure()


def test_a_repository_without_a_version_names_the_command_that_makes_one(
    tmp_path: Path, triton_environment: Path
) -> None:
    place = _place(tmp_path, triton_environment)
    shutil.rmtree(place.repository / "echo/1")
    with pytest.raises(ConfigurationError, match=r"no model in .* has a version: run `make setup`$"):
        place.triton().ensure()


def test_the_server_sees_its_own_environment_only(toy_triton: TritonResource, triton_environment: Path) -> None:
    seen = toy_triton.infer("surroundings", {"x": np.array([1], np.int32)})["seen"]
    lines = [one.decode() for one in seen]
    assert "OMP_NUM_THREADS=1" in lines
    packages = [line for line in lines if line.endswith("site-packages") and "=" not in line]
    assert packages
    assert all(Path(line).is_relative_to(triton_environment.absolute()) for line in packages)
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert not names & {"VIRTUAL_ENV", "PYTEST_CURRENT_TEST", "DAGSTER_HOME"}
