"""`feedback_router` on a real server: the numbers of the client's own path, and nothing run that is not needed."""

from collections.abc import Iterator

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from resources.text_encoder import TextEncoder
from tests.resources.routed_models import ASKING, DETECTOR, KNOWN, OTHERS, ROUTER, SECOND, Routed, column

pytestmark = pytest.mark.integration

TEXTS = [
    *KNOWN,
    "It crashes as soon as I open the app.",
    "¿Dónde está mi paquete? 😡",
    "The moon is made of green cheese.",
    "",
]


@pytest.fixture(scope="module")
def confidence(routed: Routed) -> np.ndarray:
    """How sure the first detector is of each text, by the client's own path: (texts, 1)."""
    vectors = TextEncoder(routed.triton).encode(TEXTS).embeddings
    return 1 - routed.triton.infer(DETECTOR, {"embeddings": vectors}, version="1")["score"]


@pytest.mark.parametrize(
    "texts",
    [[*TEXTS, "word " * 400], [f"{text} {number}" for number in range(20) for text in TEXTS]],
    ids=["one of them too long", "more than a request holds"],
)
def test_the_numbers_are_those_of_the_clients_own_path(routed: Routed, texts: list[str]) -> None:
    encoded = TextEncoder(routed.triton).encode(texts)
    scored = routed.triton.infer(DETECTOR, {"embeddings": encoded.embeddings})

    answer = routed.triton.infer(ROUTER, {"text": column(texts)})

    np.testing.assert_allclose(answer["embeddings"], encoded.embeddings, atol=1e-5)
    np.testing.assert_array_equal(answer["token_count"][:, 0], encoded.token_count)
    np.testing.assert_array_equal(answer["truncated"][:, 0], encoded.truncated)
    np.testing.assert_allclose(answer["score"], scored["score"], atol=1e-5)
    np.testing.assert_array_equal(answer["cell"], scored["cell"])


def test_unsure_texts_and_no_others_go_to_the_second_step(routed: Routed, confidence: np.ndarray) -> None:
    unsure = confidence < 0.5
    assert 0 < unsure.sum() < len(TEXTS)
    before = routed.rows_seen_by(SECOND)

    answer = routed.ask(TEXTS, model=ASKING, detector_version="1")

    np.testing.assert_array_equal(answer["unsure"], unsure)
    expected = [f"about {text}".encode() if asked else b"" for text, asked in zip(TEXTS, unsure[:, 0], strict=True)]
    assert answer["second_step"][:, 0].tolist() == expected
    assert routed.rows_seen_by(SECOND) - before == unsure.sum()


@pytest.mark.parametrize(
    ("texts", "outputs"), [(KNOWN, ["second_step", "unsure"]), (TEXTS, ["unsure"])], ids=["all sure", "not asked for"]
)
def test_the_second_step_is_not_run_without_need(routed: Routed, texts: list[str], outputs: list[str]) -> None:
    before = routed.rows_seen_by(SECOND)

    answer = routed.ask(texts, outputs, model=ASKING, detector_version="1")

    assert sorted(answer) == sorted(outputs)
    assert routed.rows_seen_by(SECOND) == before


def test_as_shipped_nobody_is_asked(routed: Routed) -> None:
    answer = routed.ask(TEXTS)

    assert answer["unsure"].any()
    assert set(answer["second_step"][:, 0]) == {b""}


@pytest.mark.parametrize("limit", [0.2, 0.97, "0.97", 2, -1], ids=repr)
def test_a_request_may_name_its_own_limit(routed: Routed, confidence: np.ndarray, limit: float | str) -> None:
    answer = routed.ask(TEXTS, ["unsure"], confidence_limit=limit, detector_version="1")
    np.testing.assert_array_equal(answer["unsure"], confidence < float(limit))

    later = routed.ask(TEXTS, ["unsure"], detector_version="1")
    np.testing.assert_array_equal(later["unsure"], confidence < 0.5)


@pytest.mark.parametrize(("version", "known"), [("1", KNOWN), (2, OTHERS), ("", OTHERS)], ids=repr)
def test_a_request_may_name_the_detectors_version(routed: Routed, version: str | int, known: tuple[str, ...]) -> None:
    scores = routed.ask([*KNOWN, *OTHERS], ["score"], detector_version=version)["score"][:, 0]

    expected = [text in known for text in (*KNOWN, *OTHERS)]
    assert (scores < 0.01).tolist() == expected


def test_only_vectors_need_no_scores(routed: Routed) -> None:
    before = routed.rows_seen_by(DETECTOR)

    assert sorted(routed.ask(TEXTS, ["truncated", "embeddings"])) == ["embeddings", "truncated"]

    assert routed.rows_seen_by(DETECTOR) == before


@pytest.fixture
def without_detector(routed: Routed) -> Iterator[Routed]:
    routed.client.unload_model(DETECTOR)
    yield routed
    routed.triton.load_model(DETECTOR)


def test_without_a_detector_there_are_vectors_and_for_scores_a_line_that_says_what_to_do(
    without_detector: Routed,
) -> None:
    refused = "no anomaly_detector is served: fit it with `feedback run --select anomaly_model`"

    for outputs in (["score"], ["unsure", "embeddings"], []):
        assert why(without_detector, TEXTS, outputs) == refused
    assert without_detector.ask(TEXTS, ["embeddings"])["embeddings"].shape == (len(TEXTS), 384)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"confidence_limit": "much"}, "confidence_limit is 'much': give a number"),
        ({"confidence_limit": float("nan")}, "confidence_limit is nan: give a number"),
        ({"detector_version": "newest"}, "detector_version is 'newest': give a version's number, or nothing"),
        ({"detector_version": 0}, "detector_version is 0: give a version's number, or nothing"),
        ({"detector_version": "7"}, "anomaly_detector has no version 7: name one that is served, or none"),
    ],
    ids=str,
)
def test_a_parameter_that_cannot_be_followed_is_refused(
    routed: Routed, parameters: dict[str, str | int | float], reason: str
) -> None:
    assert why(routed, TEXTS[:1], ["score"], **parameters).startswith(reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"\xff", "feedback_encoder: in ensemble 'feedback_encoder', text is not UTF-8"),
        ("fail", "second_step: out of words"),
        ("cut", "second_step gave an `answer` of object [1, 1]: it must give BYTES [n, 1]"),
    ],
    ids=["encoder", "second step", "too few answers"],
)
def test_what_an_inner_model_fails_on_is_said_in_one_line(routed: Routed, text: str | bytes, reason: str) -> None:
    said = why(routed, ["word", text], model=ASKING, confidence_limit=2)

    assert reason in said
    assert "\n" not in said
    assert (
        routed.ask(["word"], ["second_step"], model=ASKING, confidence_limit=2)["second_step"].item() == b"about word"
    )


def why(routed: Routed, texts: list[str | bytes], outputs: list[str] | None = None, **asked: str | int | float) -> str:
    """Why a request is refused."""
    with pytest.raises(InferenceServerException) as caught:
        routed.ask(texts, outputs or [], **asked)
    return str(caught.value.message())
