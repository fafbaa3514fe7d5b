"""Reading a model's config.pbtxt, and setting the one number in it that depends on the encoder.

The server's own schema parses it; nothing here knows which models there are.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from resources.errors import ConfigurationError


class _Entry(Protocol):
    name: str
    data_type: int
    dims: Iterable[int]


@dataclass(frozen=True)
class Tensor:
    """One input or output: its type in the server's words (`INT32`, `BYTES`), its shape without the batch."""

    data_type: str
    dims: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One model of an ensemble, with the ensemble's name of each tensor by the model's own name of it."""

    model: str
    inputs: dict[str, str]
    outputs: dict[str, str]


@dataclass(frozen=True)
class ModelConfig:
    """The part of a configuration that says what a client may send and will get.

    Attributes:
        name: The model's name.
        steps: The models it chains, in order; empty unless it is an ensemble.
        max_batch_size: Rows of the largest request; 0 for a model without a batch dimension.
        inputs: By name.
        outputs: By name.
    """

    name: str
    steps: tuple[Step, ...]
    max_batch_size: int
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]


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

    def tensors(entries: Iterable[_Entry]) -> dict[str, Tensor]:
        return {
            entry.name: Tensor(
                # The protocol calls strings BYTES everywhere but in configurations.
                model_config_pb2.DataType.Name(entry.data_type).removeprefix("TYPE_").replace("STRING", "BYTES"),
                tuple(entry.dims),
            )
            for entry in entries
        }

    return ModelConfig(
        name=message.name,
        steps=tuple(
            Step(step.model_name, dict(step.input_map), dict(step.output_map))
            for step in message.ensemble_scheduling.step
        ),
        max_batch_size=message.max_batch_size,
        inputs=tensors(message.input),
        outputs=tensors(message.output),
    )


def with_dims(text: str, tensor: str, dims: int) -> str:
    """The same text with another size for the tensors of that name that have one fixed dimension.

    Comments and layout stay as they are. A text that does not name the tensor is returned unchanged.
    """
    declaration = re.compile(rf'(name:\s*"{re.escape(tensor)}"[^{{}}]*?dims:\s*\[\s*)\d+(\s*\])')
    return declaration.sub(rf"\g<1>{dims}\g<2>", text)
