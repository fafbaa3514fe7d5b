"""What names of columns tell, in several languages and spellings."""

import pytest

from platform_assets.domain.column_names import VOCABULARY, weight


@pytest.mark.parametrize(
    ("column", "field_name"),
    [
        ("Review Text (full)", "text"),
        ("Kommentar", "text"),
        ("Kundenkommentar", "text"),
        ("Rückmeldung", "text"),
        ("commentaire", "text"),
        ("Reseña", "text"),
        ("ticket.message.text", "text"),
        ("Order Nr.", "source_record_id"),
        ("reviewId", "source_record_id"),
        ("ticket.id", "source_record_id"),
        ("Bestellnummer", "source_record_id"),
        ("Erstelldatum", "created_at"),
        ("fecha", "created_at"),
        ("Date/Time", "created_at"),
        ("created_at", "created_at"),
        ("Stars (1-5)", "rating"),
        ("Étoiles", "rating"),
        ("puntuación", "rating"),
        ("Customer #", "author_id"),
        ("requester.id", "author_id"),
        ("Kundennummer", "author_id"),
        ("requester.locale", "language"),
        ("Sprache", "language"),
        ("Kanal", "channel"),
    ],
)
def test_a_name_speaks_most_for_its_field(column: str, field_name: str) -> None:
    weights = {each: weight(each, column) for each in VOCABULARY}
    assert weights[field_name] > 0
    assert max(weights, key=lambda each: weights[each]) == field_name


@pytest.mark.parametrize(
    ("column", "field_name"),
    [
        ("updated_at", "created_at"),
        ("Geburtsdatum", "created_at"),
        ("product_id", "source_record_id"),
        ("customer_country", "author_id"),
        ("helpful_votes", "rating"),
    ],
)
def test_words_may_speak_against_a_field(column: str, field_name: str) -> None:
    assert weight(field_name, column) <= 0


def test_the_last_part_of_a_path_counts_most() -> None:
    assert weight("text", "message.text") > weight("text", "message.raw")


def test_a_strange_name_tells_nothing() -> None:
    assert [weight(each, "xyz") for each in VOCABULARY] == [0] * len(VOCABULARY)
