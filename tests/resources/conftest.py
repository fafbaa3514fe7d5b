"""Tiny models for Triton's Python backend, and a server that serves them."""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from resources.embedded_triton import EmbeddedTriton
from resources.triton import TritonResource

Tensors = Mapping[str, tuple[str, list[int]]]
WriteModel = Callable[..., None]

_HEAD = """
import os
import sys
import time

import numpy as np
import triton_python_backend_utils as pb


def given(request, name):
    return pb.get_input_tensor_by_name(request, name).as_numpy()


def answer(**tensors):
    return pb.InferenceResponse([pb.Tensor(name, value) for name, value in tensors.items()])


class TritonPythonModel:
"""


def tensors(kind: str, tensors: Tensors) -> str:
    declared = [
        f'  {{ name: "{name}" data_type: TYPE_{datatype} dims: [ {", ".join(map(str, dims))} ] }}'
        for name, (datatype, dims) in tensors.items()
    ]
    return f"{kind} [\n" + ",\n".join(declared) + "\n]\n"


def write_model(
    repository: Path,
    name: str,
    code: str,
    *,
    inputs: Tensors,
    outputs: Tensors,
    max_batch_size: int = 8,
    version: str = "1",
) -> None:
    """Writes a model whose methods are `code`."""
    folder = repository / name / version
    folder.mkdir(parents=True, exist_ok=True)
    config = f'name: "{name}"\nbackend: "python"\nmax_batch_size: {max_batch_size}\n'
    (repository / name / "config.pbtxt").write_text(config + tensors("input", inputs) + tensors("output", outputs))
    (folder / "model.py").write_text(_HEAD + textwrap.indent(textwrap.dedent(code), "    "))


def write_echo(repository: Path, name: str = "echo") -> None:
    """Writes a model that gives back the strings it takes."""
    write_model(
        repository,
        name,
        """
        def execute(self, requests):
            return [answer(text=given(request, "text")) for request in requests]
        """,
        inputs={"text": ("STRING", [1])},
        outputs={"text": ("STRING", [1])},
    )


def write_rows(repository: Path, name: str, expression: str) -> None:
    """Writes a model from an INT32 `x` of one column to an FP32 `y` of four, by an expression on x."""
    write_model(
        repository,
        name,
        f"""
        def execute(self, requests):
            return [answer(y=self.y(given(request, "x"))) for request in requests]

        def y(self, x):
            return {expression}
        """,
        inputs={"x": ("INT32", [1])},
        outputs={"y": ("FP32", [4])},
    )


@pytest.fixture(scope="session")
def toy_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = tmp_path_factory.mktemp("toy") / "model_repository"
    write_echo(repository)
    write_rows(repository, "repeat", "np.repeat(x, 4, axis=1).astype(np.float32)")
    write_rows(repository, "narrow", "np.zeros((len(x), 3), np.float32)")
    write_rows(repository, "fewer_rows", "np.zeros((max(len(x) - 1, 1), 4), np.float32)")
    write_rows(repository, "other_type", "np.zeros((len(x), 4), np.float64)")
    write_rows(repository, "refusing", "1 / 0")
    write_model(
        repository,
        "slow",
        """
        def execute(self, requests):
            return [self.answer(request) for request in requests]

        def answer(self, request):
            if request.is_cancelled():
                return pb.InferenceResponse(error=pb.TritonError("cancelled", pb.TritonError.CANCELLED))
            self.answered = getattr(self, "answered", 0) + 1
            x = given(request, "x")
            time.sleep(float(x[0, 0]))
            return answer(y=np.full((len(x), 4), self.answered, np.float32))
        """,
        inputs={"x": ("INT32", [1])},
        outputs={"y": ("FP32", [4])},
    )
    write_model(
        repository,
        "ragged",
        """
        def execute(self, requests):
            taken = [given(request, "x") for request in requests]
            return [answer(y=np.zeros((len(x), x.max()), np.int32)) for x in taken]
        """,
        inputs={"x": ("INT32", [1])},
        outputs={"y": ("INT32", [-1])},
    )
    write_model(
        repository,
        "surroundings",
        """
        def execute(self, requests):
            seen = [f"{name}={value}" for name, value in os.environ.items()] + sys.path
            return [answer(seen=np.array([one.encode() for one in seen], dtype=object)) for _ in requests]
        """,
        inputs={"x": ("INT32", [1])},
        outputs={"seen": ("STRING", [-1])},
        max_batch_size=0,
    )
    return repository


@pytest.fixture(scope="session")
def toy_triton(
    toy_repository: Path, triton_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TritonResource]:
    """The tiny models on a server of this test session."""
    state = tmp_path_factory.mktemp("toy_state")
    with EmbeddedTriton(repository=toy_repository, environment=triton_environment, state=state) as server:
        yield TritonResource(url=server.url)
