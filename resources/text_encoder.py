"""Texts to vectors through a tokenizer and an embedder on Triton, in the order in which a server is fastest.

Keeping the server busy, one version of the models for all texts, and finding the text that a model fails on belong
here. Sorting and padding do not (`resources.token_batches`); nor does whether a vector is any good, or what a text is
about.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING, TypeAlias

from resources.errors import ResourceError, ServerUnavailableError
from resources.token_batches import TokenBatches
from resources.triton_contract import ModelMetadata, cut_rows
from resources.triton_errors import ModelContractError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from resources.triton import TritonResource
    from resources.triton_contract import Tensor

    Answer: TypeAlias = Mapping[str, Tensor] | ResourceError

_WINDOWS = (512, 2048, 8192)
"""Texts that are tokenized and sorted together; the first are few, because the embedder waits for them."""

_BYTES_PER_TOKEN = 4  # of English; only the size of a request depends on it
_NOT_TO_BLAME = 8  # texts that fail one after the other


@dataclass(frozen=True)
class PinnedEncoder:
    """The versions that all texts of an encoder go through.

    Attributes:
        tokenizer: The tokenizer's name.
        tokenizer_version: Its version.
        embedder: The embedder's name.
        embedder_version: Its version.
        file: The file of that version that is served; empty for the backend's own name.
        dims: Components of a vector.
    """

    tokenizer: str
    tokenizer_version: str
    embedder: str
    embedder_version: str
    file: str
    dims: int


@dataclass(frozen=True)
class EncodedTexts:
    """Vectors of texts, in the order of the texts.

    Attributes:
        embeddings: float32 of shape (texts, dims); NaN for a text that failed.
        token_count: int32 of shape (texts,): tokens of the whole text, those cut off included; 0 where unknown.
        truncated: bool of shape (texts,): whether the text was longer than the encoder takes.
        model_name: The embedder.
        model_version: The one version of it that made all of them.
        failures: Why a text has no vector, by its place.
    """

    embeddings: NDArray[np.float32]
    token_count: NDArray[np.int32]
    truncated: NDArray[np.bool_]
    model_name: str
    model_version: str
    failures: dict[int, str] = field(default_factory=dict)


@dataclass
class _Chunk:
    """Texts on their way: their answer, filled bit by bit, and how many of them have none yet."""

    encoded: EncodedTexts
    missing: int


@dataclass(frozen=True)
class _Window:
    """Consecutive texts of a chunk from `start` on, tokenized."""

    chunk: _Chunk
    start: int
    tokens: TokenBatches


class TextEncoder:
    """Encodes any number of texts; a text's vector does not depend on the others.

    The versions of the models are taken from the ensemble when they are first needed and kept from then on: make one
    encoder for each run. A text that the models fail on is looked for by halves and has its reason in `failures`; the
    others are not affected.

    Args:
        triton: The server of the models.
        tokenizer: A model from `text` to `input_ids`, `attention_mask`, `token_count` and `truncated`.
        embedder: A model from `input_ids` and `attention_mask` to `embeddings`.
        token_budget: Rows times the longest row's tokens that one request to the embedder may hold; a row
            longer than that is sent alone.
        ensemble: A model that chains the two, from `text` to `embeddings`, `token_count` and `truncated`. Which
            versions it chains is what the server serves.
        pad_to: Rows are padded to a multiple of so many tokens: where a server merges requests of equal shape, more
            of them meet.
        versions: The version of each of the two, by its name; those that the ensemble chains unless given. Not in one
            trip.
        one_trip: Whether texts are sent to the ensemble, each once, instead of to the tokenizer and their tokens to
            the embedder: the same numbers, fewer bytes, more padding.
    """

    def __init__(
        self,
        triton: TritonResource,
        *,
        tokenizer: str = "tokenizer",
        embedder: str = "text_embedder",
        token_budget: int = 256,
        ensemble: str = "feedback_encoder",
        pad_to: int = 1,
        versions: Mapping[str, str] | None = None,
        one_trip: bool = False,
    ) -> None:
        if one_trip and versions:
            raise ValueError("the ensemble runs the versions that it chains: name none, or take two trips")
        self._triton = triton
        self._tokenizer = tokenizer
        self._embedder = embedder
        self._token_budget = token_budget
        self._ensemble = ensemble
        self._pad_to = pad_to
        self._versions = versions
        self._one_trip = one_trip
        self._failed_in_a_row: dict[str, int] = {}

    @property
    def pinned(self) -> PinnedEncoder:
        """The versions of the models.

        Raises:
            ResourceError: As `TritonResource.metadata` raises it.
            ModelContractError: The embedder declares no vectors of a fixed length.
        """
        tokenizer, embedder = self._models
        return PinnedEncoder(
            tokenizer=tokenizer.name,
            tokenizer_version=tokenizer.version,
            embedder=embedder.name,
            embedder_version=embedder.version,
            file=embedder.file,
            dims=_dims(embedder),
        )

    def encode(self, texts: Sequence[str]) -> EncodedTexts:
        """Encodes texts; a lone surrogate, which has no UTF-8, is encoded as a question mark.

        Raises:
            ResourceError: As `TritonResource.infer_each` raises it.
        """
        found = list(self.encode_all([texts]))
        return found[0] if found else self._empty(0)

    def encode_all(self, chunks: Iterable[Sequence[str]]) -> Iterator[EncodedTexts]:
        """Encodes texts chunk by chunk, and gives the vectors of each chunk that has texts, in order.

        The server is kept busy from one chunk to the next: while some texts are embedded, the next are tokenized. Two
        chunks are in memory at a time, or more if they are small.

        Raises:
            ResourceError: As `TritonResource.infer_each` raises it.
        """
        if self._one_trip:
            yield from map(self._in_one_trip, chunks)
            return
        _, embedder = self._models
        sent: deque[tuple[_Window, slice]] = deque()

        def requests() -> Iterator[dict[str, Tensor]]:
            for window in self._windows(chunks):
                cuts = window.tokens.cuts(
                    token_budget=self._token_budget, max_rows=max(embedder.max_batch_size, 1), multiple=self._pad_to
                )
                for cut in cuts:
                    sent.append((window, cut))
                    yield window.tokens.padded(cut, self._pad_to)

        for answer in self._triton.infer_each(embedder.name, requests(), version=embedder.version):
            window, cut = sent.popleft()
            self._fill(window, cut, answer)
            if window.chunk.missing == 0:
                yield window.chunk.encoded

    @cached_property
    def _models(self) -> tuple[ModelMetadata, ModelMetadata]:
        return self._chained()

    def _chained(self) -> tuple[ModelMetadata, ModelMetadata]:
        """The tokenizer and the embedder, in the given versions or in those that the ensemble chains now."""
        steps = self._versions or self._triton.metadata(self._ensemble).steps
        tokenizer, embedder = (
            self._triton.metadata(name, steps.get(name, "") or self._triton.metadata(name).version)
            for name in (self._tokenizer, self._embedder)
        )
        return tokenizer, embedder

    def _windows(self, chunks: Iterable[Sequence[str]]) -> Iterator[_Window]:
        """The texts of all chunks, tokenized, one window ahead of the one that is asked for."""
        sizes = chain(_WINDOWS, repeat(_WINDOWS[-1]))
        with ThreadPoolExecutor(1, thread_name_prefix="tokenize") as pool:
            ahead: Future[_Window] | None = None
            for texts in chunks:
                chunk = _Chunk(self._empty(len(texts)), len(texts))
                start = 0
                while start < len(texts):
                    window = texts[start : start + next(sizes)]
                    before, ahead = ahead, pool.submit(self._tokenize, chunk, start, window)
                    start += len(window)
                    if before is not None:
                        yield before.result()
            if ahead is not None:
                yield ahead.result()

    def _tokenize(self, chunk: _Chunk, start: int, texts: Sequence[str]) -> _Window:
        import numpy as np

        model, _ = self._models
        encoded = chunk.encoded
        text = _as_bytes(texts)
        # Cut here, because the answers to two requests differ in their padding.
        cuts = cut_rows({"text": text}, max_rows=max(model.max_batch_size, 1), max_bytes=self._triton.max_request_bytes)
        answered: list[Mapping[str, Tensor]] = []
        requests = ({"text": text[cut]} for cut in cuts)
        for cut, answer in zip(cuts, self._triton.infer_each(model.name, requests, version=model.version), strict=True):
            for rows, part in self._sound_parts(model, {"text": text[cut]}, answer):
                places = np.arange(start + cut.start, start + cut.stop)[rows]
                if isinstance(part, ResourceError):
                    encoded.failures[int(places[0])] = str(part)
                    answered.append(_no_tokens())
                    continue
                encoded.token_count[places] = part["token_count"].reshape(-1)
                encoded.truncated[places] = part["truncated"].reshape(-1)
                answered.append(part)
        return _Window(chunk, start, TokenBatches.of(answered))

    def _fill(self, window: _Window, cut: slice, answer: Answer) -> None:
        """Puts the vectors of one batch where their texts were."""
        _, model = self._models
        encoded, places = window.chunk.encoded, window.start + window.tokens.order[cut]
        inputs = window.tokens.padded(cut, self._pad_to) if isinstance(answer, ResourceError) else {}
        for rows, part in self._sound_parts(model, inputs, answer):
            if isinstance(part, ResourceError):
                encoded.failures.setdefault(int(places[rows.start]), str(part))
            else:
                encoded.embeddings[places[rows]] = part["embeddings"]
        window.chunk.missing -= len(places)
        if window.chunk.missing == 0:
            encoded.embeddings[list(encoded.failures)] = float("nan")

    def _sound_parts(
        self, model: ModelMetadata, inputs: Mapping[str, Tensor], answer: Answer
    ) -> Iterator[tuple[slice, Answer]]:
        """The answer itself, or the answers to parts of a request that failed, by rows, down to the rows to blame.

        Raises:
            ResourceError: What a text failed with, where so many fail one after the other, in whatever requests, that
                the model is to blame and not they.
        """
        if not isinstance(answer, ResourceError):
            self._failed_in_a_row[model.name] = 0
            yield slice(None), answer
            return
        rows = len(next(iter(inputs.values())))
        for cut, part in self._halves(model, inputs, slice(0, rows), answer):
            failed = self._failed_in_a_row.get(model.name, 0) + 1 if isinstance(part, ResourceError) else 0
            self._failed_in_a_row[model.name] = failed
            if isinstance(part, ResourceError) and failed >= _NOT_TO_BLAME:
                raise part
            yield cut, part

    def _halves(
        self, model: ModelMetadata, inputs: Mapping[str, Tensor], rows: slice, error: ResourceError
    ) -> Iterator[tuple[slice, Answer]]:
        if rows.stop - rows.start == 1:
            yield rows, error
            return
        middle = (rows.start + rows.stop) // 2
        for half in (slice(rows.start, middle), slice(middle, rows.stop)):
            request = {name: tensor[half] for name, tensor in inputs.items()}
            # One at a time: a text that brings the server down must not take others with it.
            [answer] = self._triton.infer_each(model.name, [request], version=model.version)
            if isinstance(answer, ResourceError):
                yield from self._halves(model, inputs, half, answer)
            else:
                yield half, answer

    def _in_one_trip(self, texts: Sequence[str]) -> EncodedTexts:
        """Encodes through the ensemble, and makes sure that it chained the pinned models all the while."""
        model = self._triton.metadata(self._ensemble)
        encoded = self._empty(len(texts))
        text = _as_bytes(texts)
        lengths = [len(one) for one in text[:, 0]]
        order = sorted(range(len(texts)), key=lambda place: lengths[place], reverse=True)
        cuts: list[list[int]] = []
        for place in order:
            longest = lengths[cuts[-1][0]] if cuts else 0
            room = min(self._token_budget * _BYTES_PER_TOKEN // max(longest, 1), max(model.max_batch_size, 1))
            if not cuts or len(cuts[-1]) >= room:
                cuts.append([])
            cuts[-1].append(place)
        answers = self._triton.infer_each(model.name, ({"text": text[cut]} for cut in cuts), version=model.version)
        for cut, answer in zip(cuts, answers, strict=True):
            for rows, part in self._sound_parts(model, {"text": text[cut]}, answer):
                places = cut[rows]
                if isinstance(part, ResourceError):
                    encoded.failures[places[0]] = str(part)
                    encoded.embeddings[places] = float("nan")
                    continue
                encoded.embeddings[places] = part["embeddings"]
                encoded.token_count[places] = part["token_count"].reshape(-1)
                encoded.truncated[places] = part["truncated"].reshape(-1)
        if self._chained() != self._models:
            raise ServerUnavailableError(
                f"model {self._ensemble!r} was switched to other versions during the run: run it again"
            )
        return encoded

    def _empty(self, texts: int) -> EncodedTexts:
        import numpy as np

        _, embedder = self._models
        return EncodedTexts(
            embeddings=np.empty((texts, _dims(embedder)), dtype=np.float32),
            token_count=np.zeros(texts, dtype=np.int32),
            truncated=np.zeros(texts, dtype=np.bool_),
            model_name=embedder.name,
            model_version=embedder.version,
        )


def _no_tokens() -> dict[str, Tensor]:
    """What a tokenizer would answer to a text without a token."""
    import numpy as np

    nothing = np.zeros((1, 1), dtype=np.int32)
    return {"input_ids": nothing, "attention_mask": nothing}


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
