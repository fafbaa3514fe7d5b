"""Tensors in, tensors out: any Triton server, the embedded one by default, as a resource.

Pacing requests, recovering, and turning what a server says into typed errors belong here. Checking tensors
does not (`resources.triton_contract`), nor does gRPC (`resources.triton_client`), nor running a server
(`resources.embedded_triton`), nor anything that knows what a tensor means.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dagster import ConfigurableResource
from pydantic import Field, PrivateAttr

from resources.errors import ResourceError, ServerUnavailableError
from resources.triton_client import Call, clients
from resources.triton_contract import ModelMetadata, TensorSpec, check_inputs, cut_rows, join_rows
from resources.triton_errors import (
    InferenceTimeoutError,
    ModelContractError,
    ModelInferenceError,
    ModelNotReadyError,
    one_line,
)

if TYPE_CHECKING:
    from tritonclient.grpc import InferenceServerClient
    from tritonclient.utils import InferenceServerException

    from resources.triton_contract import Tensor

__all__ = [
    "InferenceTimeoutError",
    "ModelContractError",
    "ModelInferenceError",
    "ModelMetadata",
    "ModelNotReadyError",
    "ModelStatus",
    "TensorSpec",
    "TritonResource",
]

_Answer = TypeVar("_Answer")

_RECONNECT_S = 10.0
_POLL_S = 0.1


@dataclass(frozen=True)
class ModelStatus:
    """A version of a model, as its server sees it.

    Attributes:
        name: The model's name.
        version: Empty where the server holds none.
        state: `READY`, `LOADING`, `UNLOADING` or `UNAVAILABLE`.
        reason: Why it is not ready; empty if it is.
        inference_count: Rows inferred since the server started.
    """

    name: str
    version: str
    state: str
    reason: str
    inference_count: int


class TritonResource(ConfigurableResource["TritonResource"]):
    """A Triton server; by default the embedded one, which the first call starts.

    Every call raises `ServerUnavailableError` if the server cannot be reached, `ModelNotReadyError` if it
    does not serve the model, `InferenceTimeoutError` if an answer does not come in time, `ModelContractError`
    if a tensor is not what the model declares, and `ModelInferenceError` if the model fails. A call that
    found the embedded server away is made once more after it is back.
    """

    url: str = Field(default="", description="host:port of a Triton's gRPC endpoint; empty for the embedded server")
    repository: str = Field(
        default="model_repository", description="Folder of the models that the embedded server serves"
    )
    environment: str = Field(
        default=".triton-venv", description="Folder of the embedded server's own Python environment"
    )
    state: str = Field(
        default=".triton", description="Folder of the embedded server's record and log, shared by its users"
    )
    idle_stop_s: float = Field(
        default=900.0,
        ge=0,
        description="Seconds without a request after which the embedded server stops; 0 for never",
    )
    ready_timeout_s: float = Field(
        default=60.0,
        gt=0,
        description="Seconds that starting the embedded server or loading a model may take",
    )
    timeout_s: float = Field(
        default=60.0,
        gt=0,
        description="Seconds that one request may take, the wait in the server's queue included",
    )
    in_flight: int = Field(
        default=4, ge=1, description="Requests under way at once, for each call of infer and infer_many"
    )
    max_request_bytes: int = Field(
        default=8 * 2**20, ge=1, description="Bytes of tensors in one request, unless a single row is larger"
    )

    _embedded_url: str = PrivateAttr(default="")
    _pinned: dict[tuple[str, str, str], ModelMetadata] = PrivateAttr(default_factory=dict)

    def metadata(self, model: str, version: str = "") -> ModelMetadata:
        """Describes a model: its ready versions, its batch size, what it takes and gives.

        Args:
            model: The model's name.
            version: The version to describe; empty for the newest that is ready.
        """
        key = (self._address(), model, version)
        # What a version takes and gives does not change; which version is the newest does.
        if version and key in self._pinned:
            return self._pinned[key]

        def ask(client: InferenceServerClient) -> ModelMetadata:
            described = client.get_model_metadata(model, version, client_timeout=self.timeout_s)
            config = client.get_model_config(model, version, client_timeout=self.timeout_s).config
            versions = tuple(sorted(described.versions, key=int))
            return ModelMetadata(
                name=model,
                versions=versions,
                version=version or versions[-1],
                max_batch_size=config.max_batch_size,
                inputs={one.name: TensorSpec(one.datatype, tuple(one.shape)) for one in described.inputs},
                outputs={one.name: TensorSpec(one.datatype, tuple(one.shape)) for one in described.outputs},
                file=config.default_model_filename,
                steps={
                    one.model_name: str(one.model_version) if one.model_version > 0 else ""
                    for one in config.ensemble_scheduling.step
                },
            )

        answer = self._ask(ask, model, version)
        if version:
            self._pinned[key] = answer
        return answer

    def infer(self, model: str, inputs: Mapping[str, Tensor], *, version: str = "") -> dict[str, Tensor]:
        """Runs one batch of any number of rows through a model.

        The rows are cut into requests by the model's batch size and by `max_request_bytes`, and the answers
        put together in order.

        Args:
            model: The model's name.
            inputs: Its input tensors by name, the batch first; BYTES as object arrays of `bytes`.
            version: The version to run; empty for the newest that is ready.

        Returns:
            Its output tensors by name, with as many rows as were given; they may be read-only.
        """
        return next(self.infer_many(model, [inputs], version=version))

    def infer_many(
        self, model: str, requests: Iterable[Mapping[str, Tensor]], *, version: str = ""
    ) -> Iterator[dict[str, Tensor]]:
        """Runs batches through a model, several at once, and gives their answers in order.

        Batches are taken from `requests` only as answers are consumed: at most `in_flight` requests, and one
        batch's answer, are in memory. Requests still under way when the iterator is closed, or when one
        fails, are cancelled.

        Args:
            model: The model's name.
            requests: Input tensors by name, as for `infer`.
            version: The version to run; empty for the newest that is ready.

        Yields:
            The output tensors of each batch, as from `infer`.
        """
        described = self.metadata(model, version)
        waiting = self._calls(described, version, requests)
        under_way: deque[Call] = deque()
        parts: list[dict[str, Tensor]] = []
        try:
            self._send(waiting, under_way)
            while under_way:
                call = under_way.popleft()
                try:
                    parts.append(self._finish(call))
                finally:
                    call.cancel()
                # Before the answer is given away, so that the server works while its taker does.
                self._send(waiting, under_way)
                if call.ends_batch:
                    yield join_rows(described, parts)
                    parts = []
        finally:
            for call in under_way:
                call.cancel()

    def load_model(self, model: str) -> None:
        """Loads a model, or loads it again; the version served until then is served meanwhile."""
        self._ask(lambda client: client.load_model(model, client_timeout=self.ready_timeout_s), model)

    def unload_model(self, model: str) -> None:
        """Stops serving a model once the requests it has are done."""
        self._ask(lambda client: client.unload_model(model, client_timeout=self.ready_timeout_s), model)

    def models(self) -> list[ModelStatus]:
        """Lists every model that the server has seen in its repository, by name and version."""

        def ask(client: InferenceServerClient) -> list[ModelStatus]:
            index = client.get_model_repository_index(client_timeout=self.timeout_s).models
            statistics = client.get_inference_statistics(client_timeout=self.timeout_s).model_stats
            counts = {(one.name, one.version): one.inference_count for one in statistics}
            return [
                ModelStatus(
                    name=one.name,
                    version=one.version,
                    state=one.state or "UNAVAILABLE",
                    reason=one_line(one.reason) if one.state else "not loaded",
                    inference_count=counts.get((one.name, one.version), 0),
                )
                for one in sorted(index, key=lambda one: (one.name, int(one.version or 0)))
            ]

        return self._ask(ask)

    def server_version(self) -> str:
        """The version of the server, such as `2.51.0`."""
        return self._ask(lambda client: str(client.get_server_metadata(client_timeout=self.timeout_s).version))

    def _calls(
        self, described: ModelMetadata, version: str, requests: Iterable[Mapping[str, Tensor]]
    ) -> Iterator[Call]:
        """The calls that the batches need, each made only when asked for."""
        for inputs in requests:
            rows = check_inputs(described, inputs)
            if described.max_batch_size == 0 or rows == 0:
                cuts = [slice(0, rows)]
            else:
                cuts = cut_rows(inputs, max_rows=described.max_batch_size, max_bytes=self.max_request_bytes)
            for number, cut in enumerate(cuts, start=1):
                yield Call(
                    described,
                    {name: tensor[cut] for name, tensor in inputs.items()} if len(cuts) > 1 else inputs,
                    rows=cut.stop - cut.start,
                    version=version,
                    ends_batch=number == len(cuts),
                    timeout_s=self.timeout_s,
                )

    def _send(self, waiting: Iterator[Call], under_way: deque[Call]) -> None:
        while len(under_way) < self.in_flight and (call := next(waiting, None)) is not None:
            under_way.append(call)
            call.start(self._client())

    def _finish(self, call: Call) -> dict[str, Tensor]:
        def again(client: InferenceServerClient) -> dict[str, Tensor]:
            call.start(client)
            return call.answer()

        return self._ask(lambda _client: call.answer(), call.model.name, call.version, again=again)

    def _ask(
        self,
        question: Callable[[InferenceServerClient], _Answer],
        model: str = "",
        version: str = "",
        *,
        again: Callable[[InferenceServerClient], _Answer] | None = None,
    ) -> _Answer:
        """Asks the server, a second time if the embedded server was away, and explains its errors."""
        from tritonclient.utils import InferenceServerException

        try:
            return question(self._client())
        except InferenceServerException as error:
            if self.url or _code(error) != "UNAVAILABLE":
                raise self._explained(error, model, version) from None
        self._embedded_url = self._ensure()
        self._await_connection()
        try:
            return (again or question)(self._client())
        except InferenceServerException as error:
            raise self._explained(error, model, version) from None

    def _address(self) -> str:
        if self.url:
            return self.url
        if not self._embedded_url:
            self._embedded_url = self._ensure()
        return self._embedded_url

    def _client(self) -> InferenceServerClient:
        return clients.get(self._address())

    def _ensure(self) -> str:
        from resources.embedded_triton import EmbeddedTriton

        embedded = EmbeddedTriton(
            repository=Path(self.repository),
            environment=Path(self.environment),
            state=Path(self.state),
            idle_stop_s=self.idle_stop_s,
            ready_timeout_s=self.ready_timeout_s,
        )
        return embedded.ensure().url

    def _is_live(self) -> bool:
        from tritonclient.utils import InferenceServerException

        try:
            return bool(self._client().is_server_live(client_timeout=self.timeout_s))
        except InferenceServerException:
            return False

    def _await_connection(self) -> None:
        """Gives a channel that has just failed the time to connect to a server that is known to be ready."""
        pause = threading.Event()
        for _ in range(int(_RECONNECT_S / _POLL_S)):
            if self._is_live():
                return
            pause.wait(_POLL_S)

    def _explained(self, error: InferenceServerException, model: str, version: str) -> ResourceError:
        """The typed error for what a server answered, or for its silence."""
        code, text, address = _code(error), one_line(error.message() or ""), self._address()
        what = (f"model {model!r}" if model else "the server") + (f" version {version}" if version else "")
        if code == "DEADLINE_EXCEEDED":
            return InferenceTimeoutError(
                f"{what} at {address} gave no answer within {self.timeout_s:g} s: raise timeout_s"
            )
        if code == "UNAVAILABLE" and not self._is_live():
            to_do = "check TRITON_URL" if self.url else f"see {Path(self.state) / 'server.log'}"
            return ServerUnavailableError(f"no Triton server answers at {address}: {to_do} ({text})")
        if code in {"UNAVAILABLE", "NOT_FOUND"} or "failed to load" in text:
            return ModelNotReadyError(
                f"{what} is not ready at {address}: load it or correct it ({self._reason(model) or text})"
            )
        if code == "RESOURCE_EXHAUSTED":
            return ModelInferenceError(f"{what} was sent too much: lower max_request_bytes ({text})")
        return ModelInferenceError(f"{what} at {address} failed: {text}")

    def _reason(self, model: str) -> str:
        """Why a model is not ready, as the server's index of its repository says it."""
        from tritonclient.utils import InferenceServerException

        try:
            index = self._client().get_model_repository_index(client_timeout=self.timeout_s).models
        except InferenceServerException:
            return ""
        found = [one for one in index if one.name == model]
        if not found:
            return "the server's repository holds no such model"
        return next((one_line(one.reason) for one in found if one.reason), "")


def _code(error: InferenceServerException) -> str:
    return str(error.status() or "").removeprefix("StatusCode.")
