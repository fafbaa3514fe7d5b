"""Texts to vectors through a tokenizer and an embedder on Triton, in the order in which a CPU is fastest.

How texts are sorted, cut into batches and put back belongs here. Whether a vector is any good does not, nor
what a text is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from resources.triton_contract import ModelMetadata, cut_rows
from resources.triton_errors import ModelContractError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from resources.triton import TritonResource
    from resources.triton_contract import Tensor

_WINDOW = 8192


@dataclass(frozen=True)
class EncodedTexts:
    """Vectors of texts, in the order of the texts.

    Attributes:
        embeddings: float32 of shape (texts, dims).
        token_count: int32 of shape (texts,): tokens of the whole text, those cut off included.
        truncated: bool of shape (texts,): whether the text was longer than the encoder takes.
        model_name: The embedder.
        model_version: The one version of it that made all of them.
    """

    embeddings: NDArray[np.float32]
    token_count: NDArray[np.int32]
    truncated: NDArray[np.bool_]
    model_name: str
    model_version: str


class TextEncoder:
    """Encodes any number of texts; a text's vector does not depend on the others.

    Args:
        triton: The server of both models.
        tokenizer: A model from `text` to `input_ids`, `attention_mask`, `token_count` and `truncated`.
        embedder: A model from `input_ids` and `attention_mask` to `embeddings`.
        token_budget: Rows times the longest row's tokens that one request to the embedder may hold; a row
            longer than that is sent alone.
        ensemble: A model that chains the two, from `text` to `embeddings`, `token_count` and `truncated`.
    """

    def __init__(
        self,
        triton: TritonResource,
        *,
        tokenizer: str = "tokenizer",
        embedder: str = "text_embedder",
        token_budget: int = 512,
        ensemble: str = "feedback_encoder",
    ) -> None:
        self._triton = triton
        self._tokenizer = tokenizer
        self._embedder = embedder
        self._token_budget = token_budget
        self._ensemble = ensemble

    def encode(self, texts: Sequence[str]) -> EncodedTexts:
        """Encodes texts with one version of each model, taken at the start.

        A lone surrogate, which has no UTF-8, is encoded as a question mark.

        Raises:
            ResourceError: As `TritonResource.infer_many` raises it.
        """
        import numpy as np

        tokenizer = self._triton.metadata(self._tokenizer)
        embedder = self._triton.metadata(self._embedder)
        dims = _dims(embedder)
        encoded = EncodedTexts(
            embeddings=np.empty((len(texts), dims), dtype=np.float32),
            token_count=np.empty(len(texts), dtype=np.int32),
            truncated=np.empty(len(texts), dtype=np.bool_),
            model_name=embedder.name,
            model_version=embedder.version,
        )
        for start in range(0, len(texts), _WINDOW):
            window = slice(start, min(start + _WINDOW, len(texts)))
            token_ids = self._tokenize(tokenizer, texts[window], encoded, start)
            self._embed(embedder, token_ids, encoded.embeddings[window])
        return encoded

    def encode_in_one_trip(self, texts: Sequence[str]) -> EncodedTexts:
        """Encodes as `encode` does, through the ensemble: each text travels once, and none is cut by length.

        Meant for a few texts; many of unequal length are faster with `encode`.

        Raises:
            ResourceError: As `TritonResource.infer` raises it.
        """
        import numpy as np

        embedder = self._triton.metadata(self._embedder)
        answer = self._triton.infer(self._ensemble, {"text": _as_bytes(texts)})
        return EncodedTexts(
            embeddings=answer["embeddings"].astype(np.float32, copy=False),
            token_count=answer["token_count"].reshape(-1).astype(np.int32, copy=False),
            truncated=answer["truncated"].reshape(-1).astype(np.bool_, copy=False),
            model_name=embedder.name,
            model_version=embedder.version,
        )

    def _tokenize(
        self, model: ModelMetadata, texts: Sequence[str], encoded: EncodedTexts, start: int
    ) -> list[NDArray[np.int32]]:
        """The token ids of each text, without padding; counts and flags go into `encoded`."""
        import numpy as np

        text = _as_bytes(texts)
        # Cut here, because the answers to two requests differ in their padding.
        cuts = cut_rows({"text": text}, max_rows=max(model.max_batch_size, 1), max_bytes=self._triton.max_request_bytes)
        answers = self._triton.infer_many(model.name, ({"text": text[cut]} for cut in cuts), version=model.version)
        token_ids: list[NDArray[np.int32]] = []
        for cut, answer in zip(cuts, answers, strict=True):
            ids, mask = answer["input_ids"], answer["attention_mask"]
            lengths = np.count_nonzero(mask, axis=1)
            token_ids += [row[:length].astype(np.int32) for row, length in zip(ids, lengths, strict=True)]
            rows = slice(start + cut.start, start + cut.stop)
            encoded.token_count[rows] = answer["token_count"].reshape(-1)
            encoded.truncated[rows] = answer["truncated"].reshape(-1)
        return token_ids

    def _embed(
        self, model: ModelMetadata, token_ids: Sequence[NDArray[np.int32]], embeddings: NDArray[np.float32]
    ) -> None:
        batches = self._batches(model, token_ids)
        requests = (_padded([token_ids[index] for index in batch]) for batch in batches)
        answers = self._triton.infer_many(model.name, requests, version=model.version)
        for batch, answer in zip(batches, answers, strict=True):
            embeddings[batch] = answer["embeddings"]

    def _batches(self, model: ModelMetadata, token_ids: Sequence[NDArray[np.int32]]) -> list[list[int]]:
        """Indexes of texts of like length, in batches that keep to the token budget, the longest first."""
        order = sorted(range(len(token_ids)), key=lambda index: len(token_ids[index]), reverse=True)
        batches: list[list[int]] = []
        limit = 0
        for index in order:
            if not batches or len(batches[-1]) >= limit:
                batches.append([])
                longest = max(len(token_ids[index]), 1)
                limit = max(min(self._token_budget // longest, model.max_batch_size), 1)
            batches[-1].append(index)
        return batches


def _padded(rows: Sequence[NDArray[np.int32]]) -> Mapping[str, Tensor]:
    import numpy as np

    columns = max(1, *(len(row) for row in rows))
    input_ids = np.zeros((len(rows), columns), dtype=np.int32)
    attention_mask = np.zeros((len(rows), columns), dtype=np.int32)
    for index, row in enumerate(rows):
        input_ids[index, : len(row)] = row
        attention_mask[index, : len(row)] = 1
    return {"input_ids": input_ids, "attention_mask": attention_mask}


def _as_bytes(texts: Sequence[str]) -> Tensor:
    """Texts as a BYTES tensor of shape (texts, 1)."""
    import numpy as np

    text = np.empty((len(texts), 1), dtype=np.object_)
    text[:, 0] = [one.encode(errors="replace") for one in texts]
    return text


def _dims(embedder: ModelMetadata) -> int:
    spec = embedder.outputs.get("embeddings")
    if spec is None or len(spec.shape) != 2 or spec.shape[1] < 1:  # noqa: PLR2004
        raise ModelContractError(
            f"model {embedder.name!r} declares no tensor 'embeddings' of a fixed number of dimensions: "
            "name a text embedder"
        )
    return spec.shape[1]
