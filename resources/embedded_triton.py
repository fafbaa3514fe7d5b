"""A real Triton server on this machine, shared by every process that names the same state directory.

Deciding that a server is wanted, finding the one that runs, starting, waiting and stopping belong here.
Owning the process does not (`resources.triton_supervisor`), nor does talking tensors to it
(`resources.triton`).
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from resources.errors import ConfigurationError, ServerUnavailableError
from resources.server_environment import ServerEnvironment
from resources.triton_errors import one_line
from resources.triton_supervisor import (
    BACKENDS_NAME,
    EXIT_TIMEOUT_S,
    LOG_NAME,
    RECORD_NAME,
    USED_NAME,
    EmbeddedServer,
    end_leftovers,
    process_started,
    read_record,
    telling_line,
)

if TYPE_CHECKING:
    from resources.model_repository import ModelRepository

__all__ = ["EmbeddedServer", "EmbeddedTriton"]

_LOADED_NAME = "loaded"
_BACKENDS = Path(__file__).parent / "triton_backends"
_POLL_S = 0.1
_KEEP_ALIVE_S = 5.0
_OK = 200
_BAD_REQUEST = 400

# Kept so that an ended supervisor is reaped by its parent, whichever object asked for it.
_supervisors: dict[int, subprocess.Popen[bytes]] = {}


class EmbeddedTriton:
    """The one embedded server of a state directory, whichever process started it.

    As a context manager it gives the running server and, on leaving, stops it if this object started it.

    Args:
        repository: The model repository to serve.
        environment: The server's own Python environment, made by `make setup`.
        state: Where the server's record, lock, log and backends are kept; made if missing.
        idle_stop_s: Seconds without a request after which the server stops by itself; 0 for never.
        ready_timeout_s: Seconds that starting, up to every model being ready, may take.
        model_config_name: Reads `configs/<name>.pbtxt` of each model where there is one.
    """

    def __init__(
        self,
        *,
        repository: Path,
        environment: Path,
        state: Path,
        idle_stop_s: float = 900.0,
        ready_timeout_s: float = 60.0,
        model_config_name: str | None = None,
    ) -> None:
        self._repository = repository.absolute()
        self._environment = environment.absolute()
        self._state = state.absolute()
        self._idle_stop_s = idle_stop_s
        self._ready_timeout_s = ready_timeout_s
        self._model_config_name = model_config_name or ""
        self.started_here = False
        """Whether a call of `ensure` on this object started the server that now runs."""

    def ensure(self) -> EmbeddedServer:
        """Gives the running server, or starts one; every servable model is then ready.

        A server that was started for other configurations, backends or another environment is replaced; one
        that runs on loads, without a gap, the versions that came since. Safe for many processes at once: one
        starts the server, the others wait for it.

        Raises:
            ConfigurationError: The server's environment or the models are missing, or this is not Linux.
            ServerUnavailableError: The server, or one of its models, did not become ready; quotes why.
        """
        environment = ServerEnvironment.find(self._environment)
        models = self._servable_models()
        fingerprint = self._fingerprint(environment)
        with self._locked():
            (self._state / USED_NAME).touch()
            server = self.status()
            if server is not None and server.fingerprint == fingerprint:
                with contextlib.suppress(_GoneError):
                    return self._refresh(server, models)
            if server is not None:
                self._end(server)
            return self._start(environment, models, fingerprint)

    def status(self) -> EmbeddedServer | None:
        """The running server of this state directory, or None; starts nothing."""
        for process in list(_supervisors.values()):
            if process.poll() is not None:
                _supervisors.pop(process.pid, None)
        return read_record(self._state)

    def stop(self) -> bool:
        """Stops the server, whoever started it; gives whether there was one."""
        if not self._state.is_dir():
            return False
        with self._locked():
            server = self.status()
            if server is not None:
                self._end(server)
            end_leftovers(self._state)
            return server is not None

    def serve_foreground(self, on_ready: Callable[[EmbeddedServer], None] = lambda _server: None) -> None:
        """Serves until Ctrl-C or SIGTERM, then stops the server if this call started it.

        Args:
            on_ready: Told once where the server listens.

        Raises:
            ServerUnavailableError: The server did not start, or ended and could not be brought back.
        """

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            raise KeyboardInterrupt

        in_main_thread = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGTERM, interrupt) if in_main_thread else None
        try:
            with contextlib.suppress(KeyboardInterrupt), self as server:
                on_ready(server)
                self._keep_alive()
        finally:
            if before is not None:
                signal.signal(signal.SIGTERM, before)

    def __enter__(self) -> EmbeddedServer:
        return self.ensure()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.started_here:
            self.stop()

    def _keep_alive(self) -> None:
        log = self._state / LOG_NAME
        while self.status() is not None:
            (self._state / USED_NAME).touch()
            time.sleep(_KEEP_ALIVE_S)
        raise ServerUnavailableError(f"the embedded Triton server ended: {telling_line(log)} (log: {log})")

    def _models(self) -> ModelRepository:
        from resources.model_repository import ModelRepository

        return ModelRepository(self._repository)

    def _servable_models(self) -> list[str]:
        repository = self._models()
        models = [model for model in repository.models() if repository.version_folders(model)]
        if not models:
            raise ConfigurationError(f"no model in {self._repository} has a version: run `make setup`")
        return models

    def _fingerprint(self, environment: ServerEnvironment) -> str:
        """A hash of what a running server cannot take up: all but the models' versions and which are named."""
        from resources.version_pins import without_pins

        repository = self._models()
        digest = hashlib.sha256()
        for text in (self._repository, environment.site_packages, self._model_config_name):
            digest.update(f"{text}\0".encode())
        configs = [path for model in repository.models() for path in repository.configs(model)]
        contents = {path: without_pins(path.read_text(encoding="utf-8")).encode() for path in configs}
        contents |= {path: path.read_bytes() for path in sorted(_BACKENDS.rglob("*.py"))}
        for path, content in contents.items():
            digest.update(f"{path}\0{hashlib.sha256(content).hexdigest()}\0".encode())
        return digest.hexdigest()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        import filelock

        self._state.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(self._state / "lock", timeout=2 * self._ready_timeout_s + 2 * EXIT_TIMEOUT_S)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise ServerUnavailableError(
                f"another process holds {lock.lock_file} for too long: end it and try again"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _compose_backends(self, environment: ServerEnvironment) -> None:
        """Puts together the folder from which the server takes its backends."""
        root = self._state / BACKENDS_NAME
        shutil.rmtree(root, ignore_errors=True)
        unwanted = shutil.ignore_patterns("__pycache__")
        # Copied, because a backend written in Python may not use a library that is a link to elsewhere.
        shutil.copytree(environment.python_backend, root / "python", ignore=unwanted)
        # Linked, because the stub finds its own libraries by where it really is.
        (root / "python" / environment.stub.name).symlink_to(environment.stub)
        for model in _BACKENDS.glob("*/model.py"):
            shutil.copytree(model.parent, root / model.parent.name, ignore=unwanted)

    def _start(self, environment: ServerEnvironment, models: Sequence[str], fingerprint: str) -> EmbeddedServer:
        self._compose_backends(environment)
        log_file = self._state / LOG_NAME
        if log_file.exists():
            log_file.replace(log_file.with_suffix(".log.1"))
        command = [
            sys.executable,
            "-m",
            "resources.triton_supervisor",
            f"--repository={self._repository}",
            f"--environment={environment.path}",
            f"--site-packages={environment.site_packages}",
            f"--library-path={environment.library_path}",
            f"--state={self._state}",
            f"--fingerprint={fingerprint}",
            f"--model-config-name={self._model_config_name}",
            f"--idle-stop-s={self._idle_stop_s}",
            *(f"--model={model}" for model in models),
        ]
        root = str(Path(__file__).parents[1])
        paths = [root, os.environ.get("PYTHONPATH", "")]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
        supervisor: subprocess.Popen[bytes] | None = None
        try:
            with log_file.open("wb") as log:
                # Its input stays open until the server is ready: if this process ends before it says so,
                # in whatever way, the supervisor reads the end of the file and stops.
                supervisor = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env=variables,
                    cwd=self._state,
                    start_new_session=True,
                )
            _supervisors[supervisor.pid] = supervisor
            server = self._await_record(supervisor)
            current = self._models().fingerprint()
            server = self._await_models(server, models, stale=set(), load_missing=False)
            (self._state / _LOADED_NAME).write_text(current, encoding="utf-8")
            if supervisor.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    supervisor.stdin.write(b"1")
                    supervisor.stdin.close()
        except _GoneError:
            raise ServerUnavailableError(
                f"the embedded Triton server did not start: {telling_line(log_file)} (log: {log_file})"
            ) from None
        except BaseException:
            if supervisor is not None:
                self._end_process(supervisor.pid, process_started(supervisor.pid))
            raise
        self.started_here = True
        return server

    def _await_record(self, supervisor: subprocess.Popen[bytes]) -> EmbeddedServer:
        deadline = time.monotonic() + self._ready_timeout_s
        while time.monotonic() < deadline:
            if supervisor.poll() is not None:
                raise _GoneError
            server = read_record(self._state)
            if server is not None and server.pid == supervisor.pid:
                return server
            time.sleep(_POLL_S / 5)
        raise self._not_ready([])

    def _refresh(self, server: EmbeddedServer, models: Sequence[str]) -> EmbeddedServer:
        """Has a running server load what its repository got since it was last looked at."""
        current, loaded = self._models().fingerprint(), self._state / _LOADED_NAME
        known = loaded.read_text(encoding="utf-8") if loaded.exists() else ""
        server = self._await_models(server, models, stale=set() if known == current else set(models), load_missing=True)
        loaded.write_text(current, encoding="utf-8")
        return server

    def _await_models(
        self, server: EmbeddedServer, models: Sequence[str], *, stale: set[str], load_missing: bool
    ) -> EmbeddedServer:
        """Waits until the server has every model ready, the stale ones loaded again; gives it as it then is.

        Raises:
            _GoneError: The supervisor ended meanwhile.
            ServerUnavailableError: The time is over, or a model cannot be loaded.
        """
        deadline = time.monotonic() + self._ready_timeout_s
        pending = set(models)
        while True:
            # A supervisor that starts its server again may have moved it to other ports.
            server = read_record(self._state) or server
            if process_started(server.pid) != server.pid_started:
                raise _GoneError
            if _http(server, "GET", "/v2/health/live")[0] == _OK:
                for name in sorted(stale):
                    self._load(server, name)
                pending = {name for name in models if not _is_ready(server, name)}
                stale = pending if load_missing else set()
                if not pending:
                    return server
            if time.monotonic() > deadline:
                raise self._not_ready(sorted(pending))
            time.sleep(_POLL_S)

    def _load(self, server: EmbeddedServer, model: str) -> None:
        path = f"/v2/repository/models/{model}/load"
        status, body = _http(server, "POST", path, timeout_s=self._ready_timeout_s)
        if status < _BAD_REQUEST:
            return
        with contextlib.suppress(ValueError):
            body = str(json.loads(body).get("error", body))
        raise ServerUnavailableError(
            f"the embedded Triton server cannot load model {model!r}: {one_line(body)} (log: {server.log_file})"
        )

    def _not_ready(self, pending: Sequence[str]) -> ServerUnavailableError:
        log = self._state / LOG_NAME
        what = f"models {', '.join(pending)} were" if pending else "the embedded Triton server was"
        return ServerUnavailableError(
            f"{what} not ready within {self._ready_timeout_s:g} s: {telling_line(log)} (log: {log})"
        )

    def _end(self, server: EmbeddedServer) -> None:
        self._end_process(server.pid, server.pid_started)
        # A killed supervisor takes its server along but cannot remove its record.
        (self._state / RECORD_NAME).unlink(missing_ok=True)
        self.started_here = False

    def _end_process(self, pid: int, started: int | None) -> None:
        for number, wait_s in ((signal.SIGTERM, 2 * EXIT_TIMEOUT_S + 2), (signal.SIGKILL, EXIT_TIMEOUT_S)):
            if started is None or process_started(pid) != started:
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            deadline = time.monotonic() + wait_s
            while process_started(pid) == started and time.monotonic() < deadline:
                time.sleep(_POLL_S / 5)
        child = _supervisors.pop(pid, None)
        if child is not None:
            if child.stdin is not None:
                child.stdin.close()
            child.wait()


class _GoneError(Exception):
    """The supervisor ended while something was waiting for its server."""


def _http(server: EmbeddedServer, method: str, path: str, *, timeout_s: float = 5.0) -> tuple[int, str]:
    """The status and body of a call of the server's HTTP endpoint; status 0 if nothing answers."""
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=timeout_s)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()


def _is_ready(server: EmbeddedServer, model: str) -> bool:
    return _http(server, "GET", f"/v2/models/{model}/ready")[0] == _OK
