from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from resources.errors import ServerUnavailableError
from resources.text_encoder import TextEncoder
from resources.triton import ModelContractError, ModelInferenceError, TritonResource
from tests.picky_models import write_ensemble

pytestmark = pytest.mark.integration

TEXTS = [
    "The app crashes when I open the settings.",
    "Great!",
    "Delivery took three weeks and nobody answered my calls, which is not what I was promised.",
    "¿Dónde está mi pedido? 😡",
    "refund",
]


def as_tensor(texts: list[str]) -> NDArray[np.object_]:
    tensor = np.empty((len(texts), 1), dtype=object)
    tensor[:, 0] = [text.encode() for text in texts]
    return tensor


@pytest.fixture(scope="module")
def encoder(triton: TritonResource) -> TextEncoder:
    return TextEncoder(triton)


def test_texts_come_back_as_unit_vectors_of_a_named_version(encoder: TextEncoder, triton: TritonResource) -> None:
    encoded = encoder.encode(TEXTS)
    assert (encoded.embeddings.shape, encoded.embeddings.dtype) == ((len(TEXTS), 384), np.float32)
    assert (encoded.token_count.dtype, encoded.truncated.dtype) == (np.int32, np.bool_)
    assert encoded.model_name == "text_embedder"
    assert encoded.model_version == triton.metadata("text_embedder").version
    np.testing.assert_allclose(np.linalg.norm(encoded.embeddings, axis=1), 1, atol=1e-5)
    assert encoded.token_count[TEXTS.index("Great!")] == 4
    assert not encoded.truncated.any()


def test_no_texts_give_empty_arrays(encoder: TextEncoder) -> None:
    encoded = encoder.encode([])
    assert encoded.embeddings.shape == (0, 384)
    assert encoded.token_count.shape == encoded.truncated.shape == (0,)


def test_a_text_alone_and_among_others_has_one_vector(encoder: TextEncoder) -> None:
    together = encoder.encode(TEXTS).embeddings
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(encoder.encode([text]).embeddings[0], vector, atol=1e-5)


def test_order_is_kept_over_many_batches_of_all_lengths(encoder: TextEncoder) -> None:
    texts = [("word " * (1 + index % 17)) + str(index) for index in range(300)]
    encoded = encoder.encode(texts)
    for index in range(0, len(texts), 37):
        np.testing.assert_allclose(encoder.encode([texts[index]]).embeddings[0], encoded.embeddings[index], atol=1e-5)


def test_the_ensemble_gives_the_same(encoder: TextEncoder, triton: TritonResource) -> None:
    # More than one request of the ensemble.
    texts = [f"{text} {index}" for index in range(40) for text in TEXTS]
    one_trip, encoded = TextEncoder(triton, one_trip=True).encode(texts), encoder.encode(texts)
    np.testing.assert_allclose(one_trip.embeddings, encoded.embeddings, atol=1e-5)
    np.testing.assert_array_equal(one_trip.token_count, encoded.token_count)
    np.testing.assert_array_equal(one_trip.truncated, encoded.truncated)
    assert (one_trip.model_name, one_trip.model_version) == (encoded.model_name, encoded.model_version)


def test_chunks_come_back_one_by_one_and_few_are_taken_ahead(encoder: TextEncoder, triton: TritonResource) -> None:
    taken = 0

    def chunks() -> Iterator[list[str]]:
        nonlocal taken
        for number in range(20):
            taken += 1
            yield [f"{text} {number}" for text in TEXTS]

    ahead = []
    for number, encoded in enumerate(encoder.encode_all(chunks())):
        ahead.append(taken - number)
        alone = encoder.encode([f"{text} {number}" for text in TEXTS])
        np.testing.assert_allclose(encoded.embeddings, alone.embeddings, atol=1e-5)
    assert taken == 20
    # Each is one request here; one is tokenized meanwhile, and one has just been asked for.
    assert max(ahead) <= triton.in_flight + 2


def test_rows_padded_to_a_multiple_have_the_same_vectors(encoder: TextEncoder, triton: TritonResource) -> None:
    padded = TextEncoder(triton, pad_to=16).encode(TEXTS)
    np.testing.assert_allclose(padded.embeddings, encoder.encode(TEXTS).embeddings, atol=1e-5)


def test_a_text_of_20000_words_is_cut_and_flagged_and_its_neighbours_are_not(encoder: TextEncoder) -> None:
    alone = encoder.encode(TEXTS)
    encoded = encoder.encode([*TEXTS[:2], "word " * 20_000, *TEXTS[2:]])
    assert encoded.truncated.tolist() == [False, False, True, False, False, False]
    assert encoded.token_count[2] == 20_002
    others = np.delete(np.arange(len(TEXTS) + 1), 2)
    np.testing.assert_allclose(encoded.embeddings[others], alone.embeddings, atol=1e-5)
    np.testing.assert_array_equal(encoded.token_count[others], alone.token_count)


def test_texts_larger_than_a_request_are_encoded(triton: TritonResource) -> None:
    small = TritonResource(**{**triton.model_dump(), "max_request_bytes": 64})
    np.testing.assert_allclose(
        TextEncoder(small, token_budget=1).encode(TEXTS).embeddings,
        TextEncoder(triton).encode(TEXTS).embeddings,
        atol=1e-5,
    )


@pytest.mark.parametrize("text", ["", "   ", "\u200b", "a\ud800b", "nul \0 inside"])
def test_odd_texts_do_not_break_a_batch(encoder: TextEncoder, text: str) -> None:
    encoded = encoder.encode([text, TEXTS[0]])
    np.testing.assert_allclose(encoded.embeddings[1], encoder.encode([TEXTS[0]]).embeddings[0], atol=1e-5)


def test_a_model_that_is_no_embedder_is_refused(triton: TritonResource) -> None:
    with pytest.raises(ModelContractError, match="model 'tokenizer' declares no tensor 'embeddings'"):
        TextEncoder(triton, embedder="tokenizer").encode(["text"])


@pytest.mark.parametrize("one_trip", [False, True], ids=["two steps", "one trip"])
@pytest.mark.parametrize(
    ("bad", "reason"), [("oh no!", "a ! is too much"), ("a # b", "shape"), ("wave ~", "no token for ~")]
)
def test_a_text_that_a_model_fails_on_is_found_and_its_neighbours_are_not_harmed(
    picky_triton: TritonResource, bad: str, reason: str, one_trip: bool
) -> None:
    texts = [f"text {number:02}" for number in range(30)]
    texts[7] = texts[19] = bad
    encoded = TextEncoder(picky_triton, one_trip=one_trip).encode(texts)
    assert sorted(encoded.failures) == [7, 19]
    assert all(reason in why and "\n" not in why for why in encoded.failures.values())
    assert np.isnan(encoded.embeddings[[7, 19]]).all()
    good = [place for place in range(30) if place not in {7, 19}]
    sums = [sum(map(ord, texts[place])) for place in good]
    np.testing.assert_array_equal(encoded.embeddings[good], np.array([[total, 2] for total in sums], np.float32))
    np.testing.assert_array_equal(encoded.token_count[good], [len(texts[place]) for place in good])


@pytest.mark.parametrize("token_budget", [256, 1], ids=["in one request", "each in its own"])
@pytest.mark.parametrize("one_trip", [False, True], ids=["two steps", "one trip"])
def test_where_many_texts_fail_one_after_the_other_the_model_is_to_blame(
    picky_triton: TritonResource, token_budget: int, one_trip: bool
) -> None:
    def encode(texts: list[str]) -> dict[int, str]:
        return TextEncoder(picky_triton, token_budget=token_budget, one_trip=one_trip).encode(texts).failures

    bad = [f"no {number}!" for number in range(8)]
    with pytest.raises(ModelInferenceError, match="a ! is too much"):
        encode(bad)
    assert sorted(encode([*bad[:7], "yes"])) == list(range(7))


def test_versions_are_those_of_the_ensemble_and_stay_for_the_whole_run(
    picky_repository: Path, picky_triton: TritonResource
) -> None:
    def version(encoder: TextEncoder) -> tuple[str, float]:
        encoded = encoder.encode(["a"])
        return encoded.model_version, float(encoded.embeddings[0, 1])

    try:
        write_ensemble(picky_repository, embedder_version=1)
        picky_triton.load_model("feedback_encoder")
        running, one_trip = TextEncoder(picky_triton), TextEncoder(picky_triton, one_trip=True)
        assert version(running) == version(one_trip) == ("1", 1)
        write_ensemble(picky_repository, embedder_version=2)
        picky_triton.load_model("feedback_encoder")
        assert version(running) == ("1", 1)
        assert version(TextEncoder(picky_triton)) == ("2", 2)
        # The ensemble has gone on to the other version: its vectors would be called those of the first.
        with pytest.raises(ServerUnavailableError, match="switched to other versions"):
            one_trip.encode(["a"])
    finally:
        write_ensemble(picky_repository, embedder_version=-1)
        picky_triton.load_model("feedback_encoder")
