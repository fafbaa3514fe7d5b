"""Tiny models that fail on some texts, on a server of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.embedded_triton import EmbeddedTriton
from resources.triton import TritonResource
from tests.resources.conftest import tensors, write_model


@pytest.fixture(scope="session")
def picky_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of one token a letter, an embedder that trips over some letters, and the ensemble of both."""
    repository = tmp_path_factory.mktemp("picky") / "model_repository"
    write_model(
        repository,
        "tokenizer",
        """
        def execute(self, requests):
            return [self.answer([one.decode() for one in given(request, "text")[:, 0]]) for request in requests]

        def answer(self, texts):
            if any("~" in text for text in texts):
                return pb.InferenceResponse(error=pb.TritonError("no token for ~"))
            ids = np.zeros((len(texts), max(1, *map(len, texts))), np.int32)
            for row, text in enumerate(texts):
                ids[row, : len(text)] = [ord(letter) for letter in text]
            counts = np.array([[len(text)] for text in texts], np.int32)
            return answer(
                input_ids=ids, attention_mask=(ids > 0).astype(np.int32), token_count=counts, truncated=counts > 99
            )
        """,
        inputs={"text": ("STRING", [1])},
        outputs={
            "input_ids": ("INT32", [-1]),
            "attention_mask": ("INT32", [-1]),
            "token_count": ("INT32", [1]),
            "truncated": ("BOOL", [1]),
        },
    )
    for version in ("1", "2"):
        write_model(
            repository,
            "text_embedder",
            f"""
            def execute(self, requests):
                return [self.answer(given(request, "input_ids")) for request in requests]

            def answer(self, ids):
                if (ids == ord("!")).any():
                    return pb.InferenceResponse(error=pb.TritonError("a ! is too much"))
                sums = ids.sum(axis=1).astype(np.float32)
                vectors = np.stack([sums, np.full_like(sums, {version})], axis=1)
                if (ids == ord("#")).any():
                    vectors = vectors[:, :1]
                return answer(embeddings=vectors)
            """,
            inputs={"input_ids": ("INT32", [-1]), "attention_mask": ("INT32", [-1])},
            outputs={"embeddings": ("FP32", [2])},
            version=version,
        )
    embedder = repository / "text_embedder/config.pbtxt"
    embedder.write_text(embedder.read_text() + "version_policy { all { } }\n")
    write_ensemble(repository, embedder_version=-1)
    return repository


def write_ensemble(repository: Path, *, embedder_version: int) -> None:
    """Writes `feedback_encoder` over the picky tokenizer and a version of the picky embedder."""
    folder = repository / "feedback_encoder"
    (folder / "1").mkdir(parents=True, exist_ok=True)
    passed_on = ["input_ids", "attention_mask"]

    def maps(kind: str, names: list[str]) -> str:
        return " ".join(f'{kind} {{ key: "{name}", value: "{name}" }}' for name in names)

    outputs = {"embeddings": ("FP32", [2]), "token_count": ("INT32", [1]), "truncated": ("BOOL", [1])}
    config = 'name: "feedback_encoder"\nplatform: "ensemble"\nmax_batch_size: 8\n'
    config += tensors("input", {"text": ("STRING", [1])}) + tensors("output", outputs)
    config += f"""ensemble_scheduling {{ step [
      {{ model_name: "tokenizer" model_version: -1
         {maps("input_map", ["text"])} {maps("output_map", [*passed_on, "token_count", "truncated"])} }},
      {{ model_name: "text_embedder" model_version: {embedder_version}
         {maps("input_map", passed_on)} {maps("output_map", ["embeddings"])} }}
    ] }}
    """
    (folder / "config.pbtxt").write_text(config)


@pytest.fixture(scope="session")
def picky_triton(
    picky_repository: Path, triton_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TritonResource]:
    """The picky models on a server of their own."""
    state = tmp_path_factory.mktemp("picky_state")
    with EmbeddedTriton(
        repository=picky_repository, environment=triton_environment, state=state, idle_stop_s=0
    ) as server:
        # As of a server elsewhere: its repository is not at hand.
        yield TritonResource(url=server.url, repository=str(state / "not_here"))
