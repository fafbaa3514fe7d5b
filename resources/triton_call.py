"""What a server is asked, an inference or anything else, once or again.

Sending, deadlines, cancelling and reading a response message belong here. When to ask again does not
(`resources.triton_retries`), nor whom (`resources.triton_endpoints`), nor cutting batches (`resources.triton`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from resources.triton_contract import ModelMetadata, empty_outputs, read_outputs
from resources.triton_endpoints import Endpoint
from resources.triton_retries import Allowance, Failure, Kind

if TYPE_CHECKING:
    from tritonclient.grpc import InferenceServerClient, InferInput, InferResult
    from tritonclient.utils import InferenceServerException

    from resources.triton_contract import Tensor

_Answer = TypeVar("_Answer")

# gRPC keeps a request's deadline; this only bounds the wait should its callback never come.
_GRACE_S = 5.0


@dataclass
class Question(Generic[_Answer]):
    """Something asked of a server other than an inference.

    Attributes:
        ask: Asks it, within so many seconds.
        model_name: The model it is about; empty for the server itself.
        version: The model's version; empty for the newest.
        timeout_s: Seconds that one attempt may take.
        allowance: The time that all attempts may take.
        endpoint: Whom it is put to; None as long as nobody could be asked.
    """

    ask: Callable[[InferenceServerClient, float], _Answer]
    model_name: str
    version: str
    timeout_s: float
    allowance: Allowance
    endpoint: Endpoint | None = None

    def start(self, endpoint: Endpoint) -> None:
        """Says whom to ask."""
        self.endpoint = endpoint

    def answer(self) -> _Answer:
        """Asks, and waits for the answer.

        Raises:
            InferenceServerException: What the client or the server reports.
        """
        from tritonclient.utils import InferenceServerException

        if self.endpoint is None:
            raise _nobody_asked()
        try:
            answer = self.ask(self.endpoint.client, min(self.timeout_s, self.allowance.left_s))
        except InferenceServerException as error:
            self.endpoint.noted(Failure.of(error))
            raise
        self.endpoint.noted(None)
        return answer


@dataclass
class Call:
    """One request for an inference: what it sends, and its answer once it comes.

    Attributes:
        model: The model, as its server describes it.
        inputs: Tensors that fit it and one request.
        rows: Rows in them; a call without rows is answered without asking the server.
        version: The version to run; empty for the newest.
        ends_batch: Whether this is the last call of the batch it was cut from.
        priority: As the server knows it, 1 the highest; 0 for the model's default.
        timeout_s: Seconds from sending to the answer, for one attempt.
        allowance: The time that all attempts at its batch may take.
        endpoint: Whom it was sent to last; None if to nobody yet.
        sent_at: When, by `time.monotonic`.
    """

    model: ModelMetadata
    inputs: Mapping[str, Tensor]
    rows: int
    version: str
    ends_batch: bool
    priority: int
    timeout_s: float
    allowance: Allowance
    endpoint: Endpoint | None = None
    sent_at: float = 0.0
    _future: Future[InferResult] = field(default_factory=Future)
    _cancel: Callable[[], None] = lambda: None

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self.model.name

    def start(self, endpoint: Endpoint) -> None:
        """Sends the request, again if it was sent before, without waiting for its answer."""
        from tritonclient.utils import InferenceServerException

        self.endpoint, self.sent_at = endpoint, time.monotonic()
        if self.rows == 0:
            return
        timeout_s = min(self.timeout_s, self.allowance.left_s)
        inputs = self._infer_inputs()
        # Bound here, so that a late answer to an earlier attempt cannot be taken for this one's.
        future = self._future = Future()
        end = endpoint.sent()

        def receive(result: InferResult | None, error: InferenceServerException | None) -> None:
            # The client swallows what is raised here: nothing that can fail.
            if end():
                endpoint.noted(None if error is None else Failure.of(error))
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def cancel() -> None:
            end()
            context.cancel()

        try:
            context = endpoint.client.async_infer(
                self.model.name,
                inputs,
                receive,
                model_version=self.version,
                priority=self.priority,
                client_timeout=timeout_s,
                # In microseconds: the server drops a request that waited in its queue for longer than its sender.
                timeout=int(timeout_s * 1e6),
            )
        except InferenceServerException as error:
            receive(None, error)
        else:
            self._cancel = cancel

    def answer(self) -> dict[str, Tensor]:
        """Waits for the answer and checks it.

        Raises:
            InferenceServerException: What the client or the server reports.
            ModelContractError: The answer is not what the model declares.
        """
        if self.rows == 0:
            return empty_outputs(self.model)
        if self.endpoint is None:
            raise _nobody_asked()
        try:
            response = self._future.result(self.timeout_s + _GRACE_S).get_response()
        except FutureTimeoutError:
            self.cancel()
            self.endpoint.noted(Failure(Kind.LATE, "neither an answer nor an error"))
            raise _error("neither an answer nor an error came", "DEADLINE_EXCEEDED") from None
        contents = response.raw_output_contents
        return read_outputs(
            self.model,
            self.rows,
            [
                (one.name, one.datatype, tuple(one.shape), contents[index] if index < len(contents) else b"")
                for index, one in enumerate(response.outputs)
            ],
        )

    def cancel(self) -> None:
        """Tells the server to drop the request, if it is still under way."""
        self._cancel()

    def _infer_inputs(self) -> list[InferInput]:
        from tritonclient.grpc import InferInput

        made = []
        for name, tensor in self.inputs.items():
            one = InferInput(name, list(tensor.shape), self.model.inputs[name].datatype)
            one.set_data_from_numpy(tensor)
            made.append(one)
        return made


def _nobody_asked() -> InferenceServerException:
    return _error("failed to connect a short while ago", "UNAVAILABLE")


def _error(text: str, code: str) -> InferenceServerException:
    from tritonclient.utils import InferenceServerException

    return InferenceServerException(text, status=f"StatusCode.{code}")
