"""What a server does to its callers when it is busy, dies or is one of several; all against real servers."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2

from resources.embedded_triton import EmbeddedServer, EmbeddedTriton
from resources.errors import ConfigurationError, ServerUnavailableError
from resources.triton import (
    InferencePausedError,
    InferenceTimeoutError,
    ModelCrashError,
    ModelInferenceError,
    ModelNotReadyError,
    ServerBusyError,
    TritonResource,
)
from resources.triton_endpoints import endpoints
from resources.triton_pause import PauseSwitch
from tests.resources.conftest import write_model, write_rows
from tests.resources.fake_triton import FakeTriton, serving

pytestmark = pytest.mark.integration

PATIENCE_S = 40.0
KILLER, FATAL_TO_STUB = 13, 7
QUEUE = 10


def column(*values: int) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32).reshape(-1, 1)


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resilience") / "model_repository"
    write_rows(folder, "repeat", "np.repeat(x, 4, axis=1).astype(np.float32)")
    queue = f"dynamic_batching {{ default_queue_policy {{ max_queue_size: {QUEUE} }} }}\n"
    for name, body, more in (
        ("waiting", "time.sleep(x[0, 0] / 1000)", queue),
        (
            "fragile",
            f"""
            if {KILLER} in x:
                os.kill(os.getppid(), 9)
                time.sleep(60)
            if {FATAL_TO_STUB} in x:
                os.kill(os.getpid(), 9)
            """,
            "",
        ),
    ):
        write_model(
            folder,
            name,
            "def execute(self, requests):\n"
            "    return [self.answer(given(request, 'x')) for request in requests]\n\n"
            "def answer(self, x):\n" + _indented(body) + "    return answer(y=x.astype(np.float32))\n",
            inputs={"x": ("INT32", [1])},
            outputs={"y": ("FP32", [1])},
            max_batch_size=1 if more else 8,
        )
        config = folder / name / "config.pbtxt"
        config.write_text(config.read_text() + more)
    return folder


def _indented(body: str) -> str:
    lines = [line for line in body.splitlines() if line.strip()]
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    return "".join(f"    {line[margin:]}\n" for line in lines)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [tmp_path_factory.mktemp(f"state_{name}") for name in "ab"]


@pytest.fixture(scope="module")
def servers(repository: Path, triton_environment: Path, states: list[Path]) -> Iterator[list[EmbeddedServer]]:
    """Two servers of the same models."""
    made = [EmbeddedTriton(repository=repository, environment=triton_environment, state=state) for state in states]
    try:
        with ThreadPoolExecutor(2) as pool:
            yield list(pool.map(EmbeddedTriton.ensure, made))
    finally:
        for one in made:
            one.stop()


@pytest.fixture
def embedded(
    servers: list[EmbeddedServer], repository: Path, triton_environment: Path, states: list[Path]
) -> TritonResource:
    """The first server, as the embedded one."""
    return TritonResource(repository=str(repository), environment=str(triton_environment), state=str(states[0]))


@pytest.fixture
def single(servers: list[EmbeddedServer]) -> TritonResource:
    """The first server, by its address."""
    return TritonResource(url=servers[0].url)


@pytest.fixture
def both(servers: list[EmbeddedServer]) -> TritonResource:
    return TritonResource(url=", ".join(one.url for one in servers))


def options(triton: TritonResource, **changed: object) -> TritonResource:
    return TritonResource(**{**triton.model_dump(), **changed})


def statistics(url: str, model: str) -> tuple[int, int]:
    """Rows inferred, and requests waiting."""
    client = endpoints.get(url).client
    inferred = client.get_inference_statistics(model).model_stats[0].inference_count
    return int(inferred), endpoints.get(url).in_flight


def pending(server: EmbeddedServer, model: str) -> float:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics") as answer:
        text = answer.read().decode()
    lines = [line for line in text.splitlines() if line.startswith("nv_inference_pending_request_count{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines if f'"{model}"' in line)


def test_a_full_queue_is_waited_out(single: TritonResource) -> None:
    crowd = options(single, in_flight=2 * QUEUE)
    answers = list(crowd.infer_many("waiting", [{"x": column(50)}] * (2 * QUEUE)))
    assert len(answers) == 2 * QUEUE


def test_what_was_given_up_leaves_the_servers_queue(servers: list[EmbeddedServer], single: TritonResource) -> None:
    server = servers[0]
    before, _ = statistics(server.url, "waiting")
    answers = options(single, in_flight=QUEUE).infer_each("waiting", [{"x": column(1)}, *[{"x": column(300)}] * QUEUE])
    next(answers)
    until(lambda: pending(server, "waiting") >= QUEUE - 3, "requests wait")
    answers.close()
    assert endpoints.get(server.url).in_flight == 0
    until(lambda: pending(server, "waiting") == 0, "the queue is empty")
    # The model's one instance takes its requests in turn, so it is through with the others when it answers.
    single.infer("waiting", {"x": column(1)})
    # Of the others, only what the scheduler had handed to the instance was run.
    assert statistics(server.url, "waiting")[0] - before <= 2 + 4


def test_several_servers_share_the_load(both: TritonResource) -> None:
    urls = both.url.split(", ")
    before = [statistics(url, "waiting")[0] for url in urls]
    answers = list(options(both, in_flight=4).infer_many("waiting", [{"x": column(50)}] * 16))
    assert len(answers) == 16
    shares = [statistics(url, "waiting")[0] - count for url, count in zip(urls, before, strict=True)]
    assert sum(shares) == 16
    assert min(shares) >= 4
    end = endpoints.get(urls[0]).sent()
    chosen = {endpoints.choose(urls, "waiting", "").url for _ in range(20)}
    end()
    assert chosen == {urls[1]}


def test_a_server_without_the_model_is_passed_over(both: TritonResource, single: TritonResource) -> None:
    single.unload_model("repeat")
    try:
        until(lambda: not endpoints.get(single.url).client.is_model_ready("repeat"), "unloaded")
        endpoints.get(single.url)._ready_until.clear()  # as if it had not been asked lately
        states = {one.name: one.state for one in both.models()}
        assert states["repeat"] != "READY"
        answers = list(both.infer_many("repeat", [{"x": column(one)} for one in range(20)]))
        assert [one["y"][0, 0] for one in answers] == list(range(20))
    finally:
        both.load_model("repeat")
    assert all(endpoints.get(url).client.is_model_ready("repeat") for url in both.url.split(", "))
    with pytest.raises(ModelNotReadyError, match=r"model 'absent' is not ready at 127.*, 127.*holds no such model"):
        both.infer("absent", {"x": column(1)})


def test_the_requests_of_a_server_that_dies_go_to_the_others(
    servers: list[EmbeddedServer], both: TritonResource
) -> None:
    answers = both.infer_many("waiting", [{"x": column(one)} for one in range(20, 50)])
    got = [next(answers)]
    # With its supervisor, so that it does not come back.
    os.kill(servers[1].pid, signal.SIGKILL)
    got += answers
    assert [one["y"][0, 0] for one in got] == list(range(20, 50))
    assert endpoints.get(both.url.split(", ")[1]).in_flight == 0


def test_no_server_at_all_is_one_line() -> None:
    nobody = TritonResource(url="127.0.0.1:2,127.0.0.1:3", attempts=2)
    line = r"^no Triton server answers at 127.0.0.1:2, 127.0.0.1:3: check TRITON_URL"
    for _ in range(4):
        with pytest.raises(ServerUnavailableError, match=line):
            nobody.server_version()


@pytest.mark.parametrize("url", ["http://host:8001", "host", ",", "a:8001,b"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="write host:port"):
        TritonResource(url=url).server_version()


def test_a_pause_stops_a_run_and_those_to_come(single: TritonResource, tmp_path: Path) -> None:
    triton = options(single, state=str(tmp_path))
    switch = PauseSwitch(tmp_path)
    answers = triton.infer_many("repeat", [{"x": column(1)}] * 50)
    next(answers)
    switch.turn_off("a new\nGPU")
    with pytest.raises(InferencePausedError, match=r"paused by \S+ at 20\S+ \(a new GPU\): `feedback triton resume`"):
        list(answers)
    with pytest.raises(InferencePausedError):
        triton.infer("repeat", {"x": column(1)})
    assert triton.server_version()
    switch.turn_on()
    assert triton.infer("repeat", {"x": column(1)})["y"].shape == (1, 4)
    assert endpoints.get(single.url).in_flight == 0


@pytest.mark.parametrize("deadly", [FATAL_TO_STUB, KILLER])
def test_a_request_that_kills_is_told_from_its_neighbours(embedded: TritonResource, deadly: int) -> None:
    values = [[1, 2], [3, deadly], [4, 5], [6]]
    answers = list(embedded.infer_each("fragile", [{"x": column(*one)} for one in values]))
    assert [type(one) for one in answers] == [dict, ModelCrashError, dict, dict]
    assert [one["y"].ravel().tolist() for one in answers if isinstance(one, dict)] == [[1, 2], [4, 5], [6]]
    assert "died 3 times" in str(answers[1])
    assert "\n" not in str(answers[1])


class _Moody(FakeTriton):
    """Answers with the errors that it was given, then as it should."""

    datatype = "INT32"
    shape = (-1, 1)

    def __init__(self) -> None:
        self.errors: list[tuple[grpc.StatusCode, str]] = []
        self.priorities: list[int] = []

    def ModelInfer(self, request, context):  # noqa: N802
        self.priorities.append(request.parameters["priority"].uint64_param)
        if self.errors:
            context.abort(*self.errors.pop(0))
        response = service_pb2.ModelInferResponse(model_name=request.model_name, model_version="1")
        response.outputs.add(name="y", datatype="INT32", shape=[1, 1])
        response.raw_output_contents.append(request.raw_input_contents[0])
        return response


@pytest.fixture
def moody() -> Iterator[tuple[TritonResource, _Moody]]:
    servicer = _Moody()
    with serving(servicer) as url:
        yield TritonResource(url=url, timeout_s=10, attempts=3, priority=2), servicer


@pytest.mark.parametrize(
    ("code", "text", "sent"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Server is stopping", 2),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", 2),
        (grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size", 2),
        (grpc.StatusCode.UNAVAILABLE, "Request timeout expired", 2),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", 2),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "too many requests", 2),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 8)", 1),
        (grpc.StatusCode.INVALID_ARGUMENT, "unexpected shape", 1),
        (grpc.StatusCode.INTERNAL, "division by zero", 1),
    ],
)
def test_only_what_may_pass_is_sent_again(
    moody: tuple[TritonResource, _Moody], code: grpc.StatusCode, text: str, sent: int
) -> None:
    triton, server = moody
    server.errors = [(code, text)]
    [answer] = triton.infer_each("any", [{"x": column(5)}])
    assert server.priorities == [2] * sent
    if sent > 1:
        assert isinstance(answer, dict)
        assert answer["y"].tolist() == [[5]]
    else:
        assert isinstance(answer, ModelInferenceError)
        assert text in str(answer)


def test_a_full_queue_does_not_use_up_the_attempts(moody: tuple[TritonResource, _Moody]) -> None:
    triton, server = moody
    full = (grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size")
    server.errors = [full] * 4
    assert triton.infer("any", {"x": column(5)})["y"].tolist() == [[5]]
    server.errors = [full] * 99
    with pytest.raises(ServerBusyError, match=r"model 'any' .* raise total_timeout_s .*maximum queue size"):
        options(triton, total_timeout_s=0.5).infer("any", {"x": column(5)})


def test_a_server_that_is_always_late_is_asked_so_many_times(moody: tuple[TritonResource, _Moody]) -> None:
    triton, server = moody
    server.errors = [(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")] * 9
    with pytest.raises(InferenceTimeoutError, match="raise timeout_s"):
        triton.infer("any", {"x": column(5)})
    assert len(server.errors) == 6


def test_a_model_whose_process_cannot_be_started_again_is_no_fault_of_the_data(
    moody: tuple[TritonResource, _Moody],
) -> None:
    triton, server = moody
    server.errors = [(grpc.StatusCode.INTERNAL, "Stub process 'any_0_1' is not healthy.")] * 9
    with pytest.raises(ServerUnavailableError, match=r"the process of model 'any' .* restart the server"):
        list(triton.infer_each("any", [{"x": column(5)}]))
