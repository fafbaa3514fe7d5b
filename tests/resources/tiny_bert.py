"""A BERT checkpoint of some kilobytes, as published checkpoints are laid out."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from resources.bert_checkpoint import BertCheckpoint, read_checkpoint
from tests.resources.tiny_encoder import tiny_tokenizer

HIDDEN = 32
LAYERS = 2
CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "layer_norm_eps": 1e-6,
    "max_position_embeddings": 24,
}
_FEED = 64
_WORDS = 14


def bert_weights(*, wide_column: int | None = None) -> dict[str, np.ndarray]:
    """Random weights, the same each time; a wide column makes one component of the states forty times larger."""
    random = np.random.default_rng(11)

    def drawn(*shape: int) -> np.ndarray:
        return random.normal(scale=shape[-1] ** -0.5, size=shape).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": drawn(_WORDS, HIDDEN),
        "embeddings.position_embeddings.weight": drawn(CONFIG["max_position_embeddings"], HIDDEN) / 2,
        "embeddings.token_type_embeddings.weight": drawn(2, HIDDEN) / 2,
    }
    dense, norms = {}, ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}" for number in range(LAYERS)):
        dense |= {f"{layer}.attention.self.{part}": (HIDDEN, HIDDEN) for part in ("query", "key", "value")}
        dense |= {
            f"{layer}.attention.output.dense": (HIDDEN, HIDDEN),
            f"{layer}.intermediate.dense": (_FEED, HIDDEN),
            f"{layer}.output.dense": (HIDDEN, _FEED),
        }
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for name, shape in dense.items():
        weights |= {f"{name}.weight": drawn(*shape), f"{name}.bias": drawn(shape[0])}
    for name in norms:
        scale = 1.0 + drawn(HIDDEN)
        if wide_column is not None:
            scale[wide_column] *= 40.0
        weights |= {f"{name}.weight": scale, f"{name}.bias": drawn(HIDDEN)}
    return weights


def write_bert(folder: Path, weights: dict[str, np.ndarray] | None = None, **config: object) -> Path:
    """Writes a checkpoint's folder; its token limit is 16."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(bert_weights() if weights is None else weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16}))
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def tiny_bert(folder: Path, *, wide_column: int | None = None) -> BertCheckpoint:
    """Writes and reads a checkpoint."""
    write_bert(folder, bert_weights(wide_column=wide_column))
    return read_checkpoint(folder / "model.safetensors", folder / "config.json")
