"""Which columns and properties are proposed for a sample, and what is left to a person."""

from collections.abc import Sequence

import polars as pl
import pytest

from platform_assets.domain.suggested_source import Suggestion, suggest


def suggested(columns: dict[str, Sequence[str | None]], given: dict[str, str] | None = None) -> Suggestion:
    return suggest(pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String())), given)


def mapping(found: Suggestion) -> dict[str, str]:
    return {field_name: str(one.value) for field_name, one in found.columns.items()}


LONG = [f"What customer {number} wrote about the delivery and the lamp" for number in range(40)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {
                "Kommentar": ["Gut, danke", "Kaputt"],
                "Bewertung": ["4,5", "1,0"],
                "Datum": ["31.08.2026", "01.09.2026"],
                "Bestellnummer": ["A1", "A2"],
                "Kundennummer": ["7", "7"],
                "Sprache": ["de", "de"],
                "Kanal": ["Web", "Laden"],
            },
            {
                "text": "Kommentar",
                "rating": "Bewertung",
                "created_at": "Datum",
                "source_record_id": "Bestellnummer",
                "author_id": "Kundennummer",
                "language": "Sprache",
                "channel": "Kanal",
            },
        ),
        (
            {
                "avis": ["Très bon", "Nul"],
                "note": ["4", "1"],
                "date": ["31/08/2026", "01/09/2026"],
                "client": ["x", "y"],
            },
            {"text": "avis", "rating": "note", "created_at": "date", "author_id": "client"},
        ),
        (
            {"comentario": ["Todo bien", "Mal"], "puntuación": ["10", "0"], "fecha": ["2026-08-31", "2026-09-01"]},
            {"text": "comentario", "rating": "puntuación", "created_at": "fecha"},
        ),
        (
            {"Bewertung": ["Sehr gut", "Schlecht"], "Sterne": ["5", "1"]},
            {"text": "Bewertung", "rating": "Sterne"},
        ),
        (
            {"title": ["Great", "Awful"], "body": ["It works as it should", "No"], "updated_at": ["2026-08-31"] * 2},
            {"text": "body"},
        ),
    ],
)
def test_names_tell(columns: dict[str, Sequence[str]], expected: dict[str, str]) -> None:
    found = mapping(suggested(columns))
    assert {name: found.get(name) for name in expected} == expected


class TestValuesAlone:
    def test_tell_in_a_sample_of_some_size(self) -> None:
        found = suggested(
            {
                "q1": [str(number % 5 + 1) for number in range(40)],
                "q2": LONG,
                "q3": [f"r-{number}" for number in range(40)],
                "q4": ["2026-08-31T10:00:00Z"] * 40,
                "q5": ["en", "de"] * 20,
            }
        )
        assert mapping(found) == {
            "text": "q2",
            "source_record_id": "q3",
            "created_at": "q4",
            "rating": "q1",
            "language": "q5",
        }
        assert all("values alone" in one.why for one in found.columns.values())

    def test_prove_little_in_a_small_one(self) -> None:
        found = suggested({"q1": ["1", "2"], "q2": ["A", "B"], "q3": ["en", "de"]})
        assert mapping(found) == {}

    def test_of_a_counter_are_no_rating(self) -> None:
        assert "rating" not in mapping(suggested({"q": [str(number) for number in range(9)], "text": LONG[:9]}))


class TestText:
    def test_is_the_longest_where_names_tell_nothing(self) -> None:
        short = [f"A short line {number}" for number in range(40)]
        assert mapping(suggested({"a": short, "b": LONG}))["text"] == "b"

    def test_is_not_what_is_said_over_and_over(self) -> None:
        product = ["A lamp with a stand of oak and a shade of linen, made by hand"] * 40
        assert mapping(suggested({"description": product, "comment": LONG}))["text"] == "comment"

    @pytest.mark.parametrize(
        "values",
        [
            ["1", "2"],
            ["a@b.example", "c@d.example"],
            ["https://a.example/1", "https://a.example/2"],
            ["A-1", "A-2"],
            [None, ""],
        ],
    )
    def test_is_nothing_that_programs_write(self, values: Sequence[str | None]) -> None:
        found = suggested({"comment": values})
        assert "text" not in found.columns


class TestIds:
    def test_must_not_repeat(self) -> None:
        columns = {"id": ["1", "1", "1", "2"], "text": ["a b", "c d", "e f", "g h"]}
        assert "source_record_id" not in mapping(suggested(columns))

    def test_that_repeat_now_and_then_are_said_to(self) -> None:
        ids = [str(number) for number in range(39)] + ["0"]
        found = suggested({"id": ids, "text": LONG}).columns["source_record_id"]
        assert found.value == "id"
        assert "1 values stand there before" in found.why

    def test_must_be_there(self) -> None:
        assert "source_record_id" not in mapping(suggested({"id": ["1", None, None], "text": LONG[:3]}))

    def test_of_somebody_are_no_ids_of_records(self) -> None:
        found = mapping(suggested({"user_id": ["1", "2"], "text": LONG[:2]}))
        assert (found.get("author_id"), found.get("source_record_id")) == ("user_id", None)


class TestRating:
    @pytest.mark.parametrize(
        ("values", "scale"),
        [
            (["1", "5"], (1, 5)),
            (["0", "5"], (0, 5)),
            (["1", "7"], (1, 10)),
            (["0", "10"], (0, 10)),
            (["3", "87"], (0, 100)),
        ],
    )
    def test_range(self, values: Sequence[str], scale: tuple[float, float]) -> None:
        found = suggested({"rating": values, "text": LONG[:2]})
        assert found.properties["rating_range"].value == scale

    @pytest.mark.parametrize(
        ("values", "mark"), [(["4,5", "3"], ","), (["4.5", "3"], "."), (["4.5", "3,5"], ","), (["4", "3"], None)]
    )
    def test_decimal_mark(self, values: Sequence[str], mark: str | None) -> None:
        found = suggested({"rating": values, "text": LONG[:2]}).properties.get("decimal_mark")
        assert (found.value if found else None) == mark

    def test_decimal_mark_of_other_numbers(self) -> None:
        found = suggested({"Preis": ["12,50", "3,00"], "text": LONG[:2]}).properties["decimal_mark"]
        assert (found.value, found.why) == (",", "'12,50' in 'Preis'")

    def test_thousands_are_no_decimals(self) -> None:
        assert "decimal_mark" not in suggested({"views": ["1,250", "13,000"], "text": LONG[:2]}).properties

    def test_that_is_no_number_is_none(self) -> None:
        assert "rating" not in mapping(suggested({"rating": ["5/5", "1/5"], "text": LONG[:2]}))


class TestTimes:
    def test_without_an_offset_need_a_zone_from_a_person(self) -> None:
        found = suggested({"date": ["31.08.2026 10:00"], "text": LONG[:1]})
        assert found.properties["time_format"].value == "%d.%m.%Y %H:%M"
        assert list(found.undecided) == ["time_zone"]

    def test_with_one_do_not(self) -> None:
        found = suggested({"date": ["2026-08-31T10:00:00Z"], "text": LONG[:1]})
        assert (dict(found.properties), dict(found.undecided)) == ({}, {})

    def test_that_fit_both_orders_are_left_open(self) -> None:
        found = suggested({"date": ["03/04/2026"], "text": LONG[:1]})
        assert "time_format" not in found.properties
        assert "%d/%m/%Y or %m/%d/%Y" in found.undecided["time_format"]

    def test_in_numbers(self) -> None:
        found = suggested({"timestamp": ["1711848600"], "text": LONG[:1]})
        assert found.properties["epoch_unit"].value == "s"
        assert not found.undecided

    def test_of_the_creation_go_before_others(self) -> None:
        times = {name: ["2026-08-31T10:00:00Z"] for name in ("closed_at", "date", "created_at")}
        assert mapping(suggested({**times, "text": LONG[:1]}))["created_at"] == "created_at"


class TestGiven:
    def test_columns_are_taken(self) -> None:
        found = suggested({"comment": LONG, "other": LONG}, given={"text": "other"})
        assert (found.columns["text"].value, found.columns["text"].why) == ("other", "given")

    def test_a_column_is_not_proposed_for_another_field(self) -> None:
        found = suggested({"id": ["1", "2"], "text": LONG[:2]}, given={"author_id": "id"})
        assert mapping(found) == {"author_id": "id", "text": "text"}

    def test_times_of_a_given_column_are_looked_at(self) -> None:
        found = suggested({"text": LONG[:1], "updated_at": ["31.08.2026"]}, given={"created_at": "updated_at"})
        assert found.properties["time_format"].value == "%d.%m.%Y"


def test_every_choice_has_a_reason() -> None:
    found = suggested({"comment": LONG, "stars": ["5"] * 40, "date": ["2026-08-31"] * 40})
    assert all(one.why for one in [*found.columns.values(), *found.properties.values()])
    assert "longest" not in found.columns["text"].why
    assert "its name" in found.columns["text"].why


@pytest.mark.parametrize("columns", [{}, {"a": []}, {"a": [None, " "]}])
def test_nothing_comes_of_nothing(columns: dict[str, Sequence[str | None]]) -> None:
    found = suggested(columns)
    assert (found.columns, found.properties, found.undecided) == ({}, {}, {})
