"""One text has one vector, whatever way it takes through the server and whatever texts go with it."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from resources.encoder_runtime import embed, open_session, open_tokenizer, padded
from resources.encoder_texts import evaluation_texts
from resources.encoder_variants import FidelityLimits
from resources.text_encoder import TextEncoder
from tests.resources.routed_models import ROUTER, Routed

pytestmark = pytest.mark.integration

ENSEMBLE = "feedback_encoder"
SAME = 0.9999
LIMITS = FidelityLimits()
GOLDEN = [
    "ok",
    "Refund?",
    "Great service!!! 🙂🙂",
    "The parcel arrived two days late and the box was open.",
    "i have asked THREE times now, order no. 48213, $1,249.00",
    "Die App stürzt ab, sobald ich ein Foto hochladen will, und danach ist der Entwurf weg.",
    "Impossible de changer mon mot de passe depuis la mise à jour.",
    "¿Dónde está mi pedido?",
    "注文した商品がまだ届きません。いつ発送されますか。",
    "التطبيق لا يعمل منذ التحديث الأخير",
    "Приложение не открывается.",
    "The app logs me out after each update, and then it asks for a code that never comes. " * 3,
]
OTHERS = [f"Question {number} about " + "my account " * (1 + number % 9) for number in range(128 - len(GOLDEN))]

Vectors = NDArray[np.float32]


@pytest.fixture(scope="module")
def vectors(routed: Routed) -> dict[str, Vectors]:
    """The vectors of the golden texts, by the way they came: (texts, dims) each."""
    places = np.linspace(0, 127, len(GOLDEN)).astype(int)
    batch = list(OTHERS)
    for place, text in zip(places, GOLDEN, strict=True):
        batch.insert(place, text)
    assert [batch[place] for place in places] == GOLDEN

    def by(model: str, texts: list[str]) -> Vectors:
        answer: Vectors = routed.ask(texts, ["embeddings"], model=model)["embeddings"]
        return answer

    encoder = TextEncoder(routed.triton)
    return {
        "ensemble, alone": np.concatenate([by(ENSEMBLE, [text]) for text in GOLDEN]),
        "ensemble, in a batch of 128": by(ENSEMBLE, batch)[places],
        "router, alone": np.concatenate([by(ROUTER, [text]) for text in GOLDEN]),
        "router, in a batch of 128": by(ROUTER, batch)[places],
        "direct, alone": np.concatenate([encoder.encode([text]).embeddings for text in GOLDEN]),
        "direct, among 128": encoder.encode(batch).embeddings[places],
    }


def test_every_way_leads_to_the_same_vectors(vectors: dict[str, Vectors]) -> None:
    worst = {
        f"{one} / {other}": float(cosines(vectors[one], vectors[other]).min())
        for one, other in combinations(vectors, 2)
    }

    assert {pair: cosine for pair, cosine in worst.items() if not cosine >= SAME} == {}


@pytest.fixture(scope="module")
def original(routed: Routed) -> Callable[[list[str]], Vectors]:
    """What the graph in full precision, of the version that is served, makes of texts in this process."""
    pinned, repository = TextEncoder(routed.triton).pinned, routed.repository
    tokenizer, embedder = int(pinned.tokenizer_version), int(pinned.embedder_version)
    limit = repository.card("text_embedder", embedder).token_limit
    assert limit is not None
    session = open_session(repository.version_path("text_embedder", embedder) / "model.onnx")
    reader = open_tokenizer(repository.version_path("tokenizer", tokenizer) / "tokenizer.json", limit)
    # One by one, because a batch would be padded to its longest.
    return lambda texts: np.concatenate([embed(session, *padded(reader, [text])) for text in texts])


def test_none_is_far_from_the_original_in_full_precision(
    vectors: dict[str, Vectors], original: Callable[[list[str]], Vectors]
) -> None:
    expected = original(GOLDEN)
    worst = {way: float(cosines(found, expected).min()) for way, found in vectors.items()}

    assert {way: cosine for way, cosine in worst.items() if not cosine >= LIMITS.min_cosine} == {}


def test_on_the_whole_they_are_nearer_still(
    routed: Routed, built_repository: Path, original: Callable[[list[str]], Vectors]
) -> None:
    # Of the texts that the limit is for: single words and emojis, as above, lie a little farther off.
    tokenizer = open_tokenizer(next(built_repository.glob("tokenizer/[1-9]*/tokenizer.json")), 256)
    texts = evaluation_texts(tokenizer, 128)

    found = TextEncoder(routed.triton).encode(texts).embeddings

    assert cosines(found, original(texts)).mean() >= LIMITS.mean_cosine


def test_different_texts_have_different_vectors(vectors: dict[str, Vectors]) -> None:
    """Else the above would show nothing."""
    for found in vectors.values():
        assert (found @ found.T)[~np.eye(len(GOLDEN), dtype=bool)].max() < 0.9


def cosines(one: Vectors, other: Vectors) -> Vectors:
    """The cosine of the vectors of each text: (texts,)."""
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    found: Vectors = (one * other).sum(axis=1) / lengths
    return found
