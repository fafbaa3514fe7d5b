"""What a model takes and gives, and whether given tensors fit it.

Pure checks and cuts on arrays belong here. Nothing here opens a connection (`resources.triton`) or knows what
a tensor means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from resources.triton_errors import ModelContractError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Tensor = NDArray[np.generic]

_NUMPY_TYPES: Mapping[str, str] = {
    "BOOL": "bool",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    "BYTES": "object",
}
_ANY = -1
_LENGTH_BYTES = 4


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as a model declares it.

    Attributes:
        datatype: Triton's name of the element type, such as `FP32` or `BYTES`.
        shape: Sizes, the batch's first where the model has one; -1 where any size will do.
    """

    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ModelMetadata:
    """A model as its server describes it.

    Attributes:
        name: The model's name.
        versions: The versions that are ready.
        version: The newest of them, or the one that was asked for.
        max_batch_size: Rows that one request may hold; 0 where the first dimension is no batch.
        inputs: What the model takes, by tensor name.
        outputs: What it gives.
        file: The file of its version that is served, as its configuration names it; empty for the backend's own name.
        steps: The version of each model that an ensemble chains, by name; empty for the newest that is ready.
    """

    name: str
    versions: tuple[str, ...]
    version: str
    max_batch_size: int
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    file: str = ""
    steps: Mapping[str, str] = field(default_factory=dict)


def check_inputs(model: ModelMetadata, inputs: Mapping[str, Tensor]) -> int:
    """Compares the tensors of a request with what the model declares; gives the number of rows.

    The number is 1 for a model without batches. A batch may be larger than the model's limit: see
    `cut_rows`.

    Raises:
        ModelContractError: A tensor is missing, unknown, or of another type or shape.
    """
    missing, unknown = set(model.inputs) - set(inputs), set(inputs) - set(model.inputs)
    if missing or unknown:
        raise ModelContractError(
            f"model {model.name!r} takes the tensors {_names(model.inputs)} and was given {_names(inputs)}: "
            "name exactly those it takes"
        )
    rows = -1
    for name, tensor in inputs.items():
        spec = model.inputs[name]
        given = _datatype(tensor)
        if given != spec.datatype:
            raise ModelContractError(
                f"model {model.name!r} takes tensor {name!r} as {spec.datatype} and was given {given}: convert it"
            )
        if not _fits(tensor.shape, spec.shape):
            raise ModelContractError(
                f"model {model.name!r} takes tensor {name!r} of shape {_shape(spec.shape)} and was given "
                f"{_shape(tensor.shape)}: reshape it"
            )
        if spec.datatype == "BYTES":
            _check_bytes(model.name, name, tensor)
        if model.max_batch_size > 0:
            if rows not in {-1, len(tensor)}:
                raise ModelContractError(
                    f"model {model.name!r} was given {rows} rows and, in tensor {name!r}, {len(tensor)}: "
                    "give each tensor the same number"
                )
            rows = len(tensor)
    return rows if model.max_batch_size > 0 else 1


def cut_rows(inputs: Mapping[str, Tensor], *, max_rows: int, max_bytes: int) -> list[slice]:
    """Cuts a batch into consecutive runs of rows that a request can hold; a run has at least one row."""
    import numpy as np

    tensors = list(inputs.values())
    rows = len(tensors[0])
    ends = np.cumsum(sum(_row_bytes(tensor) for tensor in tensors))
    cuts: list[slice] = []
    start, sent = 0, 0
    while start < rows:
        within = int(np.searchsorted(ends, sent + max_bytes, side="right"))
        stop = min(max(within, start + 1), start + max_rows, rows)
        cuts.append(slice(start, stop))
        start, sent = stop, int(ends[stop - 1])
    return cuts


def read_outputs(
    model: ModelMetadata, rows: int, answered: Sequence[tuple[str, str, tuple[int, ...], bytes]]
) -> dict[str, Tensor]:
    """Turns an answer into arrays, having compared every tensor with what the model declares.

    Args:
        model: The model that answered.
        rows: The rows that were sent.
        answered: Name, data type, shape and raw content of each tensor.

    Returns:
        Read-only arrays by name; BYTES as object arrays of `bytes`.

    Raises:
        ModelContractError: A tensor is missing, or its type, shape, rows or number of bytes is not right.
    """
    given = {name: (datatype, shape, content) for name, datatype, shape, content in answered}
    outputs: dict[str, Tensor] = {}
    for name, spec in model.outputs.items():
        if name not in given:
            raise ModelContractError(f"{_who(model)} answered without tensor {name!r}: correct the model")
        datatype, shape, content = given[name]
        if datatype != spec.datatype:
            raise ModelContractError(
                f"{_who(model)} declares tensor {name!r} as {spec.datatype} and answered {datatype}: correct the model"
            )
        if model.max_batch_size > 0 and shape[:1] != (rows,):
            raise ModelContractError(
                f"{_who(model)} was sent {rows} rows and answered tensor {name!r} of shape {_shape(shape)}: "
                "correct the model"
            )
        if not _fits(shape, spec.shape):
            raise ModelContractError(
                f"{_who(model)} declares tensor {name!r} of shape {_shape(spec.shape)} and answered "
                f"{_shape(shape)}: correct the model"
            )
        outputs[name] = _decode(model, name, datatype, shape, content)
    return outputs


def join_rows(model: ModelMetadata, parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Puts the answers of consecutive cuts together.

    Raises:
        ModelContractError: The cuts' answers differ in more than their rows.
    """
    import numpy as np

    if len(parts) == 1:
        return dict(parts[0])
    joined: dict[str, Tensor] = {}
    for name in model.outputs:
        tensors = [part[name] for part in parts]
        if len({tensor.shape[1:] for tensor in tensors}) > 1:
            raise ModelContractError(
                f"{_who(model)} answered tensor {name!r} in sizes that differ from request to request: "
                f"send at most {model.max_batch_size} rows at a time"
            )
        joined[name] = np.concatenate(tensors)
    return joined


def empty_outputs(model: ModelMetadata) -> dict[str, Tensor]:
    """The answer to no rows: arrays of length 0, and of size 0 where the model leaves a size open."""
    import numpy as np

    return {
        name: np.empty((0, *(max(size, 0) for size in spec.shape[1:])), dtype=_numpy_type(model, name, spec.datatype))
        for name, spec in model.outputs.items()
    }


def _decode(model: ModelMetadata, name: str, datatype: str, shape: tuple[int, ...], content: bytes) -> Tensor:
    import numpy as np

    dtype = np.dtype(_numpy_type(model, name, datatype))
    count = int(np.prod(shape, dtype=np.int64))
    if datatype == "BYTES":
        elements = _split_bytes(content)
        if elements is None or len(elements) != count:
            raise ModelContractError(
                f"{_who(model)} answered tensor {name!r} of shape {_shape(shape)} with "
                f"{'broken' if elements is None else len(elements)} elements: check that its environment has "
                "numpy<2"
            )
        # Filled one by one: numpy would look into the elements to guess a shape.
        array = np.empty(count, dtype=np.object_)
        array[:] = elements
        return array.reshape(shape)
    expected = count * dtype.itemsize
    if len(content) != expected:
        raise ModelContractError(
            f"{_who(model)} answered tensor {name!r} of shape {_shape(shape)} with {len(content)} bytes "
            f"instead of {expected}: check that its environment has numpy<2"
        )
    return np.frombuffer(content, dtype=dtype).reshape(shape)


def _split_bytes(content: bytes) -> list[bytes] | None:
    elements: list[bytes] = []
    start = 0
    while start < len(content):
        begin = start + _LENGTH_BYTES
        end = begin + int.from_bytes(content[start:begin], "little")
        if begin > len(content) or end > len(content):
            return None
        elements.append(content[begin:end])
        start = end
    return elements


def _row_bytes(tensor: Tensor) -> NDArray[np.int64]:
    import numpy as np

    rows = len(tensor)
    if tensor.dtype.kind != "O":
        return np.full(rows, tensor.nbytes // max(rows, 1), dtype=np.int64)
    flat = tensor.reshape(rows, -1)
    return np.array([sum(len(element) + _LENGTH_BYTES for element in row) for row in flat], dtype=np.int64)


def _check_bytes(model: str, name: str, tensor: Tensor) -> None:
    for element in tensor.flat:
        if not isinstance(element, bytes):
            raise ModelContractError(
                f"model {model!r} takes tensor {name!r} as BYTES and was given a {type(element).__name__} "
                "in it: encode it"
            )


def _datatype(tensor: Tensor) -> str:
    for name, dtype in _NUMPY_TYPES.items():
        if tensor.dtype == dtype:
            return name
    if tensor.dtype.kind == "S":
        return "fixed-width bytes, which lose trailing zeros (an object array of bytes keeps them)"
    return str(tensor.dtype)


def _numpy_type(model: ModelMetadata, name: str, datatype: str) -> str:
    if datatype not in _NUMPY_TYPES:
        raise ModelContractError(
            f"{_who(model)} declares tensor {name!r} as {datatype}, which numpy cannot hold: declare FP32"
        )
    return _NUMPY_TYPES[datatype]


def _fits(shape: tuple[int, ...], declared: tuple[int, ...]) -> bool:
    return len(shape) == len(declared) and all(want in (_ANY, size) for size, want in zip(shape, declared, strict=True))


def _who(model: ModelMetadata) -> str:
    return f"model {model.name!r} version {model.version}"


def _names(tensors: Mapping[str, object]) -> str:
    return "(" + ", ".join(sorted(tensors)) + ")"


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(size) for size in shape) + "]"
