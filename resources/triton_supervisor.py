"""The process that owns the embedded tritonserver: it starts, watches, restarts and stops it.

Run as `python -m resources.triton_supervisor`, by `resources.embedded_triton` only, which decides when a
server is wanted. Nothing here knows models or tensors. Standard library only: it lives next to every run,
so it stays small and starts fast.
"""

import argparse
import contextlib
import ctypes
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

BACKENDS_NAME = "backends"
RECORD_NAME = "server.json"
LOG_NAME = "server.log"
USED_NAME = "last_used"
EXIT_TIMEOUT_S = 5
"""Seconds that tritonserver gives running requests when it is told to stop."""

_HOST = "127.0.0.1"
_PR_SET_PDEATHSIG = 1
_MAX_FAILED_STARTS = 5
_MAX_CRASHES = 100
_SERVES = b"Started GRPCInferenceService"
_MAX_PORT_CHANGES = 5
_PORT_TAKEN = "already in use"
_STABLE_S = 60.0
_BACK_OFF_S = (0.0, 1.0, 2.0, 4.0, 8.0)
_ACKNOWLEDGED = b"1"
_OWN_MARK = " supervisor: "
_TELLING = (
    re.compile(r"Z E \d+ \S+\] \"(failed to load '.+' version .+)\"?$"),
    re.compile(r"^((?:error|failed to start|Fatal Python error)\b.+)$"),
    re.compile(r"Z E \d+ \S+\] \"(?!CudaDriverHelper)(.+?)\"?$"),
)
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True)
class EmbeddedServer:
    """A tritonserver of this machine and the supervisor that owns it, as its state directory records them.

    Attributes:
        pid: The supervisor's process; ending it ends the server.
        pid_started: The supervisor's start, in clock ticks since boot: tells it from a later process
            with the same id.
        server_pid: The tritonserver process; changes when the supervisor restarts it.
        grpc_port: The port, on the loopback interface only, of the inference protocol.
        http_port: The same protocol over HTTP.
        metrics_port: Prometheus metrics.
        fingerprint: What the server was started for: configurations, code, environment.
        started_at: ISO 8601 in UTC.
        log_file: The log of the supervisor and the server.
    """

    pid: int
    pid_started: int
    server_pid: int
    grpc_port: int
    http_port: int
    metrics_port: int
    fingerprint: str
    started_at: str
    log_file: Path

    @property
    def url(self) -> str:
        """Host and port of the gRPC endpoint."""
        return f"{_HOST}:{self.grpc_port}"


def process_started(pid: int) -> int | None:
    """The start of a live process in clock ticks since boot; None if there is none (a zombie is none)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name is in parentheses and may hold anything; the fields after it are plain.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def read_record(state: Path) -> EmbeddedServer | None:
    """The server whose supervisor is alive in a state directory, or None."""
    try:
        fields = json.loads((state / RECORD_NAME).read_text(encoding="utf-8"))
        server = EmbeddedServer(**{**fields, "log_file": Path(fields["log_file"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return server if process_started(server.pid) == server.pid_started else None


def telling_line(log_file: Path, since: int = 0) -> str:
    """The line of a server log that best says why the server ended; empty if there is none.

    Args:
        log_file: The log.
        since: The offset in bytes from which to read.
    """
    try:
        with log_file.open("rb") as log:
            log.seek(since)
            text = log.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip() and _OWN_MARK not in line]
    for pattern in _TELLING:
        for line in reversed(lines):
            if found := pattern.search(line):
                # The server writes a message of several lines as one, its line ends escaped.
                return found.group(1).partition("\\n")[0].strip()
    return lines[-1] if lines else ""


def shared_memory_prefix(state: Path) -> str:
    """The start of the names of the shared-memory regions that the server of a state directory makes."""
    return f"embedded_triton_{state.stat().st_dev:x}_{state.stat().st_ino:x}_"


def end_leftovers(state: Path) -> None:
    """Ends the models' processes of a server of a state directory that is gone.

    They notice its end and go by themselves, unless it died while it held a lock that they wait for.
    """
    own = f"{state / BACKENDS_NAME}/".encode()
    for commandline in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if commandline.read_bytes().startswith(own):
                os.kill(int(commandline.parent.name), signal.SIGKILL)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((_HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _say(message: str) -> None:
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    sys.stdout.write(f"{stamp}{_OWN_MARK}{message}\n")
    sys.stdout.flush()


class _Signals:
    """Turns the signals that matter into something that a wait can wake up on."""

    def __init__(self) -> None:
        self.stop = False
        self._read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)

    def _on_stop(self, _number: int, _frame: object) -> None:
        self.stop = True

    def wait(self, timeout_s: float, *extra: int) -> list[int]:
        """Waits for a signal or for input on one of the extra descriptors; gives those with input."""
        ready, _, _ = select.select([self._read, *extra], [], [], max(timeout_s, 0))
        if self._read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._read, 4096)
        return [one for one in ready if one != self._read]


class _Supervisor:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._state: Path = options.state
        self._signals = _Signals()
        self._acknowledged = False
        self._child: subprocess.Popen[bytes] | None = None
        self._ports = _free_ports(3)
        self._prefix = shared_memory_prefix(self._state)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._activity = (-1.0, time.monotonic())
        self._log_start = 0

    def run(self) -> int:
        """Keeps a server alive until told to stop, idle, or hopeless; gives the exit status."""
        crashes = failed_starts = port_changes = 0
        try:
            while not self._signals.stop:
                self._start()
                began = time.monotonic()
                if self._watch():
                    return 0
                crashes = 1 if time.monotonic() - began > _STABLE_S else crashes + 1
                # A server that served and then died may have died of a request: its sender knows when to give up.
                failed_starts = 0 if self._served() else failed_starts + 1
                reason = self._ending()
                self._end()
                if _PORT_TAKEN in reason and port_changes < _MAX_PORT_CHANGES:
                    port_changes += 1
                    self._ports = _free_ports(3)
                elif not self._acknowledged:
                    # A server that was never ready will not become so by itself.
                    _say(f"the server did not start: {reason}")
                    return 1
                elif failed_starts >= _MAX_FAILED_STARTS or crashes >= _MAX_CRASHES:
                    _say(f"gave up after {crashes} crashes in a row; the last: {reason}")
                    return 1
                else:
                    _say(f"the server ended by itself (crash {crashes} of {_MAX_CRASHES}): {reason}")
                    self._pause(_BACK_OFF_S[min(failed_starts, len(_BACK_OFF_S) - 1)])
            return 0
        finally:
            self._end()
            (self._state / RECORD_NAME).unlink(missing_ok=True)

    def _start(self) -> None:
        grpc_port, http_port, metrics_port = self._ports
        environment: Path = self._options.environment
        site_packages: Path = self._options.site_packages
        command = [
            str(site_packages / "pytriton/tritonserver/bin/tritonserver"),
            f"--model-repository={self._options.repository}",
            "--model-control-mode=explicit",
            *(f"--load-model={model}" for model in self._options.model),
            f"--backend-directory={self._state / BACKENDS_NAME}",
            f"--backend-config=python,shm-region-prefix-name={self._prefix}",
            f"--grpc-address={_HOST}",
            f"--grpc-port={grpc_port}",
            f"--http-address={_HOST}",
            f"--http-port={http_port}",
            f"--metrics-address={_HOST}",
            f"--metrics-port={metrics_port}",
            f"--exit-timeout-secs={EXIT_TIMEOUT_S}",
            "--strict-readiness=true",
            "--log-format=ISO8601",
        ]
        if self._options.model_config_name:
            command.append(f"--model-config-name={self._options.model_config_name}")
        variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        variables |= dict.fromkeys(_THREADS, "1")
        variables |= {
            # The Python backend's stub runs the first `python` on PATH.
            "PATH": f"{environment / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(site_packages),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        if self._options.library_path:
            paths = [self._options.library_path, variables.get("LD_LIBRARY_PATH", "")]
            variables["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
        end_leftovers(self._state)
        self._sweep_shared_memory()
        self._log_start = (self._state / LOG_NAME).stat().st_size
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            env=variables,
            cwd=self._state,
            start_new_session=True,
            preexec_fn=self._die_with_parent,  # noqa: PLW1509  # this process has one thread
        )
        self._write_record(self._child.pid)

    def _die_with_parent(self) -> None:
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._options.own_pid:
            os._exit(1)

    def _write_record(self, server_pid: int) -> None:
        own = os.getpid()
        grpc_port, http_port, metrics_port = self._ports
        server = EmbeddedServer(
            pid=own,
            pid_started=process_started(own) or 0,
            server_pid=server_pid,
            grpc_port=grpc_port,
            http_port=http_port,
            metrics_port=metrics_port,
            fingerprint=self._options.fingerprint,
            started_at=self._options.started_at,
            log_file=self._state / LOG_NAME,
        )
        fields = {**asdict(server), "log_file": str(server.log_file)}
        draft = self._state / f"{RECORD_NAME}.{own}"
        draft.write_text(json.dumps(fields, indent=1), encoding="utf-8")
        draft.replace(self._state / RECORD_NAME)

    def _watch(self) -> bool:
        """Waits while the server runs; True if it is to be stopped, False if it ended by itself."""
        idle_stop_s: float = self._options.idle_stop_s
        every_s = max(min(idle_stop_s / 4, 15.0), 0.2)
        self._activity = (-1.0, time.monotonic())
        while self._child is not None and self._child.poll() is None:
            if self._signals.stop:
                return True
            if not self._acknowledged:
                if self._signals.wait(every_s, sys.stdin.fileno()):
                    if os.read(sys.stdin.fileno(), 1) != _ACKNOWLEDGED:
                        _say("whoever asked for the server is gone before it was ready; stopping")
                        return True
                    self._acknowledged = True
                    _say("ready")
                continue
            self._signals.wait(every_s)
            if idle_stop_s > 0 and self._idle_s() > idle_stop_s:
                _say(f"no request for {idle_stop_s:g} s; stopping")
                return True
        return self._signals.stop

    def _idle_s(self) -> float:
        """Seconds since something was last asked of the server, or since someone asked for the server."""
        seen, since = self._activity
        counted = _requests(self._ports[2])
        if counted is None or counted != seen:
            self._activity = (seen if counted is None else counted, time.monotonic())
            return 0.0
        idle = time.monotonic() - since
        with contextlib.suppress(OSError):
            idle = min(idle, time.time() - (self._state / USED_NAME).stat().st_mtime)
        return idle

    def _served(self) -> bool:
        """Whether the server came as far as taking requests: it listens when its models are loaded."""
        with (self._state / LOG_NAME).open("rb") as log:
            log.seek(self._log_start)
            return any(_SERVES in line for line in log)

    def _ending(self) -> str:
        status = self._child.returncode if self._child is not None else 0
        line = telling_line(self._state / LOG_NAME, self._log_start)
        return f"{line} (signal {-status})" if status < 0 else f"{line} (exit status {status})"

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._signals.stop and time.monotonic() < until:
            self._signals.wait(until - time.monotonic())

    def _end(self) -> None:
        """Stops the server and what it started, and removes what they left in shared memory."""
        if self._child is None:
            return
        if self._child.poll() is None:
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(EXIT_TIMEOUT_S + 5)
        # The server leads its own group: this reaches the stubs that a crash left behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        self._child = None
        self._sweep_shared_memory()

    def _sweep_shared_memory(self) -> None:
        for region in Path("/dev/shm").glob(f"{self._prefix}*"):  # noqa: S108
            region.unlink(missing_ok=True)


def _requests(metrics_port: int) -> float | None:
    """Requests the server has seen or holds, summed over models; None if it does not say or some wait."""
    connection = http.client.HTTPConnection(_HOST, metrics_port, timeout=5)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if sum(_values(text, "nv_inference_pending_request_count")) > 0:
        return None
    counters = ("nv_inference_request_success", "nv_inference_request_failure")
    return sum(sum(_values(text, name)) for name in counters)


def _values(metrics: str, name: str) -> Iterator[float]:
    for line in metrics.splitlines():
        if line.startswith((name + "{", name + " ")):
            with contextlib.suppress(ValueError):
                yield float(line.rpartition(" ")[2])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m resources.triton_supervisor", description=__doc__)
    for name in ("repository", "environment", "site-packages", "state"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--library-path", default="")
    parser.add_argument("--fingerprint", required=True)
    parser.add_argument("--model-config-name", default="")
    parser.add_argument("--idle-stop-s", type=float, required=True)
    parser.add_argument("--model", action="append", default=[])
    options = parser.parse_args()
    options.own_pid = os.getpid()
    options.started_at = datetime.now(UTC).isoformat(timespec="seconds")
    return options


if __name__ == "__main__":
    sys.exit(_Supervisor(_options()).run())
