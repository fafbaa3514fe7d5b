"""Breakages of the ONNX file beside its configuration."""

import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
from onnx import TensorProto, helper
from onnx.external_data_helper import set_external_data

from resources.repository_validation.backends import CONTAINER, EMBEDDED
from tests.resources.breakages import (
    EMBED_CONFIG,
    Break,
    Case,
    both,
    edit,
    enlist,
    with_file,
)
from tests.resources.small_repository import graph


def with_graph(model: onnx.ModelProto) -> Break:
    def change(root: Path) -> None:
        path = root / "embed" / "1" / "model.onnx"
        path.write_bytes(model.SerializeToString())
        enlist(path.parent)

    return change


def with_changed_graph(change: Callable[[onnx.ModelProto], object]) -> Break:
    model = graph()
    change(model)
    return with_graph(model)


def move_weights_out(model: onnx.ModelProto) -> None:
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == "weights")
    set_external_data(tensor, location="weights.bin", offset=0, length=16)
    tensor.ClearField("raw_data")


def rename_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].name = model.graph.node[0].input[0] = "tokens"


def alone(root: Path) -> None:
    """Leaves the embedder without what must fit its configuration."""
    shutil.rmtree(root / "whole")
    shutil.rmtree(root / "embed/configs")


def set_opset(model: onnx.ModelProto, opset: int) -> None:
    model.opset_import[0].version = opset


def use_contrib_operator(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.graph.node[2].op_type, model.graph.node[2].domain = "QuickMul", "com.microsoft"


CASES = [
    Case(
        "not_a_graph",
        both(with_file("embed/1/model.onnx", b"<html>"), lambda root: enlist(root / "embed/1")),
        "embed/1/model.onnx is not an ONNX model: remove the folder and build the version again",
        refused="embed",
    ),
    Case(
        "invalid_graph",
        with_changed_graph(lambda model: model.graph.node.pop(0)),
        "embed/1/model.onnx is not a valid ONNX model (Nodes in a graph must be topologically sorted",
        refused="embed",
    ),
    Case(
        "other_name_in_the_graph",
        with_changed_graph(rename_input),
        "embed/1/model.onnx has the inputs ['tokens'], its configuration ['ids']: make them equal",
        refused="embed",
    ),
    Case(
        "other_type_in_the_graph",
        with_changed_graph(
            lambda model: setattr(model.graph.input[0].type.tensor_type, "elem_type", TensorProto.INT64)
        ),
        "embed/1/model.onnx: input ids is INT64, its configuration says INT32: make them equal",
        refused="embed",
    ),
    Case(
        "other_size_in_the_graph",
        with_graph(graph(given=("batch", 3))),
        "embed/1/model.onnx: output vector is FP32 [-1, 3], its configuration says FP32 [-1, 4]: make them equal",
        refused="embed",
    ),
    Case(
        "dims_with_the_batch",
        both(alone, edit(EMBED_CONFIG, "INT32, dims: [ -1 ]", "INT32, dims: [ -1, -1 ]")),
        "embed/1/model.onnx: the dims of ['ids'] repeat the batch, which max_batch_size stands for: leave out",
        refused="embed",
    ),
    Case(
        "batch_without_a_dimension",
        with_graph(graph(taken=("tokens",), given=(4,))),
        "embed/1/model.onnx: ['ids', 'vector'] have no batch dimension: write max_batch_size: 0, or export the graph",
        refused="embed",
    ),
    Case(
        "fixed_batch",
        with_graph(graph(taken=(1, "tokens"), given=(1, 4))),
        "embed/1/model.onnx: the batch of ['ids', 'vector'] is fixed: export the graph with a dynamic first axis",
    ),
    Case(
        "opset_of_the_future",
        with_changed_graph(lambda model: set_opset(model, EMBEDDED.opset + 1)),
        f"embed/1/model.onnx has opset {EMBEDDED.opset + 1}, and ONNX Runtime {CONTAINER.version} of Triton 2.51's",
        refused="embed",
    ),
    Case(
        "opset_too_new_for_the_container",
        with_changed_graph(lambda model: set_opset(model, CONTAINER.opset + 1)),
        f"embed/1/model.onnx has opset {CONTAINER.opset + 1}, and ONNX Runtime {CONTAINER.version} of Triton 2.51's",
    ),
    Case(
        "format_too_new_for_the_embedded_server",
        both(alone, with_changed_graph(lambda model: setattr(model, "ir_version", EMBEDDED.ir + 1))),
        f"embed/1/model.onnx has IR version {EMBEDDED.ir + 1}, and ONNX Runtime {EMBEDDED.version} of the embedded",
        refused="embed",
    ),
    Case(
        "contrib_operator_for_tensorrt",
        with_changed_graph(use_contrib_operator),
        "['QuickMul'] of com.microsoft, which TensorRT leaves to other devices: name a file of standard operators in "
        "embed/configs/gpu.pbtxt",
    ),
    Case(
        "external_data_missing",
        with_changed_graph(move_weights_out),
        "embed/1/model.onnx keeps weights in weights.bin, which is missing: put it beside the graph",
        refused="embed",
    ),
    Case(
        "external_data_cut_short",
        both(
            with_changed_graph(move_weights_out),
            with_file("embed/1/weights.bin", b"0123456789"),
            lambda root: enlist(root / "embed/1"),
        ),
        "embed/1/weights.bin has 10 bytes, model.onnx reads 16: put the whole file there",
        refused="embed",
    ),
]
