"""Writing an ONNX graph node by node, without the ceremony; what the graph computes is its author's."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""
LARGEST_MODEL = 2**31 - 1
"""Bytes: the limit of one protobuf message."""

_OPSET = 17  # the first with LayerNormalization
_IR_VERSION = 8  # that of opset 17; readers of that age refuse a newer one


class GraphWriter:
    """Collects nodes and weights; each method returns the name of the value it adds.

    The order of the calls is the order in the file, so that equal calls give equal bytes.
    """

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._weights: dict[str, TensorProto] = {}
        self._domains = {"": _OPSET}

    def weight(self, name: str, values: NDArray[np.generic]) -> str:
        """Adds a constant tensor; a name that was given before means the same tensor."""
        from onnx import numpy_helper

        if name not in self._weights:
            self._weights[name] = numpy_helper.from_array(np.ascontiguousarray(values), name)
        return name

    def number(self, value: float) -> str:
        """Adds a FP32 scalar."""
        return self.weight(f"number/{value:g}", np.array(value, dtype=np.float32))

    def whole(self, *values: int) -> str:
        """Adds an INT64 vector, as axes and shapes are given."""
        return self.weight(f"whole/{'_'.join(map(str, values))}", np.array(values, dtype=np.int64))

    def node(self, operator: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: object) -> str:
        """Adds a node with one output."""
        return self.nodes(operator, inputs, [output], domain, **attributes)[0]

    def nodes(
        self, operator: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: object
    ) -> Sequence[str]:
        """Adds a node with several outputs."""
        from onnx import helper

        self._domains.setdefault(domain, 1)
        made = helper.make_node(operator, inputs, outputs, name=outputs[0], domain=domain)
        made.attribute.extend(helper.make_attribute(name, value) for name, value in sorted(attributes.items()))
        self._nodes.append(made)
        return outputs

    def extend(self, nodes: "Sequence[NodeProto]", weights: "Sequence[TensorProto]") -> None:
        """Adds nodes and weights that were written elsewhere."""
        self._nodes.extend(nodes)
        self._weights.update({tensor.name: tensor for tensor in weights})

    def model(self, name: str, inputs: Sequence[tuple[str, int]], output: tuple[str, int], size: int) -> "ModelProto":
        """The checked model, from inputs [batch, tokens] to one output [batch, size].

        Args:
            name: The graph's name.
            inputs: Name and ONNX element type of each.
            output: Name and ONNX element type.
            size: Components of a row of the output.

        Raises:
            ConfigurationError: The weights are too large for one file.
        """
        import onnx
        from onnx import helper

        graph = helper.make_graph(
            self._nodes,
            name,
            inputs=[helper.make_tensor_value_info(one, kind, ["batch", "tokens"]) for one, kind in inputs],
            outputs=[helper.make_tensor_value_info(*output, ["batch", size])],
            initializer=list(self._weights.values()),
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(domain, version) for domain, version in sorted(self._domains.items())],
            producer_name="resources",
        )
        model.ir_version = _IR_VERSION
        if model.ByteSize() > LARGEST_MODEL:
            raise ConfigurationError("the checkpoint holds more than 2 GiB of weights: use a smaller encoder")
        onnx.checker.check_model(model)
        return model


def with_outputs(model: bytes, names: Sequence[str]) -> bytes:
    """The same graph that also gives the named FP32 values from inside it, as further outputs."""
    import onnx
    from onnx import TensorProto, helper

    opened = onnx.load_from_string(model)
    opened.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    return opened.SerializeToString(deterministic=True)
