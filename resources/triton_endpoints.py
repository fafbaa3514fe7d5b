"""The addresses of one or several Triton servers, and which of them to ask next.

How busy and how healthy an address is, as this process sees it, belongs here. What is sent does not
(`resources.triton_client`), nor when to try again (`resources.triton_retries`).
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from resources.errors import ConfigurationError
from resources.triton_breaker import CircuitBreaker
from resources.triton_client import clients
from resources.triton_errors import one_line
from resources.triton_retries import Failure, Kind

if TYPE_CHECKING:
    from tritonclient.grpc import InferenceServerClient

_HEALTHY_S: Final = 5.0
"""For so long after it said so, a model counts as ready."""

_PROBE_S: Final = 2.0


def addresses(urls: str) -> list[str]:
    """The single `host:port` in a list of them that commas part.

    Raises:
        ConfigurationError: There is none, or one is no `host:port`.
    """
    found = list(dict.fromkeys(one.strip() for one in urls.split(",") if one.strip()))
    wrong = [one for one in found if "/" in one or not one.rpartition(":")[2].isdigit()]
    if wrong or not found:
        raise ConfigurationError(
            f"{(wrong or [urls])[0]!r} is no address of a Triton server: write host:port of its gRPC endpoint, and "
            "commas between several"
        )
    return found


class Endpoint:
    """The server at an address, as this process sees it; safe to use from several threads.

    Args:
        url: Its `host:port`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.in_flight = 0
        """Requests that wait for its answer."""
        self.problem = ""
        """Why it could not be asked, when it last could not."""
        self._breaker = CircuitBreaker()
        self._ready_until: dict[tuple[str, str], float] = {}
        self._revived_at: dict[str, float] = {}
        self._reviving = threading.Lock()
        self._lock = threading.Lock()

    @property
    def client(self) -> InferenceServerClient:
        """The connection to it."""
        return clients.get(self.url)

    def sent(self) -> Callable[[], bool]:
        """Counts a request as under way; what it gives ends that, and says whether it did so just now."""
        ended = False
        with self._lock:
            self.in_flight += 1

        def end() -> bool:
            nonlocal ended
            with self._lock:
                before, ended = ended, True
                self.in_flight -= not before
            return not before

        return end

    def noted(self, failure: Failure | None) -> None:
        """Takes into account how something that was asked ended."""
        if failure is None or not failure.kind.blames_server:
            self._breaker.succeeded()
        else:
            self.problem = failure.text
            self._breaker.failed()
        if failure is not None and failure.kind is Kind.NOT_READY:
            with self._lock:
                self._ready_until.clear()

    def is_fit(self, model: str, version: str, *, alone: bool) -> bool:
        """Whether it may be asked, and, where there are others, has the model ready.

        Args:
            model: The model; empty where any answer of the server will do.
            version: Its version; empty for any.
            alone: Whether there is no other server: then the request itself is the best question.
        """
        admitted = self._breaker.admit()
        if admitted == "open":
            return False
        with self._lock:
            known = time.monotonic() < self._ready_until.get((model, version), 0)
        if admitted == "closed" and (alone or known):
            return True
        answer = self._probe(model, version)
        return answer is not None and (answer or alone)

    def is_live(self) -> bool:
        """Whether its server answers at all."""
        from tritonclient.utils import InferenceServerException

        try:
            return bool(self.client.is_server_live(client_timeout=_PROBE_S))
        except InferenceServerException:
            return False

    def revive(self, model: str, since: float, *, timeout_s: float) -> bool:
        """Has a model whose process ended loaded again, unless that was done after a time; gives whether it runs.

        Args:
            model: The model.
            since: When the request that found it dead was sent, by `time.monotonic`.
            timeout_s: Seconds that loading may take.
        """
        from tritonclient.utils import InferenceServerException

        with self._reviving:
            if self._revived_at.get(model, since) > since:
                return True
            try:
                # Loaded as it is, it would keep its dead process: only a changed configuration makes a new one. What
                # was served until then is unloaded after the new one is ready.
                config = self.client.get_model_config(model, as_json=True, client_timeout=timeout_s)["config"]
                config.setdefault("parameters", {})["revived_at"] = {"string_value": datetime.now(UTC).isoformat()}
                self.client.load_model(model, config=json.dumps(config), client_timeout=timeout_s)
            except InferenceServerException as error:
                self.problem = one_line(error.message() or "")
                return False
            self._revived_at[model] = time.monotonic()
            return True

    def _probe(self, model: str, version: str) -> bool | None:
        """Asks whether a model is ready; None if no answer comes."""
        from tritonclient.utils import InferenceServerException

        failure: Failure | None = Failure(Kind.AWAY, "the question whether it is ready failed")
        try:
            if model:
                ready = self.client.is_model_ready(model, version, client_timeout=_PROBE_S)
            else:
                ready = self.client.is_server_live(client_timeout=_PROBE_S)
            failure = None
        except InferenceServerException as error:
            failure = Failure.of(error)
        finally:
            self.noted(failure)
        if failure is not None:
            return None if failure.kind.blames_server else False
        if ready:
            with self._lock:
                self._ready_until[model, version] = time.monotonic() + _HEALTHY_S
        else:
            self.problem = f"model {model!r} is not ready there"
        return bool(ready)


class Endpoints:
    """One `Endpoint` for each address in each process, so that all who ask it know how it does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._endpoints: dict[tuple[int, str], Endpoint] = {}

    def get(self, url: str) -> Endpoint:
        """The endpoint of a `host:port`, made on first use."""
        # What was under way before a fork is its maker's.
        key = (os.getpid(), url)
        with self._lock:
            if key not in self._endpoints:
                self._endpoints[key] = Endpoint(url)
            return self._endpoints[key]

    def choose(
        self, urls: Sequence[str], model: str, version: str, *, avoid: Endpoint | None = None
    ) -> Endpoint | None:
        """The fit endpoint with the fewest requests under way; one to avoid only if no other is fit, else None."""
        found = [self.get(url) for url in urls]
        # At random among equals, so that many processes with a request each do not all ask the same one.
        if len(found) > 1:
            found.sort(key=lambda one: (one is avoid, one.in_flight, random.random()))  # noqa: S311
        return next((one for one in found if one.is_fit(model, version, alone=len(found) == 1)), None)

    def renew_lock(self) -> None:
        """Forgets a lock that a thread of the parent held when this process was forked."""
        self._lock = threading.Lock()


endpoints = Endpoints()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=endpoints.renew_lock)
