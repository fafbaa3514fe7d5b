"""The fastest graph within the limits is served, and a graph that is not true to the original is seen to be so."""

import csv
import math
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import helper, numpy_helper

from resources.bert_build import bert_graphs
from resources.encoder_graph import wrap_encoder
from resources.encoder_texts import calibration_texts, evaluation_texts
from resources.encoder_variants import FidelityLimits, choose_variant, measure_variants
from resources.model_repository import ModelRepository, Variant
from tests.resources.tiny_bert import tiny_bert
from tests.resources.tiny_encoder import tiny_encoder, tiny_tokenizer, write_encoder

LIMITS = FidelityLimits()


def variant(name: str, speed: float = 1.0, *, mean: float = 1.0, least: float = 1.0, alone: float = 0.0) -> Variant:
    return Variant(
        name=name,
        bytes=1,
        texts=1,
        mean_cosine=mean,
        min_cosine=least,
        alone_versus_batch=alone,
        short_texts_per_s=speed,
        long_texts_per_s=speed,
    )


@pytest.mark.parametrize(
    ("fast", "chosen"),
    [
        (variant("fast", 2.0), "fast"),
        (variant("fast", 2.0, mean=0.9989), "original"),
        (variant("fast", 2.0, least=0.9949), "original"),
        (variant("fast", 2.0, alone=2e-6), "original"),
        (variant("fast", 2.0, mean=math.nan), "original"),
        (variant("fast", 0.5), "original"),
    ],
    ids=["true", "far on the whole", "far for one text", "sees its neighbours", "no number", "slow"],
)
def test_the_fastest_within_the_limits_is_chosen(fast: Variant, chosen: str) -> None:
    found = choose_variant([variant("original"), fast], LIMITS)

    assert found is not None
    assert found.name == chosen


def test_short_and_long_texts_weigh_the_same() -> None:
    uneven = variant("uneven").model_copy(update={"short_texts_per_s": 3.0, "long_texts_per_s": 0.5})
    other = variant("other").model_copy(update={"short_texts_per_s": 1.0, "long_texts_per_s": 1.4})

    assert choose_variant([other, uneven], LIMITS) == uneven


def test_nothing_is_chosen_if_nothing_is_within_the_limits() -> None:
    assert choose_variant([variant("far", mean=0.5)], LIMITS) is None


def test_every_graph_of_a_checkpoint_is_measured(tmp_path: Path) -> None:
    checkpoint = tiny_bert(tmp_path)
    tokenizer = tmp_path / "tokenizer.json"
    graphs = bert_graphs(checkpoint, tmp_path / "model.safetensors", tokenizer, 16, lambda _: None)

    variants = {one.name: one for one in measure_variants(graphs, tokenizer, 16)}

    assert list(variants) == ["fp32", "fp32-fused", "int8"]
    assert all(one.texts >= 1000 and one.short_texts_per_s > 0 for one in variants.values())
    assert variants["fp32-fused"].min_cosine > 0.99999
    assert 0.99 < variants["int8"].mean_cosine < 0.99999
    assert variants["int8"].bytes == len(graphs["int8"])
    assert all(one.alone_versus_batch <= LIMITS.alone_versus_batch for one in variants.values())


def spoilt(model: bytes, change: Callable[[onnx.ModelProto], None]) -> bytes:
    opened = onnx.load_from_string(model)
    change(opened)
    return opened.SerializeToString()


def with_other_words(model: onnx.ModelProto) -> None:
    (words,) = (one for one in model.graph.initializer if one.name == "encoder/words")
    words.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(words)[::-1], words.name))


def with_a_scale_over_the_batch(model: onnx.ModelProto) -> None:
    (last,) = (node for node in model.graph.node if "embeddings" in node.output)
    last.output[0] = "alone"
    model.graph.node.append(helper.make_node("ReduceMax", ["alone"], ["batch"], keepdims=1))
    model.graph.node.append(helper.make_node("Add", ["alone", "batch"], ["embeddings"]))


@pytest.mark.parametrize("change", [with_other_words, with_a_scale_over_the_batch])
def test_a_spoilt_graph_is_beyond_the_limits(tmp_path: Path, change: Callable[[onnx.ModelProto], None]) -> None:
    folder = write_encoder(tmp_path, tiny_encoder())
    original = wrap_encoder(folder / "model.onnx").model
    graphs = {"original": original, "spoilt": spoilt(original, change)}

    first, other = measure_variants(graphs, folder / "tokenizer.json", 16)

    assert LIMITS.keep(first)
    assert not LIMITS.keep(other)


def test_the_texts_are_the_same_each_time_and_of_every_length() -> None:
    tokenizer = tiny_tokenizer()
    texts = evaluation_texts(tokenizer)

    assert texts == evaluation_texts(tokenizer)
    assert len(texts) >= 1000
    lengths = sorted(len(text.split()) for text in texts)
    assert lengths[0] == 1
    assert lengths[-1] > 80


def test_calibration_and_evaluation_share_no_text() -> None:
    tokenizer = tiny_tokenizer()

    assert not set(calibration_texts(tokenizer)) & set(evaluation_texts(tokenizer))


def test_the_served_graph_is_as_true_on_real_texts(project_root: Path, built_repository: Path) -> None:
    banking = project_root.parent / "shared/data/banking77/test.csv"
    if not banking.is_file():
        pytest.skip("needs the texts of Banking77")
    with banking.open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)][:1000]
    repository = ModelRepository(built_repository)
    version = repository.versions("text_embedder")[-1]
    folder = repository.version_path("text_embedder", version)
    graphs = {name: (folder / name).read_bytes() for name in ("model.onnx", "model.cpu.onnx")}
    tokenizer = repository.version_path("tokenizer", repository.versions("tokenizer")[-1]) / "tokenizer.json"

    variants = measure_variants(graphs, tokenizer, repository.card("text_embedder", version).token_limit or 0, texts)

    assert all(LIMITS.keep(one) for one in variants)
