"""What the server's queue policies do: full queues, requests that waited too long, and requests that overtake.

The policies of `text_embedder/configs/` in small, over a model of one slow instance, asked directly and as the last
step of an ensemble. What a client makes of the refusals is `test_triton.py`'s.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tritonclient.grpc import InferenceServerClient, InferInput, InferResult
from tritonclient.utils import InferenceServerException

from resources.embedded_triton import EmbeddedTriton
from tests.resources.conftest import write_model

_PATIENCE_S = 30
_WORK_MS = 100
_POLICIES = {
    "limited": "default_queue_policy { max_queue_size: 2 }",
    "impatient": """default_queue_policy {
        timeout_action: REJECT
        default_timeout_microseconds: 600000000
        allow_timeout_override: true
    }""",
    "urgent": "priority_levels: 2 default_priority_level: 2",
}


@pytest.fixture(scope="module")
def client(triton_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InferenceServerClient]:
    """A server with a model and an ensemble for each policy."""
    folder = tmp_path_factory.mktemp("queues")
    write_model(
        folder / "model_repository",
        "first",
        """
        def execute(self, requests):
            return [answer(x=given(request, "x")) for request in requests]
        """,
        inputs={"x": ("INT32", [1])},
        outputs={"x": ("INT32", [1])},
    )
    for name, policy in _POLICIES.items():
        _write_sleeper(folder / "model_repository", name, policy)
        _write_ensemble(folder / "model_repository", f"{name}_ensemble", last=name)
    server = EmbeddedTriton(
        repository=folder / "model_repository", environment=triton_environment, state=folder / "state"
    )
    with server as running, InferenceServerClient(running.url) as made:
        yield made


def _write_sleeper(repository: Path, name: str, policy: str) -> None:
    write_model(
        repository,
        name,
        """
        def execute(self, requests):
            return [self.answer(given(request, "x")) for request in requests]

        def answer(self, x):
            self.runs = getattr(self, "runs", 0) + 1
            time.sleep(x[0, 0] / 1000)
            return answer(y=np.full((len(x), 1), self.runs, np.int32))
        """,
        inputs={"x": ("INT32", [1])},
        outputs={"y": ("INT32", [1])},
    )
    config = repository / name / "config.pbtxt"
    # No request is merged with another.
    config.write_text(config.read_text() + f"dynamic_batching {{ preferred_batch_size: [ 1 ] {policy} }}\n")


def _write_ensemble(repository: Path, name: str, *, last: str) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(
        f"""name: "{name}"
        platform: "ensemble"
        max_batch_size: 8
        input [ {{ name: "x" data_type: TYPE_INT32 dims: [ 1 ] }} ]
        output [ {{ name: "y" data_type: TYPE_INT32 dims: [ 1 ] }} ]
        ensemble_scheduling {{ step [
          {{ model_name: "first" model_version: -1
             input_map {{ key: "x" value: "x" }} output_map {{ key: "x" value: "passed" }} }},
          {{ model_name: "{last}" model_version: -1
             input_map {{ key: "x" value: "passed" }} output_map {{ key: "y" value: "y" }} }}
        ] }}
        """
    )


class Requests:
    """Requests to a model, in the order in which they were answered."""

    def __init__(self, client: InferenceServerClient, model: str) -> None:
        self._client = client
        self._model = model
        self._sent = 0
        self._changed = threading.Condition()
        self.answered: list[tuple[str, InferenceServerException | None]] = []
        """The names of the requests, and the error of each that had one."""

    def send(self, name: str, milliseconds: int, *, priority: int = 0, timeout_ms: int = 0) -> None:
        """Sends a request that takes so long, without waiting for it."""

        def receive(result: InferResult | None, error: InferenceServerException | None) -> None:
            with self._changed:
                self.answered.append((name, error))
                self._changed.notify_all()

        self._sent += 1
        self._client.async_infer(
            self._model,
            [work(milliseconds)],
            receive,
            priority=priority,
            timeout=timeout_ms * 1000 or None,
            client_timeout=_PATIENCE_S,
        )

    def wait(self, count: int | None = None) -> None:
        """Waits until so many, or all, are answered."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.answered) >= (count or self._sent), _PATIENCE_S)

    @property
    def refused(self) -> dict[str, str]:
        """Why the server did not run a request, by its name."""
        return {name: f"{error.status()} {error.message()}" for name, error in self.answered if error}


def work(milliseconds: int) -> InferInput:
    tensor = InferInput("x", [1, 1], "INT32")
    tensor.set_data_from_numpy(np.array([[milliseconds]], np.int32))
    return tensor


def runs(client: InferenceServerClient, model: str) -> int:
    """How many requests the model has run with this one, which it is asked for."""
    result = client.infer(model, [work(0)], client_timeout=_PATIENCE_S)
    return int(result.as_numpy("y")[0, 0])


@pytest.mark.parametrize("model", ["limited", "limited_ensemble"])
def test_a_full_queue_refuses_at_once_and_keeps_what_it_has(client: InferenceServerClient, model: str) -> None:
    before = runs(client, model)
    requests = Requests(client, model)
    for number in range(8):
        requests.send(str(number), _WORK_MS)
    requests.wait()
    # One is run and two wait, unless the first was not yet taken up when the last came.
    assert 5 <= len(requests.refused) <= 6
    for why in requests.refused.values():
        assert why.startswith("StatusCode.UNAVAILABLE ")
        assert why.endswith("Exceeds maximum queue size")
    assert runs(client, model) - before - 1 == 8 - len(requests.refused)


@pytest.mark.parametrize("model", ["impatient", "impatient_ensemble"])
def test_a_request_that_waited_too_long_is_never_run(client: InferenceServerClient, model: str) -> None:
    before = runs(client, model)
    requests = Requests(client, model)
    requests.send("long", 5 * _WORK_MS)
    # Until the model has taken it up.
    time.sleep(_WORK_MS / 1000)
    for number in range(3):
        requests.send(f"hasty {number}", 1, timeout_ms=_WORK_MS)
    requests.send("patient", 1)
    requests.wait()
    assert sorted(requests.refused) == ["hasty 0", "hasty 1", "hasty 2"]
    for why in requests.refused.values():
        assert why.startswith("StatusCode.UNAVAILABLE ")
        assert why.endswith("Request timeout expired")
    assert runs(client, model) - before - 1 == 2


@pytest.mark.parametrize("model", ["urgent", "urgent_ensemble"])
def test_a_request_of_the_first_level_overtakes_those_that_wait(client: InferenceServerClient, model: str) -> None:
    requests = Requests(client, model)
    for number in range(8):
        requests.send(f"backfill {number}", _WORK_MS)
    requests.wait(1)
    requests.send("urgent", _WORK_MS, priority=1)
    requests.wait()
    order = [name for name, _ in requests.answered]
    assert not requests.refused
    # Behind the one that was answered, the one that was being run, and one that may have been taken up since.
    assert order.index("urgent") <= 3
