"""Tensors in, tensors out: any Triton server, the embedded one by default, as a resource.

Cutting and pacing requests, trying again and bringing the embedded server back belong here. Checking tensors does not
(`resources.triton_contract`), nor sending (`resources.triton_call`), nor which failures may pass
(`resources.triton_retries`), nor which server to ask (`resources.triton_endpoints`), nor what an error says
(`resources.triton_explanations`), nor running a server (`resources.embedded_triton`), nor what a tensor means.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, overload

from dagster import ConfigurableResource
from pydantic import Field, PrivateAttr

from resources.errors import ResourceError
from resources.triton_call import Call, Question
from resources.triton_contract import ModelMetadata, TensorSpec, check_inputs, cut_rows, join_rows
from resources.triton_endpoints import Endpoint, addresses, endpoints
from resources.triton_errors import (
    InferencePausedError,
    InferenceTimeoutError,
    ModelContractError,
    ModelCrashError,
    ModelInferenceError,
    ModelNotReadyError,
    ServerBusyError,
)
from resources.triton_explanations import crashed, explained
from resources.triton_pause import PauseSwitch
from resources.triton_questions import ModelStatus, described, listed, merged
from resources.triton_retries import Allowance, Failure, Kind, Retries, dead_model

if TYPE_CHECKING:
    from tritonclient.grpc import InferenceServerClient

    from resources.triton_contract import Tensor

__all__ = [
    "InferencePausedError",
    "InferenceTimeoutError",
    "ModelContractError",
    "ModelCrashError",
    "ModelInferenceError",
    "ModelMetadata",
    "ModelNotReadyError",
    "ModelStatus",
    "ServerBusyError",
    "TensorSpec",
    "TritonResource",
]

_Answer = TypeVar("_Answer")

_RECONNECT_S = 10.0
_POLL_S = 0.1
_DEATHS = 3


class TritonResource(ConfigurableResource["TritonResource"]):
    """One or several Triton servers of the same models; by default the embedded one, which the first call starts.

    A call is made again, elsewhere where there is an elsewhere, while what fails it may pass; the embedded server is
    brought back meanwhile. Then every call raises `ServerUnavailableError` if no server can be reached,
    `ModelNotReadyError` if none serves the model, `InferenceTimeoutError` if no answer comes in time,
    `ServerBusyError` if too many requests wait, `ModelContractError` if a tensor is not what the model declares,
    `ModelCrashError` if a request kills its server again and again, and `ModelInferenceError` if the model fails.
    """

    url: str = Field(
        default="",
        description="host:port of a Triton's gRPC endpoint, several parted by commas; empty for the embedded server",
    )
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
    total_timeout_s: float = Field(
        default=180.0,
        gt=0,
        description="Seconds that a batch may be waited for, its further attempts and the waits between included",
    )
    attempts: int = Field(
        default=5, ge=1, description="Times that a request is sent at most, where what fails it may pass"
    )
    priority: int = Field(
        default=0, ge=0, description="Level of the requests in the server's queue, 1 the highest; 0 for the model's own"
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
        key = (",".join(self._urls()), model, version)
        # What a version takes and gives does not change; which version is the newest does.
        if version and key in self._pinned:
            return self._pinned[key]

        answer = self._ask(lambda client, timeout_s: described(client, timeout_s, model, version), model, version)
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
        for answer in self.infer_each(model, requests, version=version):
            if isinstance(answer, ResourceError):
                raise answer
            yield answer

    def infer_each(
        self, model: str, requests: Iterable[Mapping[str, Tensor]], *, version: str = ""
    ) -> Iterator[dict[str, Tensor] | ModelInferenceError | ModelContractError]:
        """Runs batches as `infer_many` does; a batch that the model fails on has its error in its place.

        What is wrong with the server, and not with a batch, is raised; so is a batch that does not fit the model. A
        batch that is to be sent again is sent when its turn comes, so that one which kills the server is alone with it.

        Args:
            model: The model's name.
            requests: Input tensors by name, as for `infer`.
            version: The version to run; empty for the newest that is ready.

        Yields:
            The output tensors of each batch, as from `infer`, or why there are none.

        Raises:
            InferencePausedError: A person stopped inference.
        """
        _switch(self.state).check()
        about = self.metadata(model, version)
        waiting = self._calls(about, version, requests)
        under_way: deque[Call] = deque()
        parts: list[dict[str, Tensor]] = []
        error: ModelInferenceError | ModelContractError | None = None
        try:
            self._send(waiting, under_way)
            while under_way:
                call = under_way.popleft()
                try:
                    parts.append(self._settle(call))
                except (ModelInferenceError, ModelContractError) as failure:
                    error = error or failure
                finally:
                    call.cancel()
                # Before the answer is given away, so that the server works while its taker does.
                self._send(waiting, under_way)
                if call.ends_batch:
                    yield error or _joined(about, parts)
                    parts, error = [], None
        finally:
            for call in under_way:
                call.cancel()

    def load_model(self, model: str) -> None:
        """Loads a model, or loads it again, on every server; the version served until then is served meanwhile."""
        for url in self._urls():
            self._ask(
                lambda client, timeout_s: client.load_model(model, client_timeout=timeout_s),
                model,
                urls=[url],
                timeout_s=self.ready_timeout_s,
            )

    def unload_model(self, model: str) -> None:
        """Has every server stop serving a model once the requests it has are done."""
        for url in self._urls():
            self._ask(
                lambda client, timeout_s: client.unload_model(model, client_timeout=timeout_s),
                model,
                urls=[url],
                timeout_s=self.ready_timeout_s,
            )

    def models(self) -> list[ModelStatus]:
        """Lists every model that the servers have seen in their repositories, by name and version.

        Of several servers, the one where the version is not ready speaks for all; rows are summed.
        """
        return merged([self._ask(listed, urls=[url]) for url in self._urls()])

    def server_version(self) -> str:
        """The version of the server, such as `2.51.0`."""
        return self._ask(lambda client, timeout_s: str(client.get_server_metadata(client_timeout=timeout_s).version))

    def _calls(self, about: ModelMetadata, version: str, requests: Iterable[Mapping[str, Tensor]]) -> Iterator[Call]:
        """The calls that the batches need, each made only when asked for."""
        for inputs in requests:
            allowance = Allowance(self.total_timeout_s)
            rows = check_inputs(about, inputs)
            if about.max_batch_size == 0 or rows == 0:
                cuts = [slice(0, rows)]
            else:
                cuts = cut_rows(inputs, max_rows=about.max_batch_size, max_bytes=self.max_request_bytes)
            for number, cut in enumerate(cuts, start=1):
                yield Call(
                    about,
                    {name: tensor[cut] for name, tensor in inputs.items()} if len(cuts) > 1 else inputs,
                    rows=cut.stop - cut.start,
                    version=version,
                    ends_batch=number == len(cuts),
                    priority=self.priority,
                    timeout_s=self.timeout_s,
                    allowance=allowance,
                )

    def _send(self, waiting: Iterator[Call], under_way: deque[Call]) -> None:
        while len(under_way) < self.in_flight and (call := next(waiting, None)) is not None:
            under_way.append(call)
            self._start(call, self._urls())

    def _ask(
        self,
        ask: Callable[[InferenceServerClient, float], _Answer],
        model: str = "",
        version: str = "",
        *,
        urls: Sequence[str] = (),
        timeout_s: float = 0.0,
    ) -> _Answer:
        """Asks something other than an inference."""
        urls = urls or self._urls()
        question = Question(ask, model, version, timeout_s or self.timeout_s, Allowance(self.total_timeout_s))
        self._start(question, urls)
        return self._settle(question, urls)

    def _start(self, asked: Call | Question[_Answer], urls: Sequence[str]) -> None:
        """Puts it to the fittest server; to another than before if there is one, and to none if none is fit."""
        if isinstance(asked, Call):
            _switch(self.state).check()
        endpoint = endpoints.choose(urls, asked.model_name, asked.version, avoid=asked.endpoint)
        if endpoint is None:
            asked.endpoint = None
        else:
            asked.start(endpoint)

    @overload
    def _settle(self, asked: Call, urls: Sequence[str] = ()) -> dict[str, Tensor]: ...
    @overload
    def _settle(self, asked: Question[_Answer], urls: Sequence[str] = ()) -> _Answer: ...
    def _settle(self, asked: Call | Question[_Answer], urls: Sequence[str] = ()) -> dict[str, Tensor] | _Answer:
        """The answer to what was put to a server; it is put again while what fails it may pass."""
        from tritonclient.utils import InferenceServerException

        retries, deaths = Retries(self.attempts), 0
        lost: list[Endpoint] = []
        with asked.allowance.spending():
            while True:
                try:
                    return asked.answer()
                except InferenceServerException as error:
                    failure = Failure.of(error)
                urls = urls or self._urls()
                wait_s = retries.wait_s(failure, asked.allowance.left_s, elsewhere=len(urls) > 1)
                if wait_s is None:
                    to_do = "check TRITON_URL" if self.url else f"see {Path(self.state) / 'server.log'}"
                    raise explained(failure, asked, urls, to_do=to_do)
                time.sleep(wait_s)
                if failure.kind in {Kind.LOST, Kind.AWAY} and not self.url:
                    urls = [self._revived()]
                if came_back := self._came_back(asked, failure, lost):
                    # A new beginning: only failures of one and the same server say that it is gone.
                    retries = Retries(self.attempts)
                    deaths += came_back
                if deaths >= _DEATHS:
                    raise crashed(asked, deaths)
                self._start(asked, urls)

    def _came_back(self, asked: Call | Question[_Answer], failure: Failure, lost: list[Endpoint]) -> int:
        """How many servers or processes of the model, which died while they had it, run again by now."""
        if asked.endpoint is not None and failure.kind is Kind.LOST:
            lost.append(asked.endpoint)
        if asked.endpoint is not None and failure.kind is Kind.DEAD and isinstance(asked, Call):
            model = dead_model(failure, asked.model_name)
            return int(asked.endpoint.revive(model, asked.sent_at, timeout_s=self.ready_timeout_s))
        back = [one for one in lost if one.is_live()]
        lost[:] = [one for one in lost if one not in back]
        return len(back)

    def _urls(self) -> list[str]:
        if self.url:
            return addresses(self.url)
        if not self._embedded_url:
            self._embedded_url = self._ensure()
        return [self._embedded_url]

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

    def _revived(self) -> str:
        """The address of the embedded server once it runs again and this process is connected to it."""
        self._embedded_url = self._ensure()
        endpoint = endpoints.get(self._embedded_url)
        # A channel that has just failed needs a moment to connect to a server that is known to be ready.
        for _ in range(int(_RECONNECT_S / _POLL_S)):
            if endpoint.is_live():
                endpoint.noted(None)
                break
            time.sleep(_POLL_S)
        return self._embedded_url


@cache
def _switch(state: str) -> PauseSwitch:
    return PauseSwitch(Path(state))


def _joined(model: ModelMetadata, parts: list[dict[str, Tensor]]) -> dict[str, Tensor] | ModelContractError:
    try:
        return join_rows(model, parts)
    except ModelContractError as error:
        return error
