"""A BERT-family checkpoint as it is published: its shape from `config.json`, its weights from `model.safetensors`.

What is computed with the weights is not known here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from resources.errors import ConfigurationError

Weights = NDArray[np.float32]

_REFUSED = "build from an ONNX export of the encoder instead (a folder without model.safetensors)"


@dataclass(frozen=True)
class BertConfig:
    """The part of `config.json` that decides what is computed.

    Attributes:
        hidden: Components of a token's vector.
        layers: The number of layers.
        heads: Attention heads of a layer; `hidden` is a multiple of it.
        epsilon: What layer normalization adds to the variance.
    """

    hidden: int
    layers: int
    heads: int
    epsilon: float

    @property
    def head(self) -> int:
        """Components of one head."""
        return self.hidden // self.heads


@dataclass(frozen=True)
class Dense:
    """A linear layer: `x @ weight + bias`, with weight [in, out] and bias [out]."""

    weight: Weights
    bias: Weights


@dataclass(frozen=True)
class Norm:
    """Layer normalization: scale and shift [hidden]."""

    scale: Weights
    shift: Weights


@dataclass(frozen=True)
class BertLayer:
    """One layer: attention, then two dense layers, each part added to its input and normalized."""

    query: Dense
    key: Dense
    value: Dense
    attention_output: Dense
    attention_norm: Norm
    up: Dense
    down: Dense
    output_norm: Norm


@dataclass(frozen=True)
class BertCheckpoint:
    """An encoder's numbers.

    Attributes:
        config: Its shape.
        words: One vector a token id [vocabulary, hidden].
        positions: One vector a position [positions, hidden]; the vector of token type 0 is added, because
            single texts have no other type.
        norm: The normalization of their sum.
        layers: From input to output.
    """

    config: BertConfig
    words: Weights
    positions: Weights
    norm: Norm
    layers: tuple[BertLayer, ...]


def is_bert(config: Path) -> bool:
    """Whether a `config.json` is one of the family that `read_checkpoint` reads."""
    try:
        _config(config)
    except ConfigurationError:
        return False
    return True


def read_checkpoint(weights: Path, config: Path) -> BertCheckpoint:
    """Reads a checkpoint; weights of half precision become single precision.

    Args:
        weights: A file of the safetensors format, with the names that BERT's authors gave.
        config: Its `config.json`.

    Raises:
        ConfigurationError: A file cannot be read or a weight is missing; or the encoder is not of the family:
            BERT with absolute positions and GELU.
    """
    shape = _config(config)
    tensors = _Tensors(weights)
    layers = tuple(_layer(tensors, f"encoder.layer.{number}") for number in range(shape.layers))
    types = tensors("embeddings.token_type_embeddings.weight")
    checkpoint = BertCheckpoint(
        config=shape,
        words=tensors("embeddings.word_embeddings.weight"),
        positions=tensors("embeddings.position_embeddings.weight") + types[0],
        norm=tensors.norm("embeddings.LayerNorm"),
        layers=layers,
    )
    if checkpoint.words.shape[1] != shape.hidden:
        raise ConfigurationError(
            f"{weights} has vectors of {checkpoint.words.shape[1]} components, {config} says {shape.hidden}: "
            "fetch both files from one place"
        )
    return checkpoint


def _layer(tensors: "_Tensors", name: str) -> BertLayer:
    return BertLayer(
        query=tensors.dense(f"{name}.attention.self.query"),
        key=tensors.dense(f"{name}.attention.self.key"),
        value=tensors.dense(f"{name}.attention.self.value"),
        attention_output=tensors.dense(f"{name}.attention.output.dense"),
        attention_norm=tensors.norm(f"{name}.attention.output.LayerNorm"),
        up=tensors.dense(f"{name}.intermediate.dense"),
        down=tensors.dense(f"{name}.output.dense"),
        output_norm=tensors.norm(f"{name}.output.LayerNorm"),
    )


class _Tensors:
    """The weights of a file by their published name, with or without the prefix `bert.`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tensors = _load(path)

    def __call__(self, *names: str) -> Weights:
        for name in names:
            for found in (name, f"bert.{name}"):
                if found in self._tensors:
                    return np.ascontiguousarray(self._tensors[found], dtype=np.float32)
        raise ConfigurationError(f"{self._path} has no weight {names[0]}: {_REFUSED}")

    def dense(self, name: str) -> Dense:
        return Dense(np.ascontiguousarray(self(f"{name}.weight").T), self(f"{name}.bias"))

    def norm(self, name: str) -> Norm:
        # Checkpoints converted from the first release say gamma and beta.
        return Norm(self(f"{name}.weight", f"{name}.gamma"), self(f"{name}.bias", f"{name}.beta"))


def _load(path: Path) -> Mapping[str, NDArray[np.generic]]:
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError as error:
        raise ConfigurationError(
            "safetensors is not installed: install the platform with its extra `models`"
        ) from error

    try:
        tensors: Mapping[str, NDArray[np.generic]] = load_file(path)
    # A KeyError names a number format that numpy does not have.
    except (SafetensorError, OSError, KeyError) as error:
        raise ConfigurationError(f"{path} cannot be read as safetensors ({error}): {_REFUSED}") from error
    return tensors


def _config(path: Path) -> BertConfig:
    settings = _settings(path)
    expected = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
    # Configurations older than the setting have absolute positions.
    settings.setdefault("position_embedding_type", "absolute")
    for name, value in expected.items():
        if settings.get(name) != value:
            raise ConfigurationError(f"{path}: {name} is {settings.get(name)!r} and not {value!r}: {_REFUSED}")

    def count(name: str) -> int:
        value = settings.get(name)
        if not isinstance(value, int) or value < 1:
            raise ConfigurationError(f"{path}: {name} is {value!r} and not a count: {_REFUSED}")
        return value

    epsilon = settings.get("layer_norm_eps", 1e-12)
    config = BertConfig(
        hidden=count("hidden_size"),
        layers=count("num_hidden_layers"),
        heads=count("num_attention_heads"),
        epsilon=float(epsilon) if isinstance(epsilon, (int, float)) else 1e-12,
    )
    if config.hidden % config.heads:
        raise ConfigurationError(f"{path}: {config.hidden} components are not {config.heads} equal heads: {_REFUSED}")
    return config


def _settings(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} is not JSON: {error}") from error
    return content if isinstance(content, dict) else {}
