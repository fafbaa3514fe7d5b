"""Ten texts that travel with a graph, with the vectors its builder saw, so that a server can tell whether it sees them.

The server's side of it is in `triton_backends/onnxruntime/model.py`, which can import nothing from here.
"""

import io
from pathlib import Path

import numpy as np

from resources.encoder_runtime import embed, open_session, open_tokenizer, padded
from resources.encoder_texts import evaluation_texts

MEAN_COSINE = 0.999
"""The least mean cosine between the builder's and the server's vectors of the ten texts.

A last digit that differs between CPUs moves an int8 graph's vectors to a mean of 0.9998, because a value at the edge of
a step falls to its other side; integer products that saturate, as on CPUs without VNNI, move them to 0.996.
"""

_TEXTS = 10
_LONGEST = 64  # tokens: the test is part of each load


def self_test(graph: bytes, tokenizer: Path, token_limit: int) -> bytes:
    """An .npz file: `input_ids` and `attention_mask` [10, tokens], `embeddings` [10, dims] and `mean_cosine`.

    Raises:
        ConfigurationError: The tokenizer cannot be read, or a dependency is missing.
    """
    reader = open_tokenizer(tokenizer, min(token_limit, _LONGEST))
    texts = sorted(evaluation_texts(reader), key=len)
    ids, mask = padded(reader, texts[:: len(texts) // _TEXTS][:_TEXTS])
    file = io.BytesIO()
    np.savez(
        file,
        input_ids=ids,
        attention_mask=mask,
        embeddings=embed(open_session(graph), ids, mask),
        mean_cosine=np.array(MEAN_COSINE),
    )
    return file.getvalue()


def passes(graph: Path, test: Path) -> bool:
    """Whether the graph gives the vectors of its self-test here."""
    with np.load(test) as held:
        seen = embed(open_session(graph), held["input_ids"], held["attention_mask"])
        # Vectors have length 1: the product is the cosine.
        return bool((seen * held["embeddings"]).sum(axis=1).mean() >= held["mean_cosine"])
