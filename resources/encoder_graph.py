"""The graph around a text encoder: what is added to it, and the proof that it computes the same.

In goes an encoder as it is published (64-bit ids in, one vector a token out), out comes the graph a server
serves (32-bit ids in, one vector of length 1 a text out). Where files come from and go to is not known here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from resources.encoder_runtime import (
    Ids,
    Vectors,
    difference,
    embed,
    first_line,
    open_session,
    open_tokenizer,
    padded,
)
from resources.errors import ConfigurationError, ResourceError
from resources.graph_writer import LARGEST_MODEL

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto
    from onnxruntime import InferenceSession

TOLERANCE = 1e-5
"""The greatest absolute difference between two ways to compute one component of a vector."""

GRAPH_REVISION = 2
"""Goes up with every change of a graph that is added or written, so that the same encoder is built anew."""

_PREFIX = "encoder/"
_OLDEST_OPSET = 13  # ReduceSum, Squeeze and Unsqueeze take their axes as an input since then
_LONGEST_CHECKED = 512  # tokens: attention grows with the square, and the check must stay cheap
_SMALLEST_NORM = 1e-6  # a number that half precision can hold, so that 0 / 0 stays 0 there too

_SENTENCES = (
    "The parcel arrived two days late and the box was open.",
    "Refund?",
    "I have asked three times now, and every time somebody else answers with the same sentence.",
    "Ok",
    "Die App stürzt ab, sobald ich ein Foto hochladen will, und danach ist der Entwurf weg.",
    "Schnell, freundlich, gerne wieder!",
    "Warum wurde mir der Betrag zweimal abgebucht?",
    "Nichts.",
    "Le vendeur était très aimable, mais la facture ne correspond pas à ce que j'avais commandé.",
    "Impossible de changer mon mot de passe depuis la mise à jour.",
    "Merci beaucoup à toute l'équipe 🙂",
    "注文した商品がまだ届きません。いつ発送されますか。",
    "使いやすいです。",
    "アプリを更新してから、通知がまったく来なくなりました。設定を確認しても変わりません。",
)


@dataclass(frozen=True)
class TextEmbedder:
    """A servable graph.

    Attributes:
        model: The serialized ONNX model: INT32 `input_ids` and `attention_mask` [batch, tokens] to FP32
            `embeddings` [batch, dims].
        dims: The number of components of a vector.
    """

    model: bytes
    dims: int


def wrap_encoder(path: Path) -> TextEmbedder:
    """Adds casts, mean pooling over the mask and L2 normalization to a BERT-like encoder.

    The encoder takes `input_ids`, `attention_mask` and perhaps `token_type_ids` [batch, tokens] and gives
    `last_hidden_state` or, without an output of that name, its first output of rank 3. Token types are zeros.
    The number of dimensions is taken from a run of the encoder, not from what its files declare.
    A text whose mask is all zeros gives a vector of zeros.

    Raises:
        ConfigurationError: The file is not such an encoder, or an optional dependency is missing.
    """
    import onnx
    from onnx import TensorProto, compose, helper

    original = _load(path)
    opset = next((entry.version for entry in original.opset_import if entry.domain in ("", "ai.onnx")), 0)
    if opset < _OLDEST_OPSET:
        raise ConfigurationError(
            f"{path} uses ONNX opset {opset}: export the encoder with opset {_OLDEST_OPSET} or newer"
        )
    hidden_name = _hidden_state(original, path)
    input_nodes = _input_nodes(original, path)
    dims = _measured_dims(path, hidden_name)

    inner = compose.add_prefix(original, _PREFIX)
    graph = helper.make_graph(
        [*input_nodes, *inner.graph.node, *pooling_nodes(_PREFIX + hidden_name)],
        "text_embedder",
        inputs=[
            helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "tokens"])
            for name in ("input_ids", "attention_mask")
        ],
        outputs=[helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["batch", dims])],
        initializer=[*inner.graph.initializer, *pooling_constants()],
        sparse_initializer=list(inner.graph.sparse_initializer),
    )
    model = helper.make_model(
        graph,
        opset_imports=list(inner.opset_import),
        functions=list(inner.functions),
        producer_name="resources",
    )
    model.ir_version = inner.ir_version
    if model.ByteSize() > LARGEST_MODEL:
        raise ConfigurationError(f"{path} holds more than 2 GiB of weights: use a smaller encoder")
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise ConfigurationError(f"{path} is not a valid ONNX model: {first_line(error)}") from error
    return TextEmbedder(model=model.SerializeToString(deterministic=True), dims=dims)


def check_embedder(embedder: TextEmbedder, encoder: Path, tokenizer: Path, token_limit: int) -> float:
    """Compares the graph with the published encoder it was made from, pooled in numpy; see `check_vectors`.

    Raises:
        ResourceError: As there.
        ConfigurationError: As there, or the encoder cannot be read.
    """
    hidden_name = _hidden_state(_load(encoder), encoder)

    def reference(ids: Ids, mask: Ids) -> Vectors:
        return _reference(open_session(encoder), hidden_name, ids, mask)

    return check_vectors(embedder, reference, encoder, tokenizer, token_limit)


def check_vectors(
    embedder: TextEmbedder, reference: Callable[[Ids, Ids], Vectors], encoder: Path, tokenizer: Path, token_limit: int
) -> float:
    """Compares the graph with another way to compute its vectors, on texts of four languages.

    The texts are embedded as one padded batch and each alone; both must equal the reference, because vectors
    are cached by their text. One text fills the token limit (at most 512 tokens of it).

    Args:
        embedder: The graph.
        reference: The vectors [texts, dims] of ids and a mask [texts, tokens].
        encoder: The file that the graph was made from, for messages.
        tokenizer: The tokenizer.json.
        token_limit: Tokens of the longest text.

    Returns:
        The greatest absolute difference seen.

    Raises:
        ResourceError: A difference above `TOLERANCE`, or a value that is not a finite number.
        ConfigurationError: The tokenizer cannot be read or does not fit, or a dependency is missing.
    """
    limit = min(token_limit, _LONGEST_CHECKED)
    texts = [*_SENTENCES, " ".join(_SENTENCES[:7]), "word " * limit]
    reader = open_tokenizer(tokenizer, limit)
    batch_ids, batch_mask = padded(reader, texts)
    graph = open_session(embedder.model)

    try:
        expected = reference(batch_ids, batch_mask)
        together = embed(graph, batch_ids, batch_mask)
        alone = np.concatenate([embed(graph, *padded(reader, [text])) for text in texts])
        blank = embed(graph, batch_ids[:1], np.zeros_like(batch_mask[:1]))
    # onnxruntime's exceptions share no base class of their own.
    except Exception as error:
        raise ConfigurationError(
            f"{encoder} does not run on {batch_ids.shape[1]} tokens of {tokenizer}: {first_line(error)}"
        ) from error

    if not np.array_equal(blank, np.zeros((1, embedder.dims), dtype=np.float32)):
        raise ResourceError(f"{encoder}: a text without a token does not give zeros; use another export of it")
    pooling = difference(together, expected)
    if pooling > TOLERANCE:
        raise ResourceError(
            f"{encoder}: pooled in the graph and outside, vectors differ by {pooling:.1e} (at most "
            f"{TOLERANCE:.0e}); use another export of the encoder"
        )
    neighbours = difference(alone, together)
    if neighbours > TOLERANCE:
        raise ResourceError(
            f"{encoder}: a text alone and in a batch differs by {neighbours:.1e} (at most {TOLERANCE:.0e}); "
            "use an encoder without dynamic quantization"
        )
    return max(pooling, neighbours)


def _load(path: Path) -> "ModelProto":
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return onnx.load(path)
    except (DecodeError, OSError, onnx.checker.ValidationError) as error:
        raise ConfigurationError(f"{path} cannot be read as an ONNX model: {first_line(error)}") from error


def _hidden_state(model: "ModelProto", path: Path) -> str:
    """The name of the output that holds one vector a token."""
    outputs = list(model.graph.output)
    for value in outputs:
        if value.name == "last_hidden_state":
            return str(value.name)
    for value in outputs:
        if len(value.type.tensor_type.shape.dim) == 3:  # noqa: PLR2004
            return str(value.name)
    raise ConfigurationError(
        f"{path} has no output last_hidden_state and none of rank 3 (it has {[v.name for v in outputs]}): "
        "export the encoder without pooling"
    )


def _input_nodes(model: "ModelProto", path: Path) -> "list[NodeProto]":
    """Nodes that turn the 32-bit inputs into those of the encoder, whose names get the prefix."""
    from onnx import helper

    weights = {tensor.name for tensor in model.graph.initializer}  # old exports list these as inputs too
    inputs = {value.name: value for value in model.graph.input if value.name not in weights}
    unknown = sorted(set(inputs) - {"input_ids", "attention_mask", "token_type_ids"})
    missing = sorted({"input_ids", "attention_mask"} - set(inputs))
    if unknown or missing:
        raise ConfigurationError(
            f"{path} has the inputs {sorted(inputs)}: an encoder takes input_ids, attention_mask and perhaps "
            "token_type_ids"
        )
    nodes = []
    for name, value in inputs.items():
        to = value.type.tensor_type.elem_type
        source = name
        if name == "token_type_ids":
            source = "pooling/no_token_types"
            nodes.append(helper.make_node("Sub", ["input_ids", "input_ids"], [source]))
        nodes.append(helper.make_node("Cast", [source], [_PREFIX + name], to=to))
    return nodes


def pooling_nodes(hidden: str) -> "list[NodeProto]":
    """Mean over `attention_mask`, as a matrix product, and division by the length; gives `embeddings`.

    The mean is taken although normalization cancels it: the sum of a long text overflows in half precision.
    """
    from onnx import TensorProto, helper

    def scoped(name: str) -> str:
        return name if name in (hidden, "attention_mask", "embeddings") else f"pooling/{name}"

    def node(operator: str, inputs: Sequence[str], output: str) -> "NodeProto":
        return helper.make_node(operator, [scoped(name) for name in inputs], [scoped(output)])

    def as_float(name: str, output: str) -> "NodeProto":
        return helper.make_node("Cast", [name], [scoped(output)], to=TensorProto.FLOAT)

    return [
        as_float(hidden, "hidden"),
        as_float("attention_mask", "mask"),
        node("Unsqueeze", ["mask", "axis"], "mask_row"),
        node("MatMul", ["mask_row", "hidden"], "sum_row"),
        node("Squeeze", ["sum_row", "axis"], "sum"),
        node("ReduceSum", ["mask", "axis"], "tokens"),
        node("Max", ["tokens", "one"], "divisor"),
        node("Div", ["sum", "divisor"], "mean"),
        node("Mul", ["mean", "mean"], "squares"),
        node("ReduceSum", ["squares", "axis"], "squared_norm"),
        node("Sqrt", ["squared_norm"], "norm"),
        node("Max", ["norm", "smallest_norm"], "safe_norm"),
        node("Div", ["mean", "safe_norm"], "embeddings"),
    ]


def pooling_constants() -> "list[TensorProto]":
    """The weights that `pooling_nodes` name."""
    from onnx import numpy_helper

    return [
        numpy_helper.from_array(np.array([1], dtype=np.int64), "pooling/axis"),
        numpy_helper.from_array(np.array([1.0], dtype=np.float32), "pooling/one"),
        numpy_helper.from_array(np.array([_SMALLEST_NORM], dtype=np.float32), "pooling/smallest_norm"),
    ]


def _measured_dims(path: Path, hidden_name: str) -> int:
    ids = np.zeros((1, 2), dtype=np.int32)
    try:
        hidden = _run_encoder(open_session(path), hidden_name, ids, np.ones_like(ids))
    # onnxruntime's exceptions share no base class of their own.
    except Exception as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"{path} does not run on two tokens: {first_line(error)}") from error
    if hidden.ndim != 3 or hidden.shape[:2] != (1, 2):  # noqa: PLR2004
        raise ConfigurationError(
            f"{path}: {hidden_name} has shape {hidden.shape} for 1 text of 2 tokens, not (1, 2, dims): "
            "export the encoder without pooling"
        )
    return int(hidden.shape[2])


def _run_encoder(session: "InferenceSession", hidden_name: str, ids: Ids, mask: Ids) -> Vectors:
    """The encoder's own output [texts, tokens, dims], with its inputs in the types it declares."""
    values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    feed = {
        tensor.name: values[tensor.name].astype(np.int64 if tensor.type == "tensor(int64)" else np.int32)
        for tensor in session.get_inputs()
    }
    hidden: Vectors = session.run([hidden_name], feed)[0]
    return hidden


def _reference(session: "InferenceSession", hidden_name: str, ids: Ids, mask: Ids) -> Vectors:
    """What the graph must give, computed in double precision."""
    hidden = _run_encoder(session, hidden_name, ids, mask).astype(np.float64)
    weights = mask[:, :, np.newaxis].astype(np.float64)
    mean = (hidden * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1.0)
    norm = np.linalg.norm(mean, axis=1, keepdims=True)
    vectors: Vectors = (mean / np.maximum(norm, _SMALLEST_NORM)).astype(np.float32)
    return vectors
