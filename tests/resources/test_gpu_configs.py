"""The configurations for GPUs: what can be known of them without one, and what a host with one must show."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from resources.embedded_triton import EmbeddedTriton
from resources.model_config import ModelConfig, read_config, unknown_field
from resources.model_repository import ModelRepository
from resources.repository_validation.accelerators import present_gpus
from resources.triton import TritonResource

GPU_TRITON = "FEEDBACK_GPU_TRITON"
TEXTS = ["ok", "The parcel arrived two days late and the box was open.", "word " * 200, "Ich möchte mein Geld zurück."]
ONNX_TYPES = {"INT32": onnx.TensorProto.INT32, "INT64": onnx.TensorProto.INT64, "FP32": onnx.TensorProto.FLOAT}


def gpu_configs(repository: Path) -> dict[str, ModelConfig]:
    return {path.parents[1].name: read_config(path) for path in sorted(repository.glob("*/configs/gpu.pbtxt"))}


@pytest.fixture(scope="module")
def configs(project_root: Path) -> dict[str, ModelConfig]:
    return gpu_configs(project_root / "model_repository")


def test_they_are_there_and_have_no_unknown_field(project_root: Path, configs: dict[str, ModelConfig]) -> None:
    assert set(configs) >= {"anomaly_detector", "text_embedder", "tokenizer"}
    for path in (project_root / "model_repository").glob("*/configs/gpu.pbtxt"):
        assert unknown_field(path) == ""


def test_the_graphs_have_the_tensors_that_are_declared(built_repository: Path) -> None:
    served = [
        (name, config) for name, config in gpu_configs(built_repository).items() if config.backend == "onnxruntime"
    ]
    graphs = 0
    for name, config in served:
        repository = ModelRepository(built_repository)
        for version in config.versions.served(repository.versions(name)):
            path = repository.version_path(name, version) / (config.file or "model.onnx")
            onnx.checker.check_model(str(path))
            graph = onnx.load(path).graph
            for declared, values in ((config.inputs, graph.input), (config.outputs, graph.output)):
                found = {value.name: value.type.tensor_type for value in values}
                assert found.keys() == declared.keys()
                for tensor, kind in found.items():
                    assert kind.elem_type == ONNX_TYPES[declared[tensor].data_type]
                    batch, *sizes = [size.dim_value or -1 for size in kind.shape.dim]
                    assert (batch, tuple(sizes)) == (-1, declared[tensor].dims)
            graphs += 1
    assert graphs


def test_tensorrt_is_given_standard_operators_in_half_precision(built_repository: Path) -> None:
    config = gpu_configs(built_repository)["text_embedder"]
    repository = ModelRepository(built_repository)
    newest = repository.versions("text_embedder")[-1]
    model = onnx.load(repository.version_path("text_embedder", newest) / config.file, load_external_data=False)

    assert config.accelerators["tensorrt"]["precision_mode"] == "FP16"
    assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}


def test_the_profile_holds_every_request(built_repository: Path) -> None:
    config = gpu_configs(built_repository)["text_embedder"]
    repository = ModelRepository(built_repository)
    limit = repository.card("text_embedder", repository.versions("text_embedder")[-1]).token_limit
    largest = config.accelerators["tensorrt"]["trt_profile_max_shapes"]

    shapes = dict(part.split(":") for part in largest.split(","))
    assert shapes.keys() == config.inputs.keys()
    for shape in shapes.values():
        rows, tokens = map(int, shape.split("x"))
        assert rows == config.max_batch_size
        assert limit is not None
        assert tokens >= limit
        assert all(warm_up.inputs["input_ids"].dims[0] <= tokens for warm_up in config.warm_ups)


def test_online_requests_go_before_those_that_name_no_priority(configs: dict[str, ModelConfig]) -> None:
    queue = configs["text_embedder"].queue
    assert queue is not None
    assert queue.default_priority == queue.priorities > 1
    assert 1 in queue.ruled_priorities


@pytest.fixture(scope="module")
def without_gpu(
    built_repository: Path, triton_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TritonResource]:
    """A server that reads the configurations for GPUs, with no change but the kind of device."""
    root = tmp_path_factory.mktemp("gpu_configs")
    shutil.copytree(built_repository, root / "repository", copy_function=os.link)
    for path in (root / "repository").glob("*/configs/gpu.pbtxt"):
        text = path.read_text().replace("KIND_GPU", "KIND_CPU")
        path.unlink()  # the original is a link to the same file
        path.write_text(text)
    server = EmbeddedTriton(
        repository=root / "repository", environment=triton_environment, state=root / "state", model_config_name="gpu"
    )
    with server as running:
        yield TritonResource(url=running.url)


@pytest.mark.integration
def test_a_server_takes_queue_warm_up_and_cache(without_gpu: TritonResource) -> None:
    metadata = without_gpu.metadata("text_embedder")
    assert metadata.file == "model.onnx"
    answer = without_gpu.infer("feedback_encoder", {"text": column(TEXTS)})
    assert np.allclose(np.linalg.norm(answer["embeddings"], axis=1), 1.0, atol=1e-5)
    tokens = without_gpu.infer("tokenizer", {"text": column(TEXTS[:1])})["input_ids"]
    assert tokens.shape[1] % 32 == 0  # requests of near lengths have one shape, so that they can be merged


@pytest.fixture(scope="module")
def with_gpu() -> TritonResource:
    """A Triton that serves the repository on a GPU; docs/gpu.md says how to start one."""
    if not present_gpus():
        pytest.skip("this host has no NVIDIA GPU")
    if GPU_TRITON not in os.environ:
        pytest.skip(f"{GPU_TRITON} does not name host:port of a Triton with --model-config-name=gpu (docs/gpu.md)")
    return TritonResource(url=os.environ[GPU_TRITON])


@pytest.mark.gpu
def test_half_precision_gives_nearly_the_same_vectors(with_gpu: TritonResource, built_repository: Path) -> None:
    repository = ModelRepository(built_repository)
    newest = repository.versions("text_embedder")[-1]
    file = repository.version_path("text_embedder", newest) / "model.onnx"
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    tokens = with_gpu.infer("tokenizer", {"text": column(TEXTS)})

    reference = session.run(["embeddings"], {name: tokens[name] for name in ("input_ids", "attention_mask")})[0]
    together = with_gpu.infer("feedback_encoder", {"text": column(TEXTS)})["embeddings"]
    alone = np.concatenate(
        [with_gpu.infer("feedback_encoder", {"text": column([text])})["embeddings"] for text in TEXTS]
    )

    assert np.sum(together * reference, axis=1).min() >= 0.999
    assert np.sum(together * alone, axis=1).min() >= 0.9999


def column(texts: list[str]) -> np.ndarray:
    return np.array([[text.encode()] for text in texts], dtype=object)
