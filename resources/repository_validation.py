"""Whether a model repository can be served: its configurations, versions, files and graphs fit each other.

Nothing is built, changed or started here, and no model is run.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from resources.errors import ConfigurationError
from resources.model_config import ModelConfig, Tensor, read_config
from resources.model_repository import CONFIG_NAME, ModelRepository, sha256

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

_GRAPH_NAME = "model.onnx"
_SERVER_TYPES = {"FLOAT": "FP32", "DOUBLE": "FP64", "FLOAT16": "FP16", "STRING": "BYTES"}


def validate_repository(repository: ModelRepository) -> list[str]:
    """Looks for what would keep a server from loading the newest version of each model.

    A model that an ensemble chains, and the ensemble, must have a version; any other may have none yet.

    Returns:
        The problems, one line each; empty if there is none.

    Raises:
        ConfigurationError: The repository is not a folder.
    """
    problems: list[str] = []
    configs: dict[str, ModelConfig] = {}
    for model in repository.models():
        try:
            configs[model] = read_config(repository.path / model / CONFIG_NAME)
        except ConfigurationError as error:
            problems.append(str(error))

    chained = {step.model for config in configs.values() for step in config.steps}
    for model, config in configs.items():
        problems += _config_problems(repository, model, config)
        problems += _ensemble_problems(model, config, configs)
        problems += _version_problems(repository, model, config)
        if not repository.version_folders(model) and (config.steps or model in chained):
            problems.append(f"{model} has no version: build the models")
    return problems


def _config_problems(repository: ModelRepository, model: str, config: ModelConfig) -> Iterator[str]:
    """The names of model and folder, and the alternatives, which must promise the same tensors."""
    for path in repository.configs(model):
        try:
            alternative = read_config(path)
        except ConfigurationError as error:
            yield str(error)
            continue
        if alternative.name != model:
            yield f"{path} names the model {alternative.name!r}: name it as its folder, {model!r}"
        for kind in ("inputs", "outputs", "max_batch_size"):
            if getattr(alternative, kind) != getattr(config, kind):
                yield f"{path} has other {kind} than {CONFIG_NAME}: make them equal"


def _ensemble_problems(model: str, config: ModelConfig, configs: Mapping[str, ModelConfig]) -> Iterator[str]:
    """Each tensor that an ensemble passes on must exist and be the same on both sides."""
    carried = dict(config.inputs)
    for step in config.steps:
        part = configs.get(step.model)
        if part is None:
            yield f"{model} chains {step.model}, which has no readable {CONFIG_NAME}"
            return
        for own, shared in step.inputs.items():
            if own not in part.inputs or carried.get(shared) != part.inputs[own]:
                yield f"{model} gives {step.model} {shared!r} as {own!r}, which is not the input it takes"
        for own, shared in step.outputs.items():
            if own in part.outputs:
                carried[shared] = part.outputs[own]
            else:
                yield f"{model} takes {own!r} from {step.model}, which has no such output"
    for name, tensor in config.outputs.items() if config.steps else ():
        if carried.get(name) != tensor:
            yield f"{model} promises {name!r} as {_words(tensor)}, its steps give {_words(carried.get(name))}"


def _version_problems(repository: ModelRepository, model: str, config: ModelConfig) -> Iterator[str]:
    """Versions that a server would try and fail to load, and the content of the newest."""
    complete = repository.versions(model)
    for version in repository.version_folders(model):
        if version not in complete:
            yield f"{model} version {version} is incomplete: remove {repository.version_path(model, version)}"
    if not complete:
        return

    version = complete[-1]
    what = f"{model} version {version}"
    folder = repository.version_path(model, version)
    card = repository.card(model, version)
    if (card.model, card.version) != (model, version):
        yield f"{what} has the card of {card.model} version {card.version}: remove it and build again"
    for name, expected in card.files.items():
        found = sha256(folder / name)
        if found != expected:
            yield f"{what}: {name} has SHA-256 {found}, its card says {expected}: remove it and build again"
        source = repository.path / model / name
        if source.is_file() and sha256(source) != expected:
            yield f"{what} was built with another {name} than {source}: build again"
    if _GRAPH_NAME in card.files:
        yield from _graph_problems(folder / _GRAPH_NAME, what, config)


def _graph_problems(path: Path, what: str, config: ModelConfig) -> Iterator[str]:
    """A graph must be valid, and its tensors those of the configuration."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except (DecodeError, onnx.checker.ValidationError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        yield f"{what}: {path.name} is not a valid ONNX model ({reason}): remove it and build again"
        return

    batched = config.max_batch_size > 0
    for kind, promised, given in (
        ("input", config.inputs, _graph_inputs(model)),
        ("output", config.outputs, {value.name: value for value in model.graph.output}),
    ):
        if promised.keys() != given.keys():
            yield f"{what} has the {kind}s {sorted(given)}, its configuration {sorted(promised)}"
        for name in promised.keys() & given.keys():
            found = _tensor(given[name])
            expected = Tensor(promised[name].data_type, ((-1,) if batched else ()) + promised[name].dims)
            if found != expected:
                yield f"{what}: {kind} {name} is {_words(found)}, its configuration says {_words(expected)}"


def _graph_inputs(model: "ModelProto") -> "dict[str, ValueInfoProto]":
    weights = {tensor.name for tensor in model.graph.initializer}  # old exports list these as inputs too
    return {value.name: value for value in model.graph.input if value.name not in weights}


def _tensor(value: "ValueInfoProto") -> Tensor:
    """A graph's tensor in the server's words; a dimension without a number is -1."""
    from onnx import TensorProto

    declared = value.type.tensor_type
    name = TensorProto.DataType.Name(declared.elem_type)
    dims = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in declared.shape.dim)
    return Tensor(_SERVER_TYPES.get(name, name), dims)


def _words(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else f"{tensor.data_type} {list(tensor.dims)}"
