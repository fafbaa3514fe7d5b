"""The graph of a nearest-centroid detector: how far a vector lies from a set of known places.

Only arithmetic on vectors of length 1 belongs here; where the centroids come from does not.
"""

import numpy as np
from numpy.typing import NDArray

_OPSET = 17
_IR_VERSION = 8  # the oldest that carries the opset: an older server reads it too
_UNIT_TOLERANCE = 1e-3


def anomaly_detector_graph(centroids: NDArray[np.float32]) -> bytes:
    """Builds FP32 `embeddings` [batch, dims] to `score` [batch, 1] and INT64 `cell` [batch, 1].

    `score` is 1 minus the greatest cosine to a centroid (0 at a centroid, 1 at a right angle to all, at most
    2), `cell` the index of that centroid, the first of equal ones. The embeddings must have length 1.

    Args:
        centroids: Shape (k, dims), each row of length 1.

    Returns:
        The serialized ONNX model; the same centroids give the same bytes.

    Raises:
        ValueError: The centroids have another shape or type, or a row is not of length 1.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    if centroids.ndim != 2 or 0 in centroids.shape or centroids.dtype != np.float32:  # noqa: PLR2004
        raise ValueError(f"centroids must be float32 (k, dims), not {centroids.dtype} {centroids.shape}")
    lengths = np.linalg.norm(centroids, axis=1)
    if not np.allclose(lengths, 1.0, atol=_UNIT_TOLERANCE):
        raise ValueError(f"centroids must have length 1, not {lengths.min():.4f} to {lengths.max():.4f}")

    nodes = [
        helper.make_node("MatMul", ["embeddings", "centroids"], ["cosines"]),
        helper.make_node("ReduceMax", ["cosines"], ["greatest"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["one", "greatest"], ["score"]),
        helper.make_node("ArgMax", ["cosines"], ["cell"], axis=1, keepdims=1),
    ]
    graph = helper.make_graph(
        nodes,
        "anomaly_detector",
        inputs=[helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["batch", centroids.shape[1]])],
        outputs=[
            helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", 1]),
            helper.make_tensor_value_info("cell", TensorProto.INT64, ["batch", 1]),
        ],
        initializer=[
            numpy_helper.from_array(np.ascontiguousarray(centroids.T), "centroids"),
            numpy_helper.from_array(np.array([1.0], dtype=np.float32), "one"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="resources")
    model.ir_version = _IR_VERSION
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))
