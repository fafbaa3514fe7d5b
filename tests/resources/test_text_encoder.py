import numpy as np
import pytest
from numpy.typing import NDArray

from resources.text_encoder import TextEncoder
from resources.triton import ModelContractError, TritonResource

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


def test_the_ensemble_gives_the_same(encoder: TextEncoder) -> None:
    # More than one request of the ensemble.
    texts = [f"{text} {index}" for index in range(40) for text in TEXTS]
    one_trip, encoded = encoder.encode_in_one_trip(texts), encoder.encode(texts)
    np.testing.assert_allclose(one_trip.embeddings, encoded.embeddings, atol=1e-5)
    np.testing.assert_array_equal(one_trip.token_count, encoded.token_count)
    np.testing.assert_array_equal(one_trip.truncated, encoded.truncated)
    assert (one_trip.model_name, one_trip.model_version) == (encoded.model_name, encoded.model_version)


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
