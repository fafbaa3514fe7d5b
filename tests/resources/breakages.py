"""Ways to break the small repository: what a breakage is, and the steps it is made of."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx

from resources.model_repository import CARD_NAME, ModelCard, ModelRepository, sha256
from tests.resources.small_repository import MOMENT, graph

EMBED_CONFIG, GPU_CONFIG, WHOLE_CONFIG = "embed/config.pbtxt", "embed/configs/gpu.pbtxt", "whole/config.pbtxt"

Break = Callable[[Path], object]


def edit(name: str, old: str, new: str) -> Break:
    def change(root: Path) -> None:
        path = root / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return change


def add(name: str, text: str) -> Break:
    def change(root: Path) -> None:
        with (root / name).open("a") as file:
            file.write(text)

    return change


def enlist(folder: Path) -> None:
    """Makes the card of a version fit its files, as a builder would have written it."""
    path = folder / CARD_NAME
    card = json.loads(path.read_text())
    card["files"] = {file.name: sha256(file) for file in sorted(folder.iterdir()) if file.name != CARD_NAME}
    path.write_text(json.dumps(card))


def with_file(name: str, content: bytes) -> Break:
    def change(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)

    return change


def renamed(old: str, new: str) -> Break:
    return lambda root: (root / old).rename(root / new)


def renamed_file(old: str, new: str) -> Break:
    def change(root: Path) -> None:
        (root / old).rename(root / new)
        enlist((root / new).parent)

    return change


def both(*breaks: Break) -> Break:
    def change(root: Path) -> None:
        for one in breaks:
            one(root)

    return change


def second_version(**options: str) -> Break:
    def change(root: Path) -> None:
        content = graph(**options).SerializeToString() + onnx.ModelProto(producer_name="two").SerializeToString()
        card = ModelCard(source="a test", created_at=MOMENT)
        ModelRepository(root).add_version("embed", {"model.onnx": content}, card)

    return change


@dataclass(frozen=True)
class Case:
    """A breakage, the line it must give, and the model that Triton 2.51 was then seen to refuse, if it did."""

    name: str
    break_it: Break
    line: str
    refused: str = ""
