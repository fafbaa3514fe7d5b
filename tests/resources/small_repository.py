"""A repository of three tiny models that a server really serves: ids of a text, a vector of ids, and both as one."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from resources.model_repository import ModelCard, ModelRepository

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)

IDS = """\
name: "ids"
backend: "python"
max_batch_size: 8
input [ { name: "text", data_type: TYPE_STRING, dims: [ 1 ] } ]
output [ { name: "ids", data_type: TYPE_INT32, dims: [ -1 ] } ]
instance_group [ { count: 1, kind: KIND_CPU } ]
"""
EMBED = """\
name: "embed"
backend: "onnxruntime"
max_batch_size: 8
input [ { name: "ids", data_type: TYPE_INT32, dims: [ -1 ] } ]
output [ { name: "vector", data_type: TYPE_FP32, dims: [ 4 ] } ]
instance_group [ { count: 1, kind: KIND_CPU } ]
version_policy { latest { num_versions: 1 } }
"""
GPU = """\
name: "embed"
backend: "onnxruntime"
max_batch_size: 8
input [ { name: "ids", data_type: TYPE_INT32, dims: [ -1 ] } ]
output [ { name: "vector", data_type: TYPE_FP32, dims: [ 4 ] } ]
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  priority_levels: 2
  default_priority_level: 2
  priority_queue_policy { key: 1, value { max_queue_size: 9 } }
}
optimization { execution_accelerators { gpu_execution_accelerator [ {
  name: "tensorrt"
  parameters { key: "precision_mode", value: "FP16" }
  parameters { key: "trt_engine_cache_enable", value: "1" }
  parameters { key: "trt_profile_min_shapes", value: "ids:1x1" }
  parameters { key: "trt_profile_opt_shapes", value: "ids:4x16" }
  parameters { key: "trt_profile_max_shapes", value: "ids:8x32" }
} ] } }
model_warmup [ {
  name: "short", batch_size: 8
  inputs { key: "ids", value { data_type: TYPE_INT32, dims: [ 16 ], zero_data: true } }
} ]
instance_group [ { count: 2, kind: KIND_GPU, gpus: [ 0, 1 ] } ]
"""
WHOLE = """\
name: "whole"
platform: "ensemble"
max_batch_size: 8
input [ { name: "text", data_type: TYPE_STRING, dims: [ 1 ] } ]
output [ { name: "vector", data_type: TYPE_FP32, dims: [ 4 ] } ]
ensemble_scheduling { step [
  {
    model_name: "ids" model_version: -1
    input_map { key: "text", value: "text" }
    output_map { key: "ids", value: "tokens" }
  },
  {
    model_name: "embed" model_version: -1
    input_map { key: "ids", value: "tokens" }
    output_map { key: "vector", value: "vector" }
  }
] }
"""
CODE = """\
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb.get_input_tensor_by_name(request, "text").as_numpy()) for request in requests]

    def answer(self, text):
        return pb.InferenceResponse([pb.Tensor("ids", np.ones((len(text), 3), np.int32))])
"""


def graph(
    *,
    taken: tuple[str | int, ...] = ("batch", "tokens"),
    given: tuple[str | int, ...] = ("batch", 4),
    name: str = "one",
) -> onnx.ModelProto:
    """The sum of the ids of a text times each of some weights."""
    nodes = [
        helper.make_node("Cast", ["ids"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["numbers", "axis"], ["sum"], keepdims=1),
        helper.make_node("Mul", ["sum", "weights"], ["vector"]),
    ]
    made = helper.make_model(
        helper.make_graph(
            nodes,
            name,
            [helper.make_tensor_value_info("ids", TensorProto.INT32, taken)],
            [helper.make_tensor_value_info("vector", TensorProto.FLOAT, given)],
            initializer=[
                numpy_helper.from_array(np.array([-1], dtype=np.int64), "axis"),
                numpy_helper.from_array(np.arange(int(given[-1]), dtype=np.float32), "weights"),
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    made.ir_version = 8
    return made


def write_small_repository(root: Path) -> None:
    """Writes one version of each model, and a configuration for two GPUs of the second."""
    repository = ModelRepository(root)
    for model, config, files in (
        ("ids", IDS, {"model.py": CODE.encode()}),
        ("embed", EMBED, {"model.onnx": graph().SerializeToString()}),
        ("whole", WHOLE, {}),
    ):
        (root / model).mkdir()
        (root / model / "config.pbtxt").write_text(config)
        repository.add_version(model, files, ModelCard(source="a test", created_at=MOMENT))
    (root / "embed" / "configs").mkdir()
    (root / "embed" / "configs" / "gpu.pbtxt").write_text(GPU)
