"""A source's entry in config/sources.yaml: its name, its pattern, its text, and adding it to the file.

What stands in an entry is `domain/sources.py`; how one is suggested, `source_suggestion.py`.
"""

import glob
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from platform_assets.domain.column_names import plain_words
from platform_assets.domain.sources import SOURCE_NAME, Source, Sources
from platform_assets.settings import Settings
from resources.errors import ConfigurationError
from resources.yaml_file import load_yaml

_CHANGING: Final = re.compile(r"[\s_.(-]*\d+(?:[-_.:T ]?\d+)*Z?\)?")
"""The part of a file's name that the next file of its source will have otherwise: a date, a number."""

_ENTRY_INDENT: Final = 2


class _HouseStyle(yaml.SafeDumper):
    """Lists in one line."""


_HouseStyle.add_representer(
    list, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True)
)


def pattern_of(file_name: str) -> str:
    """The pattern that a file's name and those of its followers fit: its dates and numbers become `*`."""
    stem, *suffixes = file_name.split(".")
    while suffixes and any(character.isdigit() for character in suffixes[0]):
        stem += f".{suffixes.pop(0)}"
    pieces = _CHANGING.split(stem)
    if not any(piece.strip(" _.-") for piece in pieces):
        return glob.escape(file_name)
    return ".".join(["*".join(glob.escape(piece) for piece in pieces), *suffixes])


def name_of(file_name: str) -> str:
    """A source's name that a file's name suggests; empty where it suggests none."""
    stem = _CHANGING.sub("_", file_name.split(".", maxsplit=1)[0])
    name = "_".join(plain_words(stem)).replace("#", "").strip("_")
    return name if SOURCE_NAME.fullmatch(name) else ""


def entry_text(name: str, source: Source, undecided: Mapping[str, str], indent: int = _ENTRY_INDENT) -> str:
    """An entry as it stands below `sources:`; what is as by default is left out, what is undecided is a comment."""
    given = source.model_dump(mode="json", exclude_defaults=True)
    order = ("files", "columns", *(key for key in given if key not in {"files", "columns"}))
    body = yaml.dump(
        {key: given[key] for key in order if key in given},
        Dumper=_HouseStyle,
        allow_unicode=True,
        sort_keys=False,
        width=1000,
    )
    lines = [f"{name}:"]
    lines += [" " * _ENTRY_INDENT + line for line in body.splitlines()]
    lines += [f"{' ' * _ENTRY_INDENT}# {key}: {question}" for key, question in undecided.items()]
    return "".join(f"{' ' * indent}{line}\n" for line in lines)


def save(settings: Settings, file_name: str, name: str, source: Source, undecided: Mapping[str, str]) -> Path:
    """Add an entry at the end of config/sources.yaml, which keeps its comments and layout.

    Returns:
        The file's path.

    Raises:
        ConfigurationError: the file has such a source already, or cannot be added to or written; it stays as it is.
    """
    path = settings.project / "config" / "sources.yaml"
    known = settings.sources
    if name in known.sources:
        raise ConfigurationError(
            f"{path} has a source {name!r} already: edit it there, or choose another name with --source"
        )
    claims = [
        known.of_file(file_name),
        *(key for key, other in known.sources.items() if {*other.files} & {*source.files}),
    ]
    if claim := next((key for key in claims if key), None):
        raise ConfigurationError(
            f"{path}: files like {file_name} are those of the source {claim!r} already: edit its entry there, or "
            "rename the file"
        )
    before = path.read_bytes().decode()
    added = entry_text(name, source, undecided, indent=_indent(before))
    after = before + ("" if before.endswith("\n") else "\n") + "\n" + added
    _replace(path, after, Sources(sources={**known.sources, name: source}))
    return path


def _indent(text: str) -> int:
    """How far the entries of the file are set in."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)  # noqa: S101  # it was read and validated before
    entries = next(value for key, value in root.value if key.value == "sources")
    return int(entries.value[0][0].start_mark.column) if entries.value else _ENTRY_INDENT


def _replace(path: Path, text: str, expected: Sources) -> None:
    """Put the text in the file's place once it has proven to say what it should."""
    target = path.resolve()
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".sources-", suffix=".yaml", delete=False) as file:
            written = Path(file.name)
            try:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), target.stat().st_mode & 0o777)
                if not _says(written, expected):
                    raise ConfigurationError(
                        f"{path} does not end with its plain list of sources: add the entry by hand, as --inspect "
                        "without --save shows it"
                    )
                written.replace(target)
            finally:
                written.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written ({error.strerror}): allow writing there") from error


def _says(path: Path, expected: Sources) -> bool:
    try:
        return load_yaml(path, Sources) == expected
    except ConfigurationError:
        return False
