"""Reading a model's config.pbtxt, and setting the one number in it that depends on the encoder.

The server's own schema parses it; nothing here knows which models there are.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from resources.errors import ConfigurationError


class _Reshape(Protocol):
    shape: Iterable[int]


class _Entry(Protocol):
    name: str
    data_type: int
    dims: Iterable[int]
    reshape: _Reshape

    def HasField(self, name: str) -> bool: ...  # noqa: N802  # protobuf's name


@dataclass(frozen=True)
class Tensor:
    """One input or output: its type in the server's words (`INT32`, `BYTES`), its shape without the batch.

    Attributes:
        data_type: `INVALID` where the configuration names none.
        dims: Sizes; -1 where any size will do.
        reshape: The shape that the model itself sees, where the configuration states another.
        optional: Whether a request may leave it out.
    """

    data_type: str
    dims: tuple[int, ...]
    reshape: tuple[int, ...] | None = None
    optional: bool = False


@dataclass(frozen=True)
class Step:
    """One model of an ensemble, with the ensemble's name of each tensor by the model's own name of it.

    Attributes:
        model: The model's name.
        inputs: What it takes.
        outputs: What it gives.
        version: The version that is asked for; -1 for the newest that is ready.
    """

    model: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    version: int = -1


@dataclass(frozen=True)
class VersionPolicy:
    """Which of a model's versions a server loads: those in `specific`, else the `latest` so many, None for all."""

    latest: int | None = 1
    specific: tuple[int, ...] = ()

    def served(self, present: Iterable[int]) -> list[int]:
        """The versions among those present that are loaded, ascending."""
        versions = sorted(present)
        if self.specific:
            return [version for version in versions if version in self.specific]
        return versions if self.latest is None else versions[max(0, len(versions) - self.latest) :]


@dataclass(frozen=True)
class InstanceGroup:
    """Copies of a model on one kind of device.

    Attributes:
        kind: `KIND_AUTO`, `KIND_CPU`, `KIND_GPU` or `KIND_MODEL`.
        count: Copies, on each GPU where there are several; 0 where the configuration leaves it to the server.
        gpus: Numbers of the GPUs; empty for all of them.
    """

    kind: str
    count: int
    gpus: tuple[int, ...]


@dataclass(frozen=True)
class Queue:
    """The dynamic batcher's queue: the batches it aims at, its priorities, and those with a rule of their own."""

    preferred: tuple[int, ...]
    priorities: int
    default_priority: int
    ruled_priorities: tuple[int, ...]


@dataclass(frozen=True)
class WarmUp:
    """A request that the server makes to itself before a version is ready."""

    name: str
    rows: int
    inputs: dict[str, Tensor]


@dataclass(frozen=True)
class ModelConfig:
    """A configuration: what a client may send and will get, and how the server runs the model.

    Attributes:
        name: The model's name; empty where the server takes the folder's.
        steps: The models it chains, in order; empty unless it is an ensemble.
        max_batch_size: Rows of the largest request; 0 for a model without a batch dimension.
        inputs: By name.
        outputs: By name.
        twice: Names that more than one input, or more than one output, has.
        platform: `ensemble`, or the older way to name the backend.
        backend: The backend's name.
        file: The file of a version that is served; empty for the backend's own name.
        versions: Which versions are loaded.
        groups: The instances; empty where the server decides.
        queue: The dynamic batcher, where it is on.
        accelerators: The parameters of each GPU accelerator, by its name.
        warm_ups: The requests at load.
    """

    name: str
    steps: tuple[Step, ...]
    max_batch_size: int
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    twice: tuple[str, ...] = ()
    platform: str = ""
    backend: str = ""
    file: str = ""
    versions: VersionPolicy = field(default_factory=VersionPolicy)
    groups: tuple[InstanceGroup, ...] = ()
    queue: Queue | None = None
    accelerators: dict[str, dict[str, str]] = field(default_factory=dict)
    warm_ups: tuple[WarmUp, ...] = ()


def read_config(path: Path) -> ModelConfig:
    """Parses a config.pbtxt.

    Raises:
        ConfigurationError: The file cannot be read or is not a model configuration.
    """
    try:
        return parse_config(path.read_text(encoding="utf-8"), path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error


def parse_config(text: str, path: Path) -> ModelConfig:
    """Parses the text of a config.pbtxt; the path is for the message of the error.

    Raises:
        ConfigurationError: The text is not a model configuration.
    """
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    message = model_config_pb2.ModelConfig()
    try:
        # A newer server may know fields that this client does not.
        text_format.Parse(text, message, allow_unknown_field=True)
    except text_format.ParseError as error:
        raise ConfigurationError(f"{path} is not a model configuration: {error}") from error

    def data_type(number: int) -> str:
        # The protocol calls strings BYTES everywhere but in configurations.
        name: str = model_config_pb2.DataType.Name(number)
        return name.removeprefix("TYPE_").replace("STRING", "BYTES")

    def tensors(entries: Iterable[_Entry], *, inputs: bool = False) -> dict[str, Tensor]:
        return {
            entry.name: Tensor(
                data_type(entry.data_type),
                tuple(entry.dims),
                tuple(entry.reshape.shape) if entry.HasField("reshape") else None,
                optional=inputs and bool(getattr(entry, "optional", False)),
            )
            for entry in entries
        }

    batching = message.dynamic_batching
    return ModelConfig(
        name=message.name,
        steps=tuple(
            Step(step.model_name, dict(step.input_map), dict(step.output_map), step.model_version)
            for step in message.ensemble_scheduling.step
        ),
        max_batch_size=message.max_batch_size,
        inputs=tensors(message.input, inputs=True),
        outputs=tensors(message.output),
        twice=(*_twice(message.input), *_twice(message.output)),
        platform=message.platform,
        backend=message.backend,
        file=message.default_model_filename,
        versions=_version_policy(message.version_policy),
        groups=tuple(
            InstanceGroup(model_config_pb2.ModelInstanceGroup.Kind.Name(group.kind), group.count, tuple(group.gpus))
            for group in message.instance_group
        ),
        queue=Queue(
            tuple(batching.preferred_batch_size),
            batching.priority_levels,
            batching.default_priority_level,
            tuple(sorted(batching.priority_queue_policy)),
        )
        if message.HasField("dynamic_batching")
        else None,
        accelerators={
            accelerator.name: dict(accelerator.parameters)
            for accelerator in message.optimization.execution_accelerators.gpu_execution_accelerator
        },
        warm_ups=tuple(
            WarmUp(
                warm_up.name,
                warm_up.batch_size,
                {
                    name: Tensor(data_type(given.data_type), tuple(given.dims))
                    for name, given in sorted(warm_up.inputs.items())
                },
            )
            for warm_up in message.model_warmup
        ),
    )


def unknown_field(path: Path) -> str:
    """What a server of the schema's version would stumble over in a readable configuration; empty if nothing.

    `read_config` reads past a field it does not know; a server does not load such a model.
    """
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    try:
        text_format.Parse(path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        return str(error)
    return ""


def _twice(entries: Iterable[_Entry]) -> Iterable[str]:
    return (name for name, count in Counter(entry.name for entry in entries).items() if count > 1)


def _version_policy(policy: Any) -> VersionPolicy:  # noqa: ANN401  # a message of the generated module, which has no types
    match policy.WhichOneof("policy_choice"):
        case "specific":
            return VersionPolicy(specific=tuple(policy.specific.versions))
        case "all":
            return VersionPolicy(latest=None)
        case "latest":
            return VersionPolicy(latest=policy.latest.num_versions)
    return VersionPolicy()


def with_dims(text: str, tensor: str, dims: int) -> str:
    """The same text with another size for the tensors of that name that have one fixed dimension.

    Comments and layout stay as they are. A text that does not name the tensor is returned unchanged.
    """
    declaration = re.compile(rf'(name:\s*"{re.escape(tensor)}"[^{{}}]*?dims:\s*\[\s*)\d+(\s*\])')
    return declaration.sub(rf"\g<1>{dims}\g<2>", text)
