from typing import Any

import pytest
from pydantic import ValidationError

from platform_assets.domain.taxonomy import Taxonomy


def category(key: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "name": key, "description": "what it is", "examples": ["an example"], **fields}


@pytest.mark.parametrize(
    ("categories", "says"),
    [
        ([category("a"), category("b"), category("a")], "the key 'a' stands twice"),
        ([category("a")], "at least 2 items"),
        ([category("a"), category("B")], "pattern"),
        ([category("a"), category("b", examples=[])], "at least 1 item"),
    ],
)
def test_bad_categories_are_refused(categories: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Taxonomy.model_validate({"version": 1, "categories": categories})


def test_categories_keep_their_order() -> None:
    taxonomy = Taxonomy.model_validate({"version": 1, "categories": [category("b"), category("a")]})
    assert [one.key for one in taxonomy.categories] == ["b", "a"]
