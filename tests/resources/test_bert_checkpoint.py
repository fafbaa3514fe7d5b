"""A checkpoint is read whatever its age and precision; one that would be computed wrongly is refused."""

from pathlib import Path

import numpy as np
import pytest

from resources.bert_checkpoint import is_bert, read_checkpoint
from resources.errors import ConfigurationError
from tests.resources.tiny_bert import HIDDEN, LAYERS, bert_weights, write_bert


def read(folder: Path):
    return read_checkpoint(folder / "model.safetensors", folder / "config.json")


def test_weights_are_turned_and_the_first_token_type_is_part_of_the_positions(tmp_path: Path) -> None:
    weights = bert_weights()
    checkpoint = read(write_bert(tmp_path, weights))

    assert (checkpoint.config.hidden, len(checkpoint.layers)) == (HIDDEN, LAYERS)
    up = weights["encoder.layer.1.intermediate.dense.weight"]
    np.testing.assert_array_equal(checkpoint.layers[1].up.weight, up.T)
    types = weights["embeddings.token_type_embeddings.weight"]
    np.testing.assert_array_equal(checkpoint.positions, weights["embeddings.position_embeddings.weight"] + types[0])


def test_older_names_and_half_precision_are_read(tmp_path: Path) -> None:
    halves = {name: value.astype(np.float16) for name, value in bert_weights().items()}
    old = {
        f"bert.{name}".replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in halves.items()
    }

    checkpoint = read(write_bert(tmp_path, old))

    assert checkpoint.words.dtype == np.float32
    np.testing.assert_array_equal(checkpoint.norm.scale, halves["embeddings.LayerNorm.weight"].astype(np.float32))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "roberta"}, "model_type is 'roberta' and not 'bert': build from an ONNX export"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu' and not 'gelu'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key' and not 'absolute'"),
        ({"num_hidden_layers": None}, "num_hidden_layers is None and not a count"),
        ({"num_attention_heads": 5}, "32 components are not 5 equal heads"),
    ],
    ids=["another family", "another activation", "relative positions", "no layers", "unequal heads"],
)
def test_another_encoder_is_refused(tmp_path: Path, config: dict[str, object], message: str) -> None:
    folder = write_bert(tmp_path, **config)

    assert not is_bert(folder / "config.json")
    with pytest.raises(ConfigurationError, match=message) as refused:
        read(folder)
    assert "\n" not in str(refused.value)


def test_weights_that_do_not_fit_the_configuration_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no weight encoder\.layer\.2\.attention\.self\.query\.weight"):
        read(write_bert(tmp_path, num_hidden_layers=LAYERS + 1))
    with pytest.raises(ConfigurationError, match=r"vectors of 32 components, .* says 64"):
        read(write_bert(tmp_path, hidden_size=64))


def test_a_file_that_is_not_safetensors_is_refused(tmp_path: Path) -> None:
    (write_bert(tmp_path) / "model.safetensors").write_bytes(b"<html>not found</html>")

    with pytest.raises(ConfigurationError, match=r"model\.safetensors cannot be read as safetensors"):
        read(tmp_path)
