"""ONNX graphs of a BERT checkpoint, written with onnx's own helpers: `fp32` and `fp32-fused`.

Every graph takes INT32 `input_ids` and `attention_mask` [batch, tokens] and gives FP32 `embeddings` [batch, dims],
mean-pooled and of length 1. One skeleton serves the family; a graph differs in the operators it is spelt with.
The int8 graph is `bert_int8`'s; how good and how fast a graph is, `encoder_variants` measures.
"""

import math

import numpy as np

from resources.bert_checkpoint import BertCheckpoint, BertLayer, Dense, Norm, Weights
from resources.encoder_graph import pooling_constants, pooling_nodes
from resources.graph_writer import MICROSOFT, GraphWriter

_MASKED = -10000.0  # added to the score of a padded token: exp() of it is 0, and half precision can hold it


class BertGraph:
    """The skeleton, spelt with standard operators of opset 17: what TensorRT and every runtime can read.

    `embedded`, `layer<n>/attended` and `layer<n>/output` name the states of the tokens after each step.
    """

    def __init__(self, checkpoint: BertCheckpoint) -> None:
        self._checkpoint = checkpoint
        self._config = checkpoint.config
        self._graph = GraphWriter()

    def build(self) -> bytes:
        """The serialized model; the same checkpoint gives the same bytes.

        Raises:
            ConfigurationError: The weights are too large for one file.
        """
        from onnx import TensorProto

        state = self._normalize(self._embed(), self._checkpoint.norm, "embedded")
        mask = self._mask()
        for number, layer in enumerate(self._checkpoint.layers):
            name = f"layer{number}"
            attended = self._attend(state, mask, layer, name)
            state = self._normalize(
                self._add(state, attended, f"{name}/attention"), layer.attention_norm, f"{name}/attended"
            )
            fed = self._feed(state, layer, name)
            state = self._normalize(self._add(state, fed, f"{name}/feed"), layer.output_norm, f"{name}/output")
        self._graph.extend(pooling_nodes(self._grid(state)), pooling_constants())
        model = self._graph.model(
            "text_embedder",
            [("input_ids", TensorProto.INT32), ("attention_mask", TensorProto.INT32)],
            ("embeddings", TensorProto.FLOAT),
            self._config.hidden,
        )
        return model.SerializeToString(deterministic=True)

    def _embed(self) -> str:
        """Words and positions, before the normalization [batch, tokens, hidden]."""
        words = self._graph.weight("words", self._checkpoint.words)
        return self._placed(self._graph.node("Gather", [words, "input_ids"], "words/found"))

    def _placed(self, words: str) -> str:
        """Words [batch, tokens, hidden] with the vector of their position."""
        graph = self._graph
        positions = graph.weight("positions", self._checkpoint.positions)
        graph.node("Shape", ["input_ids"], "shape")
        graph.node("Slice", ["shape", graph.whole(1), graph.whole(2)], "length")
        graph.node("Slice", [positions, graph.whole(0), "length", graph.whole(0)], "places")
        return graph.node("Add", [words, "places"], "placed")

    def _mask(self) -> str:
        """What attention needs to know of padding: here, what is added to the scores [batch, 1, 1, tokens]."""
        from onnx import TensorProto

        graph = self._graph
        graph.node("Cast", ["attention_mask"], "mask/float", to=TensorProto.FLOAT)
        graph.node("Sub", ["mask/float", graph.number(1.0)], "mask/missing")
        graph.node("Mul", ["mask/missing", graph.number(-_MASKED)], "mask/score")
        return graph.node("Unsqueeze", ["mask/score", graph.whole(1, 2)], "mask")

    def _attend(self, state: str, mask: str, layer: BertLayer, name: str) -> str:
        """Attention with its output layer."""
        graph, head = self._graph, self._config.head
        # The scores' division by √head is part of the query's weights.
        scale = np.float32(1.0 / math.sqrt(head))
        query = Dense(layer.query.weight * scale, layer.query.bias * scale)
        shape = graph.whole(0, 0, self._config.heads, head)

        def split(dense: Dense, part: str, order: list[int]) -> str:
            flat = self._dense(state, dense, f"{name}/{part}")
            heads = graph.node("Reshape", [flat, shape], f"{name}/{part}/heads")
            return graph.node("Transpose", [heads], f"{name}/{part}/turned", perm=order)

        queries = split(query, "query", [0, 2, 1, 3])
        keys = split(layer.key, "key", [0, 2, 3, 1])
        values = split(layer.value, "value", [0, 2, 1, 3])
        graph.node("MatMul", [queries, keys], f"{name}/scores")
        graph.node("Add", [f"{name}/scores", mask], f"{name}/masked")
        graph.node("Softmax", [f"{name}/masked"], f"{name}/shares", axis=-1)
        graph.node("MatMul", [f"{name}/shares", values], f"{name}/mixed")
        graph.node("Transpose", [f"{name}/mixed"], f"{name}/mixed/turned", perm=[0, 2, 1, 3])
        graph.node("Reshape", [f"{name}/mixed/turned", graph.whole(0, 0, self._config.hidden)], f"{name}/mixed/flat")
        return self._dense(f"{name}/mixed/flat", layer.attention_output, f"{name}/attention_output")

    def _feed(self, state: str, layer: BertLayer, name: str) -> str:
        """The two dense layers with GELU between them: x / 2 · (1 + erf(x / √2))."""
        graph = self._graph
        between = self._dense(state, layer.up, f"{name}/up")
        graph.node("Mul", [between, graph.number(math.sqrt(0.5))], f"{name}/up/scaled")
        graph.node("Erf", [f"{name}/up/scaled"], f"{name}/up/erf")
        graph.node("Add", [f"{name}/up/erf", graph.number(1.0)], f"{name}/up/share")
        graph.node("Mul", [between, f"{name}/up/share"], f"{name}/up/double")
        graph.node("Mul", [f"{name}/up/double", graph.number(0.5)], f"{name}/activated")
        return self._dense(f"{name}/activated", layer.down, f"{name}/down")

    def _dense(self, state: str, dense: Dense, name: str) -> str:
        product = self._product(state, dense.weight, name)
        return self._add(product, self._graph.weight(f"{name}/bias", dense.bias), name)

    def _product(self, state: str, weight: Weights, name: str) -> str:
        return self._graph.node("MatMul", [state, self._graph.weight(f"{name}/weight", weight)], f"{name}/product")

    def _add(self, one: str, other: str, name: str) -> str:
        return self._graph.node("Add", [one, other], f"{name}/sum")

    def _normalize(self, state: str, norm: Norm, name: str) -> str:
        scale, shift = self._graph.weight(f"{name}/scale", norm.scale), self._graph.weight(f"{name}/shift", norm.shift)
        return self._graph.node(
            "LayerNormalization", [state, scale, shift], name, axis=-1, epsilon=self._config.epsilon
        )

    def _grid(self, state: str) -> str:
        """The states as [batch, tokens, hidden], which this graph keeps throughout."""
        return state


class FusedBertGraph(BertGraph):
    """The same with attention and GELU as one operator each, which ONNX Runtime has for CPUs."""

    def _mask(self) -> str:
        return "attention_mask"

    def _attend(self, state: str, mask: str, layer: BertLayer, name: str) -> str:
        parts = [self._product(state, layer.query.weight, f"{name}/query")]
        parts += [self._product(state, layer.key.weight, f"{name}/key")]
        parts += [self._product(state, layer.value.weight, f"{name}/value")]
        return self._dense(self._mixed(parts, mask, layer, name), layer.attention_output, f"{name}/attention_output")

    def _mixed(self, parts: list[str], mask: str, layer: BertLayer, name: str) -> str:
        """Values mixed by attention, from queries, keys and values without their bias [batch, tokens, hidden]."""
        bias = np.concatenate([layer.query.bias, layer.key.bias, layer.value.bias])
        inputs = [*parts, self._graph.weight(f"{name}/qkv/bias", bias), mask]
        return self._graph.node("MultiHeadAttention", inputs, f"{name}/mixed", MICROSOFT, num_heads=self._config.heads)

    def _feed(self, state: str, layer: BertLayer, name: str) -> str:
        between = self._product(state, layer.up.weight, f"{name}/up")
        bias = self._graph.weight(f"{name}/up/bias", layer.up.bias)
        activated = self._graph.node("BiasGelu", [between, bias], f"{name}/activated", MICROSOFT)
        return self._dense(activated, layer.down, f"{name}/down")
