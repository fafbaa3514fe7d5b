"""A text encoder of a few hundred bytes: real files that the builder reads like a published encoder's."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

DIMS = 8
_WORDS = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "the",
    "word",
    "ok",
    "refund",
    "app",
    "die",
    "le",
    "la",
    "?",
    "!",
)


def tiny_encoder(
    *,
    dims: int = DIMS,
    opset: int = 17,
    token_types: bool = True,
    integer: int = TensorProto.INT64,
    output: str = "last_hidden_state",
    sees_neighbours: bool = False,
    positions: int = 512,
) -> onnx.ModelProto:
    """Word, position and type embeddings and a projection; the same numbers each time."""
    random = np.random.default_rng(7)

    def weights(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name)

    inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if token_types else [])]
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["word"]),
        helper.make_node("Shape", ["input_ids"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["position"]),
        helper.make_node("Gather", ["positions", "position"], ["place"]),
        helper.make_node("Add", ["word", "place"], ["placed"]),
    ]
    last = "placed"
    if token_types:
        nodes += [
            helper.make_node("Gather", ["types", "token_type_ids"], ["type"]),
            helper.make_node("Add", [last, "type"], ["typed"]),
        ]
        last = "typed"
    if sees_neighbours:
        nodes += [
            helper.make_node("ReduceMax", [last], ["batch_scale"], keepdims=1),
            helper.make_node("Add", [last, "batch_scale"], ["scaled"]),
        ]
        last = "scaled"
    nodes.append(helper.make_node("MatMul", [last, "projection"], [output]))

    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info(name, integer, ["batch", "sequence"]) for name in inputs],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", "sequence", dims])],
        initializer=[
            weights("words", len(_WORDS), DIMS),
            weights("positions", positions, DIMS),
            weights("types", 2, DIMS),
            weights("projection", DIMS, dims),
            numpy_helper.from_array(np.array(0, dtype=np.int64), "zero"),
            numpy_helper.from_array(np.array(1, dtype=np.int64), "one"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model


def tiny_tokenizer() -> Tokenizer:
    """Lower-cased words and single signs, between [CLS] and [SEP]."""
    vocabulary = {word: number for number, word in enumerate(_WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=_WORDS[1]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def write_encoder(
    folder: Path,
    model: onnx.ModelProto | None = None,
    *,
    name: str = "model.onnx",
    **settings: dict[str, object],
) -> Path:
    """Writes an encoder's folder; each setting is a JSON file. Without any, the token limit is 16."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model or tiny_encoder(), folder / name)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    for setting, content in (settings or {"sentence_bert_config": {"max_seq_length": 16}}).items():
        (folder / f"{setting}.json").write_text(json.dumps(content))
    return folder
