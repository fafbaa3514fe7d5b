"""Reads a YAML file into a pydantic model; every refusal names the file and the line.

What the files mean belongs to the models that callers pass in.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from resources.errors import ConfigurationError

Model = TypeVar("Model", bound=BaseModel)

# The same safe loader in C where the library has it: a taxonomy is read in every run.
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(path: Path, model: type[Model]) -> Model:
    """Read and validate one file.

    Raises:
        ConfigurationError: the file is missing, is no YAML, repeats a key, or does not fit the model;
            the message begins with `file:line:`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(f"{path} is missing: restore it, or copy it from the repository") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read ({error}): make it a readable UTF-8 file") from None
    return parse_yaml(text, str(path), model)


def parse_yaml(text: str, where: str, model: type[Model]) -> Model:
    """Validate one document that was read from `where`.

    Raises:
        ConfigurationError: it is no YAML, repeats a key, or does not fit the model; the message begins with
            `where:line:`.
    """
    try:
        root = yaml.compose(text, Loader=_LOADER)
        if root is not None:
            _refuse_repeated_keys(where, root)
        content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigurationError(f"{where}:{line}: not valid YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigurationError(f"{where}:{line}: not valid YAML: {error.reason}") from None
    except (ValueError, RecursionError) as error:
        # A scalar that looks like a date and is none, or aliases that hold themselves.
        raise ConfigurationError(f"{where}:1: not valid YAML: {error}") from None
    try:
        return model.model_validate(content or {})
    except ValidationError as error:
        # A misspelt key is both unknown and missing; the unknown one stands in the file.
        first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        line = _line_of(root, first["loc"])
        raise ConfigurationError(f"{where}:{line}: {key}: {_problem(first['type'], first['msg'])}{more}") from None


def _problem(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "unknown key; remove it or correct its spelling"
    if kind == "missing":
        return "is missing; add it"
    return message.removeprefix("Value error, ")


def _refuse_repeated_keys(where: str, node: yaml.Node) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                line = key.start_mark.line + 1
                raise ConfigurationError(f"{where}:{line}: {name}: stands twice; keep one of them")
            seen.add(name)
            _refuse_repeated_keys(where, value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_repeated_keys(where, item)


def _line_of(node: yaml.Node | None, location: Sequence[str | int]) -> int:
    """The 1-based line of the deepest part of `location` that the document holds."""
    line = 1
    for part in location:
        step: tuple[int, yaml.Node] | None = None
        if isinstance(node, yaml.MappingNode):
            step = next(((key.start_mark.line, value) for key, value in node.value if key.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            step = (node.value[part].start_mark.line, node.value[part])
        if step is None:
            break
        line, node = step[0] + 1, step[1]
    return line
