"""The connection to a Triton server, and one request on it.

What gRPC needs belongs here: channels, deadlines, cancelling, reading a response message. Cutting batches,
recovering and explaining errors do not: see `resources.triton`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING

from resources.triton_contract import ModelMetadata, empty_outputs, read_outputs
from resources.triton_errors import InferenceTimeoutError

if TYPE_CHECKING:
    from tritonclient.grpc import InferenceServerClient, InferInput, InferResult
    from tritonclient.utils import InferenceServerException

    from resources.triton_contract import Tensor

_MAX_MESSAGE_BYTES = 2**31 - 1
# gRPC keeps a request's deadline; this only bounds the wait should its callback never come.
_GRACE_S = 5.0


class Clients:
    """One long-lived client for each address in each process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[tuple[int, str], InferenceServerClient] = {}

    def get(self, url: str) -> InferenceServerClient:
        """The client for a `host:port`, made on first use."""
        # A client made before a fork is neither used nor closed after it: its channel is its maker's.
        key = (os.getpid(), url)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = _connect(url)
            return self._clients[key]

    def renew_lock(self) -> None:
        """Forgets a lock that a thread of the parent held when this process was forked."""
        self._lock = threading.Lock()


clients = Clients()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=clients.renew_lock)


def _connect(url: str) -> InferenceServerClient:
    from tritonclient.grpc import InferenceServerClient

    options = [
        ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        # A server that was restarted is found again at once, not after gRPC's minutes.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
    ]
    return InferenceServerClient(url, channel_args=options)


class Call:
    """One request: what it sends, and its answer once it comes.

    Args:
        model: The model, as its server describes it.
        inputs: Tensors that fit it and one request.
        rows: Rows in them; a call without rows is answered without asking the server.
        version: The version to run; empty for the newest.
        ends_batch: Whether this is the last call of the batch it was cut from.
        timeout_s: Seconds from sending to the answer.
    """

    def __init__(
        self,
        model: ModelMetadata,
        inputs: Mapping[str, Tensor],
        *,
        rows: int,
        version: str,
        ends_batch: bool,
        timeout_s: float,
    ) -> None:
        self.model = model
        self.version = version
        self.ends_batch = ends_batch
        self._inputs = inputs
        self._rows = rows
        self._timeout_s = timeout_s
        self._future: Future[InferResult] = Future()
        self._cancel: Callable[[], None] = lambda: None

    def start(self, client: InferenceServerClient) -> None:
        """Sends the request, again if it was sent before, without waiting for its answer."""
        if self._rows == 0:
            return
        # Bound here, so that a late answer to an earlier attempt cannot be taken for this one's.
        future = self._future = Future()

        def receive(result: InferResult, error: InferenceServerException | None) -> None:
            # The client swallows what is raised here: nothing that can fail.
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        context = client.async_infer(
            self.model.name,
            self._infer_inputs(),
            receive,
            model_version=self.version,
            client_timeout=self._timeout_s,
            # In microseconds: the server drops a request that waited in its queue for longer than its sender.
            timeout=int(self._timeout_s * 1e6),
        )
        self._cancel = context.cancel

    def answer(self) -> dict[str, Tensor]:
        """Waits for the answer and checks it.

        Raises:
            InferenceServerException: What the client or the server reports.
            InferenceTimeoutError: Neither reported anything in time.
            ModelContractError: The answer is not what the model declares.
        """
        if self._rows == 0:
            return empty_outputs(self.model)
        try:
            response = self._future.result(self._timeout_s + _GRACE_S).get_response()
        except FutureTimeoutError:
            self.cancel()
            raise InferenceTimeoutError(
                f"model {self.model.name!r} gave no answer within {self._timeout_s:g} s: raise timeout_s"
            ) from None
        contents = response.raw_output_contents
        return read_outputs(
            self.model,
            self._rows,
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
        for name, tensor in self._inputs.items():
            one = InferInput(name, list(tensor.shape), self.model.inputs[name].datatype)
            one.set_data_from_numpy(tensor)
            made.append(one)
        return made
