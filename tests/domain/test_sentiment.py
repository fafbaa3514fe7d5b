import pytest

from platform_assets.domain.sentiment import feeling_of

FIVE = (1.0, 5.0)
GOOD = "This is a great product and I love it."
BAD = "This is a terrible product and I hate it."
PLAIN = "The box is on the table."


@pytest.mark.parametrize(
    ("text", "rating", "sentiment"),
    [
        (GOOD, None, "positive"),
        (BAD, None, "negative"),
        (PLAIN, None, "neutral"),
        ("I love the design but I hate the terrible battery, great idea, awful result.", None, "mixed"),
        (PLAIN, 5.0, "positive"),
        (PLAIN, 1.0, "negative"),
        (PLAIN, 3.0, "neutral"),
        (GOOD, 3.0, "positive"),
        (GOOD, 1.0, "negative"),
        (BAD, 5.0, "positive"),
    ],
)
def test_words_and_stars(text: str, rating: float | None, sentiment: str) -> None:
    feeling = feeling_of(text, "en", rating, FIVE)
    assert feeling is not None
    assert feeling.sentiment == sentiment
    assert -1 <= feeling.score <= 1
    assert 0 <= feeling.confidence <= 1


def confidence(text: str, rating: float | None) -> float:
    feeling = feeling_of(text, "en", rating, FIVE)
    assert feeling is not None
    return feeling.confidence


def test_words_against_the_stars_halve_the_confidence() -> None:
    assert confidence(GOOD, 5.0) == 1.0
    assert confidence(BAD, 5.0) == 0.5
    assert confidence(PLAIN, 5.0) == 1.0
    assert confidence(PLAIN, 4.0) == 0.75


@pytest.mark.parametrize(("text", "rating", "side"), [(BAD, 5.0, 1), (BAD, 4.0, 1), (GOOD, 1.0, -1), (GOOD, 2.0, -1)])
def test_words_against_the_stars_leave_the_score_on_their_side(text: str, rating: float, side: int) -> None:
    feeling, alone = feeling_of(text, "en", rating, FIVE), feeling_of(PLAIN, "en", rating, FIVE)
    assert feeling is not None
    assert alone is not None
    assert feeling.sentiment == alone.sentiment == ("positive" if side > 0 else "negative")
    assert 0 < side * feeling.score <= side * alone.score


@pytest.mark.parametrize(("rating", "nearest"), [(9.0, 5.0), (0.0, 1.0)])
@pytest.mark.parametrize("language", ["en", "de"])
def test_a_rating_outside_its_range_counts_as_the_end_of_it(rating: float, nearest: float, language: str) -> None:
    assert feeling_of(PLAIN, language, rating, FIVE) == feeling_of(PLAIN, language, nearest, FIVE)


def test_without_anything_to_feel_the_confidence_is_nothing() -> None:
    assert confidence(PLAIN, None) == 0.0


@pytest.mark.parametrize(
    ("rating", "rating_range", "sentiment", "score"),
    [(1.0, FIVE, "negative", -1.0), (5.0, FIVE, "positive", 1.0), (0.0, (0.0, 10.0), "negative", -1.0),
     (5.0, (0.0, 10.0), "neutral", 0.0)],
)  # fmt: skip
def test_a_language_without_a_lexicon_has_stars_alone_as_a_guess(
    rating: float, rating_range: tuple[float, float], sentiment: str, score: float
) -> None:
    feeling = feeling_of("Sehr schlecht", "de", rating, rating_range)
    assert feeling is not None
    assert (feeling.sentiment, feeling.score, feeling.confidence) == (sentiment, score, 0.0)


def test_a_language_without_a_lexicon_and_no_stars_has_no_feeling() -> None:
    assert feeling_of(BAD, "und", None, FIVE) is None
