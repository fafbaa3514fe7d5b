"""The int8 graph of a BERT checkpoint for CPUs: twice as fast, and a text's vector does not depend on its neighbours.

Usual dynamic quantization takes one scale over a whole batch, so that a text alone and in a batch differ. Here every
token row has its own. The steps, and what each is worth, are in docs/adr/0009-own-graphs-and-int8.md.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from resources.bert_checkpoint import BertCheckpoint, BertLayer, Weights
from resources.bert_graph import FusedBertGraph
from resources.graph_writer import MICROSOFT, GraphWriter

Int8 = NDArray[np.int8]

_LARGEST = 127  # of a symmetric int8 weight
_CENTRE = 128  # the uint8 that means 0 where values have both signs
_SMALLEST_SCALE = 1e-12  # so that a row of zeros is not divided by zero
_GELU_CENTRE = 32  # GELU's outputs are hardly negative: 32 steps below zero, 223 above
_GELU_LARGEST = 255 - _GELU_CENTRE
_GELU_LOWEST = 0.17  # GELU is nowhere below -0.17
_SMOOTHING = 0.65  # the share of a column's range that moves from the states into the weights
_GRID = 4  # smoothing factors are powers of 2^(1/4): a last digit that differs between CPUs hardly ever shows


def smoothed_inputs(checkpoint: BertCheckpoint) -> list[str]:
    """The states, by their name in the graphs, whose columns `Int8BertGraph` smooths."""
    numbers = range(checkpoint.config.layers)
    before = ["embedded", *(f"layer{number}/output" for number in numbers)]
    return [name for number in numbers for name in (before[number], f"layer{number}/attended")]


class Int8BertGraph(FusedBertGraph):
    """States are kept as one row a token [all tokens of the batch, hidden], but for attention.

    A dense layer quantizes each row by itself, multiplies in int8 and scales back.
    """

    def __init__(self, checkpoint: BertCheckpoint, ranges: Mapping[str, Weights]) -> None:
        """Takes a checkpoint and what its states look like.

        Args:
            checkpoint: The encoder.
            ranges: The greatest absolute value of each column [hidden] of every one of `smoothed_inputs`, seen
                on calibration texts.
        """
        super().__init__(checkpoint)
        self._ranges = ranges

    def _embed(self) -> str:
        """Words from an int8 table, whose rows have a scale each, as rows [all tokens, hidden]."""
        from onnx import TensorProto

        graph = self._graph
        table, scales = _symmetric(self._checkpoint.words.T)
        graph.node("Gather", [graph.weight("words", table.T), "input_ids"], "words/int8")
        graph.node("Cast", ["words/int8"], "words/float", to=TensorProto.FLOAT)
        graph.node("Gather", [graph.weight("words/scales", scales[:, np.newaxis]), "input_ids"], "words/scale")
        placed = self._placed(graph.node("Mul", ["words/float", "words/scale"], "words/found"))
        # [batch, tokens, -1], to come back from rows to the grid.
        graph.node("Concat", ["shape", graph.whole(-1)], "grid", axis=0)
        rows = graph.node("Reshape", [placed, graph.whole(-1, self._config.hidden)], "rows")
        _zero_points(graph, rows)
        return rows

    def _grid(self, state: str) -> str:
        return self._graph.node("Reshape", [state, "grid"], f"{state}/grid")

    def _attend(self, state: str, mask: str, layer: BertLayer, name: str) -> str:
        graph = self._graph
        weights = np.concatenate([layer.query.weight, layer.key.weight, layer.value.weight], axis=1)
        product = self._smoothed_product(state, weights, f"{name}/qkv")
        parts = graph.nodes(
            "Split",
            [self._grid(product), graph.whole(*[self._config.hidden] * 3)],
            [f"{name}/{part}" for part in ("query", "key", "value")],
            axis=-1,
        )
        mixed = self._mixed(list(parts), mask, layer, name)
        rows = graph.node("Reshape", [mixed, graph.whole(-1, self._config.hidden)], f"{name}/mixed/rows")
        return self._dense(rows, layer.attention_output, f"{name}/attention_output")

    def _feed(self, state: str, layer: BertLayer, name: str) -> str:
        graph = self._graph
        between = self._smoothed_product(state, layer.up.weight, f"{name}/up")
        bias = graph.weight(f"{name}/up/bias", layer.up.bias)
        activated = graph.node("FastGelu", [between, bias], f"{name}/activated", MICROSOFT)
        highest = graph.node("ReduceMax", [activated], f"{name}/down/highest", axes=[1], keepdims=1)
        graph.node("Mul", [highest, graph.number(1.0 / _GELU_LARGEST)], f"{name}/down/range")
        graph.node("Max", [f"{name}/down/range", graph.number(_GELU_LOWEST / _GELU_CENTRE)], f"{name}/down/scale")
        product = self._scaled_product(activated, f"{name}/down/scale", _GELU_CENTRE, layer.down.weight, f"{name}/down")
        return self._add(product, graph.weight(f"{name}/down/bias", layer.down.bias), f"{name}/down")

    def _smoothed_product(self, state: str, weight: Weights, name: str) -> str:
        """The product, with each column of the state divided by a factor that its weights are multiplied by.

        A few columns are many times wider than the rest; without this they would leave the rest few steps.
        """
        factors = _smoothing_factors(self._ranges[state], weight)
        inverse = self._graph.weight(f"{name}/smoothing", (1.0 / factors).astype(np.float32))
        smoothed = self._graph.node("Mul", [state, inverse], f"{name}/smoothed")
        return self._product(smoothed, (weight * factors[:, np.newaxis]).astype(np.float32), name)

    def _product(self, state: str, weight: Weights, name: str) -> str:
        """The product of rows that have values of both signs."""
        graph = self._graph
        highest = graph.node("ReduceMax", [state], f"{name}/highest", axes=[1], keepdims=1)
        lowest = graph.node("ReduceMin", [state], f"{name}/lowest", axes=[1], keepdims=1)
        graph.node("Neg", [lowest], f"{name}/depth")
        graph.node("Max", [highest, f"{name}/depth"], f"{name}/range")
        graph.node("Mul", [f"{name}/range", graph.number(1.0 / _LARGEST)], f"{name}/step")
        scale = graph.node("Max", [f"{name}/step", graph.number(_SMALLEST_SCALE)], f"{name}/scale")
        return self._scaled_product(state, scale, _CENTRE, weight, name)

    def _scaled_product(self, state: str, scale: str, centre: int, weight: Weights, name: str) -> str:
        """Rows ÷ their scale [rows, 1] as uint8 around a centre, times int8 weights, times both scales.

        The integer product is written as MatMulIntegerToFloat: from MatMulInteger, Cast, Mul and Add, ONNX Runtime
        1.32 fuses one that computes something else.
        """
        graph = self._graph
        table, columns = _symmetric(weight)
        vector = graph.node("Reshape", [scale, graph.whole(-1)], f"{name}/scales")
        rows = graph.node("QuantizeLinear", [state, vector, f"centre/{centre}"], f"{name}/uint8", axis=0)
        product = graph.node(
            "MatMulIntegerToFloat",
            [
                rows,
                graph.weight(f"{name}/weight", table),
                graph.number(1.0),
                graph.weight(f"{name}/columns", columns),
                f"centre/{centre}/value",
            ],
            f"{name}/unscaled",
            MICROSOFT,
        )
        return graph.node("Mul", [product, scale], f"{name}/product")


def _zero_points(graph: GraphWriter, rows: str) -> None:
    """`centre/<value>/value`, and `centre/<value>` [rows] of it, for both centres: QuantizeLinear takes one a row."""
    graph.node("Shape", [rows], "rows/shape")
    graph.node("Slice", ["rows/shape", graph.whole(0), graph.whole(1)], "rows/count")
    for centre in (_CENTRE, _GELU_CENTRE):
        value = graph.weight(f"centre/{centre}/value", np.array(centre, dtype=np.uint8))
        graph.node("Expand", [value, "rows/count"], f"centre/{centre}")


def _symmetric(weight: Weights) -> tuple[Int8, Weights]:
    """A weight [in, out] as int8 with one scale a column [out]: weight ≈ int8 · scale."""
    scales = np.maximum(np.abs(weight).max(axis=0) / np.float32(_LARGEST), np.float32(_SMALLEST_SCALE))
    return np.rint(weight / scales).astype(np.int8), scales.astype(np.float32)


def _smoothing_factors(ranges: Weights, weight: Weights) -> NDArray[np.float64]:
    """ranges^s / weights^(1 - s) of each column of the state, with the geometric mean 1, on a grid.

    Xiao et al., "SmoothQuant" (arXiv 2211.10438), equation 4.
    """
    state = np.log2(np.maximum(ranges.astype(np.float64), _SMALLEST_SCALE))
    row = np.log2(np.maximum(np.abs(weight).max(axis=1).astype(np.float64), _SMALLEST_SCALE))
    exponent = _SMOOTHING * state - (1.0 - _SMOOTHING) * row
    factors: NDArray[np.float64] = np.exp2(np.rint((exponent - exponent.mean()) * _GRID) / _GRID)
    return factors
