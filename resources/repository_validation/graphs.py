"""An ONNX file beside its configuration: valid, readable by the server's runtime, and of the same tensors."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from resources.model_config import ModelConfig, Tensor
from resources.repository_validation.backends import Runtime
from resources.repository_validation.shapes import ANY, full, words

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto, ValueInfoProto

_LARGEST_FILE = 2**31 - 1  # bytes: the limit of one protobuf message
_OWN_DOMAINS = ("", "ai.onnx")
_CONTRIB_DOMAIN = "com.microsoft"
_SERVER_TYPES = {"FLOAT": "FP32", "DOUBLE": "FP64", "FLOAT16": "FP16", "BFLOAT16": "BF16", "STRING": "BYTES"}


def graph_problems(
    path: Path, config: ModelConfig, runtimes: Sequence[Runtime], accelerated_by: Path | None
) -> Iterator[str]:
    """What keeps a graph from being served.

    Args:
        path: The file.
        config: The configuration whose tensors it must have.
        runtimes: Those that read it.
        accelerated_by: The configuration that gives it to TensorRT, if one does.
    """
    import onnx
    from google.protobuf.message import DecodeError

    if path.stat().st_size > _LARGEST_FILE:
        yield f"{path} is larger than 2 GiB, which no server reads: export it with external data"
        return
    try:
        model = onnx.load(path, load_external_data=False)
    except DecodeError:
        yield f"{path} is not an ONNX model: remove the folder and build the version again"
        return
    unreadable = [*_format_problems(path, model, runtimes), *_external_data_problems(path, model)]
    yield from unreadable
    if unreadable:
        return
    try:
        onnx.checker.check_model(str(path))  # by its path, so that it finds external data
    except onnx.checker.ValidationError as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        yield f"{path} is not a valid ONNX model ({reason}): remove the folder and build the version again"
        return
    if accelerated_by is not None:
        foreign = sorted({node.op_type for node in model.graph.node if node.domain == _CONTRIB_DOMAIN})
        if foreign:
            yield (
                f"{path} has the operators {foreign} of {_CONTRIB_DOMAIN}, which TensorRT leaves to other devices: "
                f"name a file of standard operators in {accelerated_by}"
            )
    yield from _tensor_problems(path, model, config)


def graph_name(path: Path) -> str:
    """The name of the graph in a file; empty if it is no ONNX model."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return str(onnx.load(path, load_external_data=False).graph.name)
    except DecodeError:
        return ""


def _format_problems(path: Path, model: "ModelProto", runtimes: Sequence[Runtime]) -> Iterator[str]:
    opset = max((entry.version for entry in model.opset_import if entry.domain in _OWN_DOMAINS), default=0)
    oldest = min(runtimes, key=lambda runtime: (runtime.opset, runtime.ir))
    reader = f"and ONNX Runtime {oldest.version} of {oldest.server} reads at most"
    if opset > oldest.opset:
        yield f"{path} has opset {opset}, {reader} {oldest.opset}: export it with that"
    if model.ir_version > oldest.ir:
        yield f"{path} has IR version {model.ir_version}, {reader} {oldest.ir}: export it with that"


def _external_data_problems(path: Path, model: "ModelProto") -> Iterator[str]:
    """Weights outside the file: each must lie beside it, whole."""
    from onnx import TensorProto

    needed: dict[str, int] = {}
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            name, end = _external(tensor)
            needed[name] = max(needed.get(name, 0), end)
    for name, end in sorted(needed.items()):
        data = path.parent / name
        if not data.is_file():
            yield f"{path} keeps weights in {name}, which is missing: put it beside the graph"
        elif data.stat().st_size < end:
            yield f"{data} has {data.stat().st_size} bytes, {path.name} reads {end}: put the whole file there"


def _external(tensor: "TensorProto") -> tuple[str, int]:
    """The file that holds a tensor, and the byte after its last there."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    return entries.get("location", ""), int(entries.get("offset", 0)) + int(entries.get("length", 0))


def _tensor_problems(path: Path, model: "ModelProto", config: ModelConfig) -> Iterator[str]:
    weights = {tensor.name for tensor in model.graph.initializer}  # old exports list these as inputs too
    found: list[tuple[str, str, Tensor, Tensor]] = []
    for kind, promised, values in (
        ("input", config.inputs, [value for value in model.graph.input if value.name not in weights]),
        ("output", config.outputs, list(model.graph.output)),
    ):
        given = {value.name: _tensor(value) for value in values}
        if promised.keys() != given.keys():
            yield f"{path} has the {kind}s {sorted(given)}, its configuration {sorted(promised)}: make them equal"
        found += [(kind, name, promised[name], given[name]) for name in sorted(promised.keys() & given.keys())]

    batch = _batch_problem({name: (said, has) for _, name, said, has in found}, config.max_batch_size)
    if batch:
        yield f"{path}: {batch}"
    for kind, name, said, has in found:
        expected = Tensor(said.data_type, full(said, config.max_batch_size))
        if has.data_type != expected.data_type:
            yield f"{path}: {kind} {name} is {has.data_type}, its configuration says {said.data_type}: make them equal"
        elif not batch and not _serves(has.dims, expected.dims):
            yield f"{path}: {kind} {name} is {words(has)}, its configuration says {words(expected)}: make them equal"


def _serves(graph: Sequence[int], configured: Sequence[int]) -> bool:
    """Whether a graph can have that shape; the compiled backend wants every size that the graph states."""
    same_rank = len(graph) == len(configured)
    return same_rank and all(has in (ANY, said) for has, said in zip(graph, configured, strict=True))


def _batch_problem(tensors: Mapping[str, tuple[Tensor, Tensor]], max_batch_size: int) -> str:
    """The one mistake about the batch that tensors share; empty if there is none."""
    if max_batch_size <= 0:
        return ""
    unbatched = {name: said for name, (said, has) in tensors.items() if len(has.dims) == len(said.dims)}
    if unbatched and all(said.dims[0] == ANY for said in unbatched.values()):
        return f"the dims of {[*unbatched]} repeat the batch, which max_batch_size stands for: leave out their first -1"
    if unbatched:
        return f"{[*unbatched]} have no batch dimension: write max_batch_size: 0, or export the graph with one"
    fixed = [name for name, (said, has) in tensors.items() if len(has.dims) > len(said.dims) and has.dims[0] != ANY]
    if fixed:
        return f"the batch of {fixed} is fixed: export the graph with a dynamic first axis, or write max_batch_size: 0"
    return ""


def _tensor(value: "ValueInfoProto") -> Tensor:
    """A graph's tensor in the server's words; a dimension without a number is -1."""
    from onnx import TensorProto

    declared = value.type.tensor_type
    name = TensorProto.DataType.Name(declared.elem_type)
    dims = tuple(dim.dim_value if dim.HasField("dim_value") else ANY for dim in declared.shape.dim)
    return Tensor(_SERVER_TYPES.get(name, name), dims)
