"""ONNX Runtime on a CPU as a python-based Triton backend, for a server that comes without the compiled one.

It answers to the compiled backend's name and reads its thread parameters, so that one config.pbtxt serves in
both. It runs in the server's Python environment: nothing of the platform can be imported here. No GPU and no
sequences.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils

# A model configuration as Triton hands it over, in JSON.
_Config = dict[str, Any]

_ONNX_TYPES = {
    "TYPE_BOOL": "tensor(bool)",
    "TYPE_INT32": "tensor(int32)",
    "TYPE_INT64": "tensor(int64)",
    "TYPE_FP16": "tensor(float16)",
    "TYPE_FP32": "tensor(float)",
    "TYPE_FP64": "tensor(double)",
}


class TritonPythonModel:
    """One session of the version's graph; requests run one after another, as they came."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: object) -> object:
        """Leaves the configuration as it is: it states every tensor."""
        return auto_complete_model_config

    def initialize(self, args: dict[str, str]) -> None:
        """Opens the session and refuses a graph whose tensors are not those of the configuration.

        Raises:
            TritonModelException: The environment or the graph cannot serve this configuration, or the graph does
                not give here what it gave where it was built.
        """
        if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
            raise pb_utils.TritonModelException(
                f"numpy {np.__version__}: this server's Python backend returns empty tensors with numpy 2 or "
                "newer; install numpy<2 into the server's environment"
            )
        config = json.loads(args["model_config"])
        file = config.get("default_model_filename") or "model.onnx"
        path = Path(args["model_repository"]) / args["model_version"] / file
        if not path.is_file():
            raise pb_utils.TritonModelException(f"{path} is missing: build the version again")
        _refuse_other_content(path)

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = _parameter(config, "intra_op_thread_count")
        options.inter_op_num_threads = _parameter(config, "inter_op_thread_count")
        self._session = onnxruntime.InferenceSession(
            str(path), sess_options=options, providers=["CPUExecutionProvider"]
        )
        _check(path, config, "input", self._session.get_inputs())
        _check(path, config, "output", self._session.get_outputs())
        _self_test(path, self._session)
        self._inputs = [tensor["name"] for tensor in config["input"]]

    def execute(self, requests: "list[pb_utils.InferenceRequest]") -> "list[pb_utils.InferenceResponse]":
        """Answers each request; a failing one is an error of its own and leaves the others alone."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: "pb_utils.InferenceRequest") -> "pb_utils.InferenceResponse":
        if request.is_cancelled():
            # The client has given up waiting: work on it would only make the next one wait, too.
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("cancelled", pb_utils.TritonError.CANCELLED))
        feed = {name: pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in self._inputs}
        names = list(request.requested_output_names())
        try:
            values = self._session.run(names, feed)
        # onnxruntime's exceptions share no base class of their own; the client gets the message.
        except Exception as error:  # noqa: BLE001
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"onnxruntime: {error}"))
        return pb_utils.InferenceResponse(
            output_tensors=[
                pb_utils.Tensor(name, np.ascontiguousarray(value)) for name, value in zip(names, values, strict=True)
            ]
        )


def _refuse_other_content(path: Path) -> None:
    """Refuses a graph that is not the one on its version's card: results would name a model that did not make them."""
    card = path.with_name("model.json")
    if not card.is_file():
        return
    expected = json.loads(card.read_text(encoding="utf-8"))["files"].get(path.name)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise pb_utils.TritonModelException(
            f"{path} has SHA-256 {found}, its card says {expected}: remove the version's folder and build it again"
        )


def _self_test(path: Path, session: onnxruntime.InferenceSession) -> None:
    """Refuses a graph that gives other vectors here than where it was built, if `<graph>.selftest.npz` lies by it.

    A CPU or a runtime that computes integer products otherwise gives vectors of the right shape and length that
    are subtly wrong; nothing later would notice.
    """
    test = path.with_suffix(".selftest.npz")
    if not test.is_file():
        return
    with np.load(test) as held:
        feed = {"input_ids": held["input_ids"], "attention_mask": held["attention_mask"]}
        seen = session.run(["embeddings"], feed)[0]
        # Vectors have length 1: the product is the cosine.
        cosine, least = float((seen * held["embeddings"]).sum(axis=1).mean()), float(held["mean_cosine"])
    # Also true of a value that is not a number.
    if not cosine >= least:
        raise pb_utils.TritonModelException(
            f"{path}: on this CPU, with onnxruntime {onnxruntime.__version__}, the texts of its self-test get other "
            f"vectors than where it was built (mean cosine {cosine:.4f}, at least {least}): build the models on this "
            "machine with `feedback models build`"
        )


def _parameter(config: "_Config", key: str) -> int:
    """A whole number from the configuration's parameters; 1 where it is not set."""
    return int(config.get("parameters", {}).get(key, {}).get("string_value", "1"))


def _check(path: Path, config: "_Config", kind: str, graph_tensors: "list[onnxruntime.NodeArg]") -> None:
    """Refuses a configured tensor that the graph lacks or has with another type or shape."""
    found = {tensor.name: tensor for tensor in graph_tensors}
    for tensor in config[kind]:
        name = tensor["name"]
        if name not in found:
            raise pb_utils.TritonModelException(f"{path} has no {kind} {name}; it has {sorted(found)}")
        if found[name].type != _ONNX_TYPES.get(tensor["data_type"]):
            raise pb_utils.TritonModelException(
                f"{path}: {kind} {name} is {found[name].type}, the configuration says {tensor['data_type']}"
            )
        batched = config.get("max_batch_size", 0) > 0
        expected = ([-1] if batched else []) + [int(dim) for dim in tensor["dims"]]
        shape = [dim if isinstance(dim, int) else -1 for dim in found[name].shape]
        if len(shape) != len(expected) or any(
            -1 not in (have, want) and have != want for have, want in zip(shape, expected, strict=True)
        ):
            raise pb_utils.TritonModelException(
                f"{path}: {kind} {name} has shape {shape}, the configuration says {expected}"
            )
