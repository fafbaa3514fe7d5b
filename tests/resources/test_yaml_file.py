import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from resources.errors import ConfigurationError
from resources.yaml_file import load_yaml


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    size: float = Field(1, ge=0)

    @field_validator("name")
    @classmethod
    def _lower(cls, value: str) -> str:
        if value != value.lower():
            raise ValueError("use lower-case letters")
        return value


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: str = "none"
    items: list[Item] = []
    by_name: dict[str, Item] = {}


def test_a_valid_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("title: ünï\nitems:\n  - name: x\n    size: 2\n", encoding="utf-8")
    assert load_yaml(path, Document) == Document(title="ünï", items=[Item(name="x", size=2)])


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_takes_every_default(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    assert load_yaml(path, Document) == Document()


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("title: a\ntitel: b\n", 2, "titel: unknown key; remove it or correct its spelling"),
        ("title: a\nitems:\n  - name: x\n\n  - name: y\n    colour: red\n", 6, "items.1.colour: unknown key"),
        ("items:\n  - name: x\n    size: -1\n", 3, "items.0.size: Input should be greater than or equal to 0"),
        ("items:\n  - name: x\n  - size: 3\n", 3, "items.1.name: is missing; add it"),
        ("items:\n  - name: X\n", 2, "items.0.name: use lower-case letters"),
        ("by_name:\n  a:\n    name: x\n  b:\n    name: y\n    size: many\n", 6, "by_name.b.size: Input should be"),
        ("# a comment\n\ntitle: [1]\n", 3, "title: Input should be a valid string"),
        ("a: 1\nb: 2\n", 1, "a: unknown key; remove it or correct its spelling (and 1 more)"),
        ("- 1\n", 1, "the file: Input should be a valid dictionary"),
        ("just words\n", 1, "the file: Input should be a valid dictionary"),
        ("title: a\nitems: []\ntitle: b\n", 3, "title: stands twice; keep one of them"),
        ("items:\n  - name: x\n    size: 1\n    name: y\n", 4, "name: stands twice"),
        ("by_name:\n  a: {name: x}\n  a: {name: y}\n", 3, "a: stands twice"),
        ("title: a\nitems: [\n", 3, "not valid YAML: "),
        ("title: a\n\titems: 1\n", 2, "not valid YAML: "),
        ("title: 'a\n", 2, "not valid YAML: "),
        ("title: a\nby_name: *nobody\n", 2, "not valid YAML: found undefined alias"),
        ("title: !!python/object:os.system x\n", 1, "not valid YAML: "),
        ("title: a\n? [1, 2]\n: b\n", 2, "not valid YAML: "),
        ("title: a\nitems: \x07\n", 2, "not valid YAML: "),
        ("title: 2026-13-45\n", 1, "not valid YAML: "),
    ],
)
def test_every_refusal_is_one_line_that_names_file_and_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_yaml(path, Document)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: {says}")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "is missing: restore it"),
        (lambda path: path.mkdir(), "cannot be read"),
        (lambda path: path.write_bytes(b"title: \xe9\n"), "make it a readable UTF-8 file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, make, says: str) -> None:
    path = tmp_path / "a.yaml"
    make(path)
    with pytest.raises(ConfigurationError, match=re.escape(str(path)) + f".*{says}"):
        load_yaml(path, Document)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.sampled_from("ab: -\n[]{}&*!?'\"|>#%@,\t01\x00é"), max_size=40)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
)
def test_no_text_does_worse_than_being_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(text.encode())
    try:
        load_yaml(path, Document)
    except ConfigurationError as error:
        assert str(error).startswith(f"{path}:")
