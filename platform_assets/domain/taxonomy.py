"""The categories that feedback is sorted into: the typed form of `config/taxonomy.yaml`."""

from pydantic import Field, field_validator

from platform_assets.domain.strict_model import StrictModel


class Category(StrictModel):
    """One category; its examples are what the local tier compares records with."""

    key: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    name: str = Field(min_length=1)
    description: str = Field(min_length=1)
    examples: list[str] = Field(min_length=1)


class Taxonomy(StrictModel):
    """All categories; `version` changes whenever records should be sorted anew."""

    version: int = Field(ge=1)
    categories: list[Category] = Field(min_length=2)

    @field_validator("categories")
    @classmethod
    def _distinct(cls, value: list[Category]) -> list[Category]:
        keys = [category.key for category in value]
        if repeated := sorted({key for key in keys if keys.count(key) > 1}):
            raise ValueError(f"the key {repeated[0]!r} stands twice")
        return value
