"""Running an encoder in this process: a session of one thread, a tokenizer, padded batches.

For building and measuring only; what is served runs in the model server.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

Ids = NDArray[np.int32]
Vectors = NDArray[np.float32]


def open_session(model: Path | bytes) -> "InferenceSession":
    """A session of one thread: the check runs beside whatever else the machine does.

    Raises:
        ConfigurationError: onnxruntime is not installed.
    """
    onnxruntime = models_extra("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, sess_options=options, providers=["CPUExecutionProvider"])


def open_tokenizer(path: Path, limit: int) -> "Tokenizer":
    """A tokenizer that pads to the longest text and cuts at the limit (tokens).

    Raises:
        ConfigurationError: The file cannot be read, or tokenizers is not installed.
    """
    tokenizers = models_extra("tokenizers")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    # The binding raises bare Exception for a file it cannot read.
    except Exception as error:
        raise ConfigurationError(f"{path} is not a tokenizer.json: {first_line(error)}") from error
    tokenizer.enable_padding(pad_id=_pad_id(tokenizer))  # to the longest, whatever the file says
    tokenizer.enable_truncation(limit)
    return cast("Tokenizer", tokenizer)


def _pad_id(tokenizer: "Tokenizer") -> int:
    """The id the encoder was trained to see as padding; some derive positions from it."""
    if tokenizer.padding is not None:
        return int(tokenizer.padding["pad_id"])
    known = (tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
    return next((found for found in known if found is not None), 0)


def models_extra(module: str) -> ModuleType:
    """A module of the extra `models`.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(f"{module} is not installed: install the platform with its extra `models`") from error


def padded(tokenizer: "Tokenizer", texts: Sequence[str]) -> tuple[Ids, Ids]:
    """Ids and mask [texts, tokens of the longest]; at least one column, masked, where no text has a token."""
    encodings = tokenizer.encode_batch(list(texts))
    columns = max(1, len(encodings[0].ids))
    ids = np.zeros((len(texts), columns), dtype=np.int32)
    mask = np.zeros_like(ids)
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding.ids)] = encoding.ids
        mask[row, : len(encoding.ids)] = encoding.attention_mask
    return ids, mask


def embed(session: "InferenceSession", ids: Ids, mask: Ids) -> Vectors:
    """The vectors [texts, dims] of ids and a mask [texts, tokens], by a graph as it is served."""
    vectors: Vectors = session.run(["embeddings"], {"input_ids": ids, "attention_mask": mask})[0]
    return vectors


def difference(left: Vectors, right: Vectors) -> float:
    """The greatest absolute difference; infinite where a value is not finite."""
    distance = np.abs(left - right)
    return float(distance.max()) if np.isfinite(distance).all() else float("inf")


def first_line(error: BaseException) -> str:
    """The first line of a library's message, which may have many."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
