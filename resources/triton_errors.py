"""The errors of talking to a Triton server; each message is one line that names the model and what to do."""

from resources.errors import ResourceError, ServerUnavailableError


class ModelNotReadyError(ServerUnavailableError):
    """The server runs and does not serve the model, or not in that version."""


class InferenceTimeoutError(ServerUnavailableError):
    """A model gave no answer within the time a request may take; the request was cancelled."""


class ServerBusyError(ServerUnavailableError):
    """The server runs and refused a request, because too many wait for the model already."""


class InferencePausedError(ServerUnavailableError):
    """A person stopped all inference by hand; see `resources.triton_pause`."""


class ModelInferenceError(ResourceError):
    """The model, or its server, refused a request or failed on it."""


class ModelCrashError(ModelInferenceError):
    """The server died each time that it was sent the request, and came back in between."""


class ModelContractError(ResourceError):
    """A tensor, sent or answered, is not what the model declares; sending it again gives the same."""


def one_line(text: str) -> str:
    """A server's message on one line, without the Python stack that a failing model adds to it."""
    return " ".join(text.partition("\n\nAt:")[0].split())
