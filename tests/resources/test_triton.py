import gc
import itertools
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient.grpc import InferenceServerClient, service_pb2

from resources.errors import ServerUnavailableError
from resources.triton import (
    InferenceTimeoutError,
    ModelContractError,
    ModelInferenceError,
    ModelNotReadyError,
    TensorSpec,
    TritonResource,
)
from resources.triton_client import clients
from tests.resources.fake_triton import FakeTriton, serving

pytestmark = pytest.mark.integration


def column(*values: int) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32).reshape(-1, 1)


def texts(*values: bytes) -> NDArray[np.object_]:
    made = np.empty((len(values), 1), dtype=object)
    made[:, 0] = values
    return made


def with_options(triton: TritonResource, **options: float) -> TritonResource:
    return TritonResource(**{**triton.model_dump(), **options})


def requests_seen(triton: TritonResource, model: str) -> int:
    """Executions of a model so far, as the server counts them."""
    statistics = clients.get(triton.url).get_inference_statistics(model).model_stats[0]
    return int(statistics.execution_count)


def test_metadata_describes_a_model(toy_triton: TritonResource) -> None:
    described = toy_triton.metadata("repeat")
    assert described.version == "1"
    assert described.versions == ("1",)
    assert described.max_batch_size == 8
    assert described.inputs == {"x": TensorSpec("INT32", (-1, 1))}
    assert described.outputs == {"y": TensorSpec("FP32", (-1, 4))}
    assert toy_triton.metadata("repeat", "1") is toy_triton.metadata("repeat", "1")


def test_more_rows_than_a_batch_are_split_and_come_back_in_order(toy_triton: TritonResource) -> None:
    values = column(*range(129))
    before = requests_seen(toy_triton, "repeat")
    answer = toy_triton.infer("repeat", {"x": values})
    assert requests_seen(toy_triton, "repeat") - before == 17
    np.testing.assert_array_equal(answer["y"], np.repeat(values, 4, axis=1).astype(np.float32))


def test_large_rows_are_split_by_bytes(toy_triton: TritonResource) -> None:
    triton = with_options(toy_triton, max_request_bytes=100)
    values = texts(*(bytes([letter]) * size for letter, size in zip(b"abcdef", [10, 60, 60, 1000, 1, 1], strict=True)))
    before = requests_seen(toy_triton, "echo")
    assert triton.infer("echo", {"text": values})["text"].tolist() == values.tolist()
    assert requests_seen(toy_triton, "echo") - before == 4


def test_no_rows_give_no_rows(toy_triton: TritonResource) -> None:
    answer = toy_triton.infer("repeat", {"x": np.empty((0, 1), np.int32)})["y"]
    assert (answer.shape, answer.dtype) == ((0, 4), np.float32)


def test_bytes_come_back_exactly(toy_triton: TritonResource) -> None:
    values = texts(b"ab\x00", b"", b"\x00\x00", "żółć \U0001f600".encode(), bytes(range(256)))
    assert toy_triton.infer("echo", {"text": values})["text"].tolist() == values.tolist()


@pytest.mark.parametrize(
    ("model", "inputs", "said"),
    [
        ("repeat", {"x": column(1).astype(np.int64)}, "tensor 'x' as INT32 and was given INT64: convert it"),
        ("repeat", {"x": column(1).astype(">i4")}, "tensor 'x' as INT32 and was given >i4: convert it"),
        ("repeat", {"x": np.array([1], np.int32)}, "of shape [-1, 1] and was given [1]: reshape it"),
        ("repeat", {"x": np.ones((2, 3), np.int32)}, "of shape [-1, 1] and was given [2, 3]: reshape it"),
        ("repeat", {"z": column(1)}, "takes the tensors (x) and was given (z)"),
        ("repeat", {}, "takes the tensors (x) and was given ()"),
        ("echo", {"text": np.array([[b"ab\x00"]])}, "an object array of bytes keeps them"),
        ("echo", {"text": np.array([["str"]], object)}, "was given a str in it: encode it"),
        ("echo", {"text": np.array([[None]], object)}, "was given a NoneType in it: encode it"),
    ],
)
def test_inputs_that_do_not_fit_are_not_sent(
    toy_triton: TritonResource, model: str, inputs: dict[str, NDArray[np.generic]], said: str
) -> None:
    before = requests_seen(toy_triton, model)
    with pytest.raises(ModelContractError) as caught:
        toy_triton.infer(model, inputs)
    message = str(caught.value)
    assert f"model {model!r}" in message
    assert said in message
    assert requests_seen(toy_triton, model) == before


@pytest.mark.parametrize("model", ["narrow", "fewer_rows", "other_type"])
def test_answers_that_do_not_fit_are_refused(toy_triton: TritonResource, model: str) -> None:
    with pytest.raises((ModelContractError, ModelInferenceError), match=f"model '{model}'") as caught:
        toy_triton.infer(model, {"x": column(1, 2, 3)})
    assert "\n" not in str(caught.value)


def test_answers_of_different_sizes_are_not_joined(toy_triton: TritonResource) -> None:
    values = column(*[1] * 8, *[2] * 8)
    with pytest.raises(ModelContractError, match=r"'ragged' version 1 .* at most 8 rows at a time"):
        toy_triton.infer("ragged", {"x": values})
    answers = list(toy_triton.infer_many("ragged", [{"x": values[:8]}, {"x": values[8:]}]))
    assert [answer["y"].shape for answer in answers] == [(8, 1), (8, 2)]


def test_a_failing_model_is_named_with_what_it_says(toy_triton: TritonResource) -> None:
    with pytest.raises(ModelInferenceError, match=r"model 'refusing' .* failed: .*division by zero") as caught:
        toy_triton.infer("refusing", {"x": column(1)})
    assert "\n" not in str(caught.value)


def test_a_model_or_version_that_is_not_there_is_named(toy_triton: TritonResource) -> None:
    with pytest.raises(ModelNotReadyError, match=r"model 'absent' .* repository holds no such model"):
        toy_triton.infer("absent", {"x": column(1)})
    with pytest.raises(ModelNotReadyError, match="model 'repeat' version 7 is not ready"):
        toy_triton.infer("repeat", {"x": column(1)}, version="7")


def test_a_slow_model_times_out_and_its_other_requests_are_cancelled(toy_triton: TritonResource) -> None:
    def answered() -> int:
        return int(toy_triton.infer("slow", {"x": column(0)})["y"][0, 0])

    triton = with_options(toy_triton, timeout_s=0.5, in_flight=3, attempts=1)
    before = answered()
    taken = itertools.count()
    requests = ({"x": column(2)} for _ in iter(lambda: next(taken) < 100, False))
    with pytest.raises(InferenceTimeoutError, match=r"model 'slow' .* within 0.5 s"):
        list(triton.infer_many("slow", requests))
    assert next(taken) == 3
    # The model's one instance takes its requests in turn: it knew the two that waited to be cancelled.
    assert answered() - before == 2


def test_requests_are_taken_as_answers_are(toy_triton: TritonResource) -> None:
    triton = with_options(toy_triton, in_flight=3)
    taken = 0

    def requests() -> Iterator[dict[str, NDArray[np.int32]]]:
        nonlocal taken
        for number in range(50):
            taken += 1
            yield {"x": column(number)}

    answers = triton.infer_many("repeat", requests())
    for number, answer in enumerate(answers):
        assert answer["y"][0, 0] == number
        assert taken <= number + 1 + 3
    assert taken == 50


def test_an_abandoned_iterator_leaves_nothing_under_way(toy_triton: TritonResource) -> None:
    answers = toy_triton.infer_many("slow", [{"x": column(0)}, *[{"x": column(1)}] * 3])
    next(answers)
    answers.close()
    assert toy_triton.infer("repeat", {"x": column(5)})["y"][0, 0] == 5


def test_hundreds_of_calls_from_many_threads_use_one_client(toy_triton: TritonResource) -> None:
    gc.collect()
    clients.get(toy_triton.url)
    before = sum(isinstance(one, InferenceServerClient) for one in gc.get_objects())
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda x: toy_triton.infer("repeat", {"x": column(x)})["y"][0, 0], range(400)))
    assert answers == list(range(400))
    assert sum(isinstance(one, InferenceServerClient) for one in gc.get_objects()) == before
    assert clients.get(toy_triton.url) is clients.get(toy_triton.url)


def test_a_forked_process_makes_its_own_client(toy_triton: TritonResource) -> None:
    ours = clients.get(toy_triton.url)
    child = os.fork()
    if child == 0:
        os._exit(0 if clients.get("127.0.0.1:1") is not ours and clients.get(toy_triton.url) is not ours else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_models_can_be_listed_unloaded_and_loaded(toy_triton: TritonResource) -> None:
    toy_triton.infer("echo", {"text": texts(b"a", b"b")})
    echo = next(model for model in toy_triton.models() if model.name == "echo")
    assert (echo.version, echo.state, echo.reason) == ("1", "READY", "")
    assert echo.inference_count >= 2
    toy_triton.unload_model("echo")
    try:
        states = {model.name: model.state for model in toy_triton.models()}
        assert states["echo"] != "READY"
        with pytest.raises(ModelNotReadyError, match="model 'echo'"):
            toy_triton.infer("echo", {"text": texts(b"a")})
    finally:
        toy_triton.load_model("echo")
    assert toy_triton.infer("echo", {"text": texts(b"a")})["text"].tolist() == [[b"a"]]


def test_loading_what_is_not_there_is_an_error(toy_triton: TritonResource) -> None:
    with pytest.raises((ModelNotReadyError, ModelInferenceError), match="model 'absent'"):
        toy_triton.load_model("absent")


def test_nobody_listening_is_one_line() -> None:
    triton = TritonResource(url="127.0.0.1:1", timeout_s=5)
    with pytest.raises(ServerUnavailableError, match=r"^no Triton server answers at 127.0.0.1:1: check TRITON_URL"):
        triton.server_version()


class _Dishonest(FakeTriton):
    """Speaks the protocol as a server whose Python environment is broken: shapes without their data."""

    contents: bytes | None = b""

    def ModelInfer(self, request, context):  # noqa: N802
        response = service_pb2.ModelInferResponse(model_name=request.model_name, model_version="1")
        response.outputs.add(name="y", datatype="FP32", shape=[2, 4])
        if self.contents is not None:
            response.raw_output_contents.append(self.contents)
        return response


@pytest.fixture
def dishonest() -> Iterator[tuple[TritonResource, _Dishonest]]:
    servicer = _Dishonest()
    with serving(servicer) as url:
        yield TritonResource(url=url, timeout_s=10), servicer


@pytest.mark.parametrize("contents", [None, b"", b"\0" * 31, b"\0" * 33])
def test_an_answer_with_another_number_of_bytes_is_refused(
    dishonest: tuple[TritonResource, _Dishonest], contents: bytes | None
) -> None:
    triton, server = dishonest
    server.contents = contents
    with pytest.raises(ModelContractError, match=r"shape \[2, 4\] with \d+ bytes instead of 32"):
        triton.infer("any", {"x": np.zeros((2, 4), np.float32)})


def test_an_answer_with_all_its_bytes_is_taken(dishonest: tuple[TritonResource, _Dishonest]) -> None:
    triton, server = dishonest
    server.contents = np.arange(8, dtype=np.float32).tobytes()
    answer = triton.infer("any", {"x": np.zeros((2, 4), np.float32)})
    np.testing.assert_array_equal(answer["y"], np.arange(8, dtype=np.float32).reshape(2, 4))


def test_calls_from_several_threads_do_not_wait_for_each_other(toy_triton: TritonResource) -> None:
    answered = threading.Event()

    def quick() -> None:
        toy_triton.infer("repeat", {"x": column(1)})
        answered.set()

    slow = threading.Thread(target=lambda: toy_triton.infer("slow", {"x": column(1)}))
    slow.start()
    quick()
    assert answered.is_set()
    slow.join()
