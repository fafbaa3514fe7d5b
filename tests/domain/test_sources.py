import pytest
from pydantic import ValidationError

from platform_assets.domain.errors import FeedbackError
from platform_assets.domain.sources import Columns, Source, Sources, check_source_name

TEXT_ONLY = {"columns": {"text": "body"}}


def test_the_first_source_whose_pattern_fits_takes_a_file() -> None:
    sources = Sources.model_validate(
        {
            "sources": {
                "reviews": {**TEXT_ONLY, "files": ["reviews_[0-9]*.csv", "*.tsv"]},
                "rest": {**TEXT_ONLY, "files": ["*.csv"]},
                "pushed": TEXT_ONLY,
            }
        }
    )
    names = ("reviews_1.csv", "x.tsv", "other.csv", "REVIEWS_1.CSV", "a.json")
    assert [sources.of_file(name) for name in names] == ["reviews", "reviews", "rest", None, None]
    assert sources.named("pushed").files == []


def test_an_unknown_source_is_named_with_the_known_ones() -> None:
    with pytest.raises(FeedbackError, match=r"unknown source 'x' \(known: a\): add it to config/sources.yaml"):
        Sources.model_validate({"sources": {"a": TEXT_ONLY}}).named("x")


def test_mapped_holds_only_what_the_source_has() -> None:
    assert Columns(text="body", rating="stars").mapped() == {"text": "body", "rating": "stars"}


@pytest.mark.parametrize(
    ("contract", "says"),
    [
        ({"encoding": "utf-9"}, "unknown encoding 'utf-9'"),
        ({"encoding": "rot13"}, "unknown encoding 'rot13'"),
        ({"encoding": "base64"}, "unknown encoding 'base64'"),
        ({"time_zone": "Berlin"}, "unknown time zone 'Berlin'"),
        ({"time_zone": "../../etc/passwd"}, "unknown time zone"),
        ({"time_zone": "localtime"}, "unknown time zone"),
        ({"time_zone": ""}, "unknown time zone"),
        *(
            ({"time_format": form}, "does not tell a day; write it like")
            for form in ("", "nonsense", "%Q", "%H:%M", "%Y-%m", "%A")
        ),
        ({"rating_range": (5, 5)}, "the lowest rating must be below the highest"),
        ({"delimiter": ";;"}, "at most 1 character"),
        ({"delimiter": ""}, "at least 1 character"),
        ({"delimiter": "\n"}, "cannot separate fields"),
        ({"decimal_mark": ";"}, "Input should be"),
        ({"colums": {}}, "Extra inputs are not permitted"),
    ],
)
def test_a_bad_contract_is_refused(contract: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Source.model_validate({**TEXT_ONLY, **contract})


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16", "gb18030", "shift_jis", "utf-32"])
def test_text_encodings_are_taken(encoding: str) -> None:
    assert Source.model_validate({**TEXT_ONLY, "encoding": encoding}).encoding == encoding


@pytest.mark.parametrize(
    ("form", "absolute"),
    [
        ("%d/%m/%Y %H:%M", False),
        ("%Y-%m-%d", False),
        ("%m/%d/%y", False),
        ("%Y-%m-%d 100%%s", False),
        ("%Y-%m-%d %H:%M%z", True),
        ("%Y-%m-%d %H:%M%:z", True),
        ("%Y-%m-%d %H:%M%#z", True),
        ("%+", True),
        ("%s", True),
        ("%Y-%m-%d %H:%M%%%z", True),
    ],
)
def test_time_formats_that_tell_a_day_are_taken_and_known_to_be_absolute(form: str, absolute: bool) -> None:
    assert Source.model_validate({**TEXT_ONLY, "time_format": form}).time_format_is_absolute is absolute


def test_a_source_needs_a_text_column() -> None:
    with pytest.raises(ValidationError, match="text"):
        Source.model_validate({"columns": {"rating": "stars"}})


@pytest.mark.parametrize("name", ["", "Shop", "1shop", "shop-reviews", "shop/..", "_shop", "a" * 64, "shöp", "a\n"])
def test_bad_source_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="use lower-case letters"):
        check_source_name(name)
    with pytest.raises(ValidationError, match="use lower-case letters"):
        Sources.model_validate({"sources": {name: TEXT_ONLY}})


@pytest.mark.parametrize("name", ["a", "shop_reviews", "s3", "a" * 63])
def test_plain_source_names_are_taken(name: str) -> None:
    assert check_source_name(name) == name


@pytest.mark.parametrize("column", ["", "#line_no", "#extra", "#file_uri"])
def test_columns_of_the_platform_cannot_be_mapped(column: str) -> None:
    with pytest.raises(ValidationError, match="is no column's name"):
        Source.model_validate({"columns": {"text": column}})
