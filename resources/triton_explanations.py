"""What a failure of a Triton server means, as one line that says what to do.

Asking the server what it knows of the reason belongs here. Trying again does not (`resources.triton_retries`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from resources.errors import ResourceError, ServerUnavailableError
from resources.triton_endpoints import Endpoint, endpoints
from resources.triton_errors import (
    InferenceTimeoutError,
    ModelCrashError,
    ModelInferenceError,
    ModelNotReadyError,
    ServerBusyError,
    one_line,
)
from resources.triton_retries import Failure, Kind

if TYPE_CHECKING:
    from resources.triton_call import Call, Question

_Answer = TypeVar("_Answer")

_PATIENCE_S = 5.0


def explained(failure: Failure, asked: Call | Question[_Answer], urls: Sequence[str], *, to_do: str) -> ResourceError:
    """The typed error for what a server answered, or for its silence.

    Args:
        failure: The last one.
        asked: What was asked.
        urls: Who could have been asked.
        to_do: What to do where no server answers.
    """
    what, where, text = _what(asked), ", ".join(urls), failure.text
    known = [endpoints.get(url) for url in urls]
    kind = failure.kind
    if kind in {Kind.LOST, Kind.AWAY}:
        if not any(one.is_live() for one in known):
            reason = known[0].problem or text
            return ServerUnavailableError(f"no Triton server answers at {where}: {to_do} ({reason})")
        if kind is Kind.LOST:
            return ServerUnavailableError(f"{where} breaks off when {what} is asked: see the server's log ({text})")
        kind = Kind.NOT_READY
    if kind is Kind.NOT_READY:
        reason = next(filter(None, (_reason(one, asked.model_name) for one in known)), text)
        return ModelNotReadyError(f"{what} is not ready at {where}: load it or correct it ({reason})")
    return _of_request(kind, asked, where, text)


def _of_request(kind: Kind, asked: Call | Question[_Answer], where: str, text: str) -> ResourceError:
    """The error for what a server that runs makes of a request."""
    what = _what(asked)
    if kind is Kind.DEAD:
        return ServerUnavailableError(
            f"the process of {what} at {where} ended, and loading it again did not help: restart the server ({text})"
        )
    if kind is Kind.LATE:
        return InferenceTimeoutError(f"{what} at {where} gave no answer within {asked.timeout_s:g} s: raise timeout_s")
    if kind is Kind.BUSY:
        return ServerBusyError(
            f"{what} at {where} has too many requests waiting: run less at a time, or raise total_timeout_s ({text})"
        )
    if kind is Kind.TOO_LARGE:
        return ModelInferenceError(f"{what} was sent too much: lower max_request_bytes ({text})")
    return ModelInferenceError(f"{what} at {where} failed: {text}")


def crashed(asked: Call | Question[_Answer], deaths: int) -> ModelCrashError:
    """The error for a request that kills its server."""
    return ModelCrashError(
        f"{_what(asked)} was sent a request under which its process died {deaths} times: leave that request out, "
        "or give the server more memory"
    )


def _what(asked: Call | Question[_Answer]) -> str:
    what = f"model {asked.model_name!r}" if asked.model_name else "the server"
    return what + (f" version {asked.version}" if asked.version else "")


def _reason(endpoint: Endpoint, model: str) -> str:
    """Why a model is not ready, as the server's index of its repository says it; empty where it says nothing."""
    from tritonclient.utils import InferenceServerException

    try:
        index = endpoint.client.get_model_repository_index(client_timeout=_PATIENCE_S).models
    except InferenceServerException:
        return ""
    found = [one for one in index if one.name == model]
    if not found:
        return "the server's repository holds no such model"
    return next((one_line(one.reason) for one in found if one.reason), "")
