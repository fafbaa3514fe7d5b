"""The router: vectors, scores, and for the texts that the scores leave unsure a second step, in one call.

Business Logic Scripting of Triton's Python backend: it computes nothing but asks other models of the same server, each
only for what its caller wants to know. Building a version copies this file into it. It runs in the server's Python
environment, which has numpy; nothing of the platform can be imported here.
"""

import json
import math

import numpy as np
import triton_python_backend_utils as pb_utils

ENCODER = "feedback_encoder"
DETECTOR = "anomaly_detector"
ENCODED = ("embeddings", "token_count", "truncated")
SCORED = ("score", "cell")
JUDGED = ("unsure", "second_step")


class _NoAnswerError(Exception):
    """Why a request has no answer.

    Args:
        text: What to tell its sender; put on one line.
        code: The code of the TritonError that it comes from; None where its sender is to blame.
    """

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(" ".join(text.split()))
        self.code = code


class TritonPythonModel:
    """Answers each request by itself; what goes wrong is an error of that request alone.

    A text is unsure if its confidence, 1 - score, is under the limit. The limit is the parameter `confidence_limit` of
    the configuration or, where it has one of that name, of the request. The request's parameter `detector_version`
    names the detector's version; empty for the newest. The configuration's parameter `second_step` names a model from
    `text` BYTES [n, 1] to `answer` BYTES [n, 1], which is sent the unsure texts and no others; empty for none.
    """

    def initialize(self, args: dict[str, str]) -> None:
        """Reads the configuration's parameters."""
        config = json.loads(args["model_config"])
        parameters = {name: one["string_value"] for name, one in config.get("parameters", {}).items()}
        self._limit = _number("confidence_limit", parameters["confidence_limit"])
        self._second_step = parameters.get("second_step", "")

    def execute(self, requests: list) -> list:
        """Answers each request."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: object) -> object:
        try:
            return pb_utils.InferenceResponse(output_tensors=self._outputs(request))
        except _NoAnswerError as error:
            code = pb_utils.TritonError.INVALID_ARG if error.code is None else error.code
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error), code))

    def _outputs(self, request: object) -> list:
        """The tensors that are asked for; what none of them needs is not run."""
        wanted = set(request.requested_output_names())
        given = json.loads(request.parameters() or "{}")
        limit = _number("confidence_limit", given.get("confidence_limit", self._limit))
        version = _version(given.get("detector_version", ""))
        text = pb_utils.get_input_tensor_by_name(request, "text")

        needs_score = not wanted.isdisjoint((*SCORED, *JUDGED))
        encoded = [name for name in ENCODED if name in wanted or (name == "embeddings" and needs_score)]
        found = _ask(ENCODER, [text], encoded, request)
        if needs_score:
            found |= _scores(found["embeddings"], [*SCORED], version, request)
        if not wanted.isdisjoint(JUDGED):
            # Not the other way round: a score that is no number is none to be sure of.
            unsure = ~(1 - found["score"].as_numpy() >= limit)
            found["unsure"] = pb_utils.Tensor("unsure", unsure)
            if "second_step" in wanted:
                found["second_step"] = self._second_answers(text.as_numpy(), unsure, request)
        return [tensor for name, tensor in found.items() if name in wanted]

    def _second_answers(self, text: np.ndarray, unsure: np.ndarray, request: object) -> object:
        """The second step's answers to the unsure texts; empty for all others."""
        answers = np.full(text.shape, b"", dtype=np.object_)
        if self._second_step and unsure.any():
            asked = pb_utils.Tensor("text", text[unsure].reshape(-1, 1))
            answer = _ask(self._second_step, [asked], ["answer"], request)["answer"].as_numpy()
            if answer.dtype != np.object_ or answer.shape != asked.as_numpy().shape:
                given = f"{answer.dtype} {list(answer.shape)}"
                raise _NoAnswerError(f"{self._second_step} gave an `answer` of {given}: it must give BYTES [n, 1]")
            answers[unsure] = answer[:, 0]
        return pb_utils.Tensor("second_step", answers)


def _scores(embeddings: object, outputs: list, version: int, request: object) -> dict:
    if not pb_utils.is_model_ready(DETECTOR, str(version) if version > 0 else ""):
        if version > 0:
            raise _NoAnswerError(f"{DETECTOR} has no version {version}: name one that is served, or none")
        raise _NoAnswerError(f"no {DETECTOR} is served: fit it with `feedback run --select anomaly_model`")
    return _ask(DETECTOR, [embeddings], outputs, request, version)


def _ask(model: str, inputs: list, outputs: list, request: object, version: int = -1) -> dict:
    """A model's answer, by tensor, within the time that the router's own sender allows."""
    asked = pb_utils.InferenceRequest(
        model_name=model,
        model_version=version,
        requested_output_names=outputs,
        inputs=inputs,
        timeout=request.timeout(),
        preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU),
        request_id=request.request_id(),
    )
    response = asked.exec()
    if response.has_error():
        raise _NoAnswerError(f"{model}: {response.error().message()}", response.error().code())
    return {tensor.name(): tensor for tensor in response.output_tensors()}


def _number(name: str, value: object) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise _NoAnswerError(f"{name} is {value!r}: give a number")
    return number


def _version(value: object) -> int:
    """A version's number; -1 for the newest."""
    if value == "":
        return -1
    if not str(value).isdecimal() or int(value) < 1:
        raise _NoAnswerError(f"detector_version is {value!r}: give a version's number, or nothing for the newest")
    return int(value)
