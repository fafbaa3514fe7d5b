"""Each graph computes, layer by layer, what the checkpoint does in numpy; the int8 one nearly."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from resources.bert_build import bert_graphs, state_ranges
from resources.bert_checkpoint import BertCheckpoint, read_checkpoint
from resources.bert_graph import BertGraph
from resources.bert_int8 import Int8BertGraph
from resources.bert_reference import hidden_states, reference_vector
from resources.graph_writer import with_outputs
from tests.resources.tiny_bert import HIDDEN, LAYERS, bert_weights, tiny_bert, write_bert

IDS = np.array([[2, 5, 6, 7, 8, 9, 3], [2, 7, 4, 3, 0, 0, 0], [2, 3, 0, 0, 0, 0, 0]], dtype=np.int32)
MASK = (IDS != 0).astype(np.int32)
LENGTHS = MASK.sum(axis=1)
STATES = ["embedded", *(f"layer{number}/{part}" for number in range(LAYERS) for part in ("attended", "output"))]
KINDS = ("fp32", "fp32-fused", "int8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bert")


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> BertCheckpoint:
    return tiny_bert(folder)


@pytest.fixture(scope="module")
def graphs(checkpoint: BertCheckpoint, folder: Path) -> dict[str, bytes]:
    return all_graphs(checkpoint, folder)


def all_graphs(checkpoint: BertCheckpoint, folder: Path) -> dict[str, bytes]:
    return bert_graphs(checkpoint, folder / "model.safetensors", folder / "tokenizer.json", 16, lambda _: None)


def run(graph: bytes, outputs: list[str], ids: np.ndarray = IDS, mask: np.ndarray = MASK) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    return session.run(outputs, {"input_ids": ids, "attention_mask": mask})


def rows(states: np.ndarray) -> list[np.ndarray]:
    """The states of each text's own tokens, from a grid or from rows."""
    grid = states.reshape(*IDS.shape, -1)
    return [grid[row, :length] for row, length in enumerate(LENGTHS)]


def cosine(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (left * right).sum(axis=-1) / np.linalg.norm(left, axis=-1) / np.linalg.norm(right, axis=-1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_computes_what_numpy_does(checkpoint: BertCheckpoint, graphs: dict[str, bytes], kind: str) -> None:
    seen = run(with_outputs(graphs[kind], STATES), STATES)

    for row, length in enumerate(LENGTHS):
        for name, found, (expected_name, expected) in zip(
            STATES, seen, hidden_states(checkpoint, IDS[row, :length]), strict=True
        ):
            assert name == expected_name
            if kind == "int8":
                assert cosine(rows(found)[row], expected).min() > 0.9995, name
            else:
                np.testing.assert_allclose(rows(found)[row], expected, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_have_length_one_and_blank_texts_are_zeros(
    checkpoint: BertCheckpoint, graphs: dict[str, bytes], kind: str
) -> None:
    (vectors,) = run(graphs[kind], ["embeddings"])
    expected = np.array([reference_vector(checkpoint, ids[:length]) for ids, length in zip(IDS, LENGTHS, strict=True)])

    assert vectors.shape == (3, HIDDEN)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    assert cosine(vectors, expected).min() > (0.999 if kind == "int8" else 0.999999)
    assert not run(graphs[kind], ["embeddings"], mask=np.zeros_like(MASK))[0].any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_does_not_depend_on_its_neighbours(graphs: dict[str, bytes], kind: str) -> None:
    (together,) = run(graphs[kind], ["embeddings"])

    for row, length in enumerate(LENGTHS):
        (alone,) = run(graphs[kind], ["embeddings"], IDS[row : row + 1, :length], MASK[row : row + 1, :length])
        np.testing.assert_allclose(alone[0], together[row], atol=1e-6)


def test_operators_and_sizes(graphs: dict[str, bytes]) -> None:
    opened = {name: onnx.load_from_string(graph) for name, graph in graphs.items()}
    nodes = {name: {(node.domain, node.op_type) for node in model.graph.node} for name, model in opened.items()}

    assert {domain for domain, _ in nodes["fp32"]} == {""}
    assert [(entry.domain, entry.version) for entry in opened["fp32"].opset_import] == [("", 17)]
    assert ("com.microsoft", "MultiHeadAttention") in nodes["fp32-fused"]
    products = [node for node in opened["int8"].graph.node if "MatMul" in node.op_type and node.domain]
    assert len(products) == 4 * LAYERS
    # Only the pooling is a product of floating-point numbers.
    assert [node.name for node in opened["int8"].graph.node if node.op_type == "MatMul"] == [""]
    assert len(graphs["int8"]) < len(graphs["fp32"]) / 2


def test_the_same_checkpoint_gives_the_same_bytes(
    checkpoint: BertCheckpoint, graphs: dict[str, bytes], folder: Path
) -> None:
    assert all_graphs(checkpoint, folder) == graphs


def test_a_wide_column_does_not_drown_the_others(tmp_path: Path) -> None:
    checkpoint = tiny_bert(tmp_path, wide_column=3)
    graph = BertGraph(checkpoint).build()
    expected = run(graph, ["embeddings"])[0]
    ranges = state_ranges(graph, checkpoint, tmp_path / "tokenizer.json", 16)
    assert ranges["embedded"].argmax() == 3

    def error(given: dict[str, np.ndarray]) -> float:
        return float(1 - cosine(run(Int8BertGraph(checkpoint, given).build(), ["embeddings"])[0], expected).mean())

    even = {name: np.ones(HIDDEN, dtype=np.float32) for name in ranges}
    assert error(ranges) < error(even) / 2


def test_rows_without_a_positive_activation_keep_their_negative_ones(tmp_path: Path) -> None:
    weights = bert_weights()
    for name in weights:
        if "intermediate" in name:
            weights[name] = weights[name] / 10 - (0.7 if name.endswith("bias") else 0.0)
        elif name.endswith(".output.dense.weight") and "attention" not in name:
            weights[name] = weights[name] * 40
    folder = write_bert(tmp_path, {name: value.astype(np.float32) for name, value in weights.items()})
    checkpoint = read_checkpoint(folder / "model.safetensors", folder / "config.json")
    graphs = all_graphs(checkpoint, folder)

    states = [run(with_outputs(graphs[kind], ["layer0/output"]), ["layer0/output"])[0] for kind in ("fp32", "int8")]

    assert min(cosine(*texts).min() for texts in zip(*map(rows, states), strict=True)) > 0.9995
