"""The graph around an encoder computes what the encoder and numpy do, and refuses what it cannot serve."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from resources.encoder_graph import TOLERANCE, TextEmbedder, check_embedder, wrap_encoder
from resources.errors import ConfigurationError, ResourceError
from tests.resources.tiny_encoder import DIMS, tiny_encoder, write_encoder

IDS = np.array([[2, 5, 6, 3], [2, 7, 3, 0], [2, 3, 0, 0]], dtype=np.int32)
MASK = (IDS != 0).astype(np.int32)


def run(model: bytes, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(["embeddings"], {"input_ids": ids, "attention_mask": mask})[0]


def pooled(encoder: Path, integer: type = np.int64) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(encoder), providers=["CPUExecutionProvider"])
    given = {"input_ids": IDS, "attention_mask": MASK, "token_type_ids": np.zeros_like(IDS)}
    hidden = session.run(None, {one.name: given[one.name].astype(integer) for one in session.get_inputs()})[0]
    mean = (hidden * MASK[:, :, None]).sum(axis=1) / MASK.sum(axis=1, keepdims=True)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("model", "integer"),
    [
        (tiny_encoder(), np.int64),
        (tiny_encoder(token_types=False), np.int64),
        (tiny_encoder(integer=TensorProto.INT32), np.int32),
        (tiny_encoder(output="hidden"), np.int64),
        (tiny_encoder(opset=13), np.int64),
        (tiny_encoder(dims=5), np.int64),
    ],
    ids=["bert", "no token types", "32-bit inputs", "another output name", "opset 13", "5 dims"],
)
def test_the_graph_equals_the_encoder_pooled_in_numpy(tmp_path: Path, model: onnx.ModelProto, integer: type) -> None:
    folder = write_encoder(tmp_path, model)

    embedder = wrap_encoder(folder / "model.onnx")

    vectors = run(embedder.model, IDS, MASK)
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, embedder.dims)
    np.testing.assert_allclose(vectors, pooled(folder / "model.onnx", integer), atol=TOLERANCE)
    assert check_embedder(embedder, folder / "model.onnx", folder / "tokenizer.json", 16) <= TOLERANCE


def test_the_inputs_are_32_bit_and_the_output_has_the_measured_size(tmp_path: Path) -> None:
    embedder = wrap_encoder(write_encoder(tmp_path) / "model.onnx")

    session = onnxruntime.InferenceSession(embedder.model, providers=["CPUExecutionProvider"])
    assert [(one.name, one.type) for one in session.get_inputs()] == [
        ("input_ids", "tensor(int32)"),
        ("attention_mask", "tensor(int32)"),
    ]
    assert [(one.name, one.shape[1]) for one in session.get_outputs()] == [("embeddings", DIMS)]


def test_a_mask_of_zeros_gives_zeros(tmp_path: Path) -> None:
    embedder = wrap_encoder(write_encoder(tmp_path) / "model.onnx")

    assert not run(embedder.model, IDS, np.zeros_like(MASK)).any()


def test_the_same_encoder_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path)

    assert wrap_encoder(folder / "model.onnx") == wrap_encoder(folder / "model.onnx")


def with_input(name: str) -> onnx.ModelProto:
    model = tiny_encoder()
    model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]))
    return model


def pooled_already() -> onnx.ModelProto:
    model = tiny_encoder(output="sentence_embedding")
    del model.graph.output[0].type.tensor_type.shape.dim[1]
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (tiny_encoder(opset=12), "opset 13 or newer"),
        (with_input("pixel_values"), "pixel_values.*takes input_ids, attention_mask"),
        (pooled_already(), "without pooling"),
    ],
    ids=["old opset", "not a text encoder", "pooled already"],
)
def test_another_graph_is_refused(tmp_path: Path, model: onnx.ModelProto, message: str) -> None:
    folder = write_encoder(tmp_path, model)

    with pytest.raises(ConfigurationError, match=message):
        wrap_encoder(folder / "model.onnx")


def test_a_file_that_is_not_onnx_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"<html>not found</html>")

    with pytest.raises(ConfigurationError, match=r"model\.onnx cannot be read as an ONNX model"):
        wrap_encoder(tmp_path / "model.onnx")


def test_vectors_that_depend_on_their_neighbours_are_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path, tiny_encoder(sees_neighbours=True))
    embedder = wrap_encoder(folder / "model.onnx")

    with pytest.raises(ResourceError, match="alone and in a batch differs"):
        check_embedder(embedder, folder / "model.onnx", folder / "tokenizer.json", 16)


def test_the_graph_of_another_encoder_is_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path)
    other = wrap_encoder(write_encoder(tmp_path / "other", tiny_encoder(token_types=False)) / "model.onnx")

    with pytest.raises(ResourceError, match="pooled in the graph and outside"):
        check_embedder(other, folder / "model.onnx", folder / "tokenizer.json", 16)


def test_a_token_limit_beyond_the_positions_is_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path, tiny_encoder(positions=20))
    embedder = wrap_encoder(folder / "model.onnx")

    check_embedder(embedder, folder / "model.onnx", folder / "tokenizer.json", 20)
    with pytest.raises(ConfigurationError, match="does not run on 21 tokens"):
        check_embedder(embedder, folder / "model.onnx", folder / "tokenizer.json", 21)


def test_a_broken_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path)
    (folder / "tokenizer.json").write_text("{}")

    with pytest.raises(ConfigurationError, match=r"is not a tokenizer\.json"):
        check_embedder(TextEmbedder(b"", 8), folder / "model.onnx", folder / "tokenizer.json", 16)
