"""The graphs that are made of one BERT checkpoint, the first of them proven against numpy.

Which of them is good and fast enough to be served, `encoder_variants` measures.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from resources.bert_checkpoint import BertCheckpoint, Weights
from resources.bert_graph import BertGraph, FusedBertGraph
from resources.bert_int8 import Int8BertGraph, smoothed_inputs
from resources.bert_reference import reference_vector
from resources.encoder_graph import TextEmbedder, check_vectors
from resources.encoder_runtime import Ids, Vectors, open_session, open_tokenizer, padded
from resources.encoder_texts import calibration_texts
from resources.graph_writer import with_outputs

_CALIBRATED_BATCH = 20  # texts
_LONGEST_CALIBRATED = 128  # tokens


def bert_graphs(
    checkpoint: BertCheckpoint, weights: Path, tokenizer: Path, token_limit: int, log: Callable[[str], None]
) -> dict[str, bytes]:
    """The serialized graphs by name; the first has standard operators only and stands for the original.

    Args:
        checkpoint: The encoder.
        weights: The file it was read from, for messages.
        tokenizer: The tokenizer.json.
        token_limit: Tokens of the longest text.
        log: Is told about progress, one line each.

    Raises:
        ResourceError: The first graph does not compute what the checkpoint does in numpy.
        ConfigurationError: The tokenizer does not fit, or the weights are too large for one file.
    """
    graph = BertGraph(checkpoint).build()

    def reference(ids: Ids, mask: Ids) -> Vectors:
        rows = [reference_vector(checkpoint, row[seen.astype(bool)]) for row, seen in zip(ids, mask, strict=True)]
        return np.stack(rows).astype(np.float32)

    embedder = TextEmbedder(graph, checkpoint.config.hidden)
    difference = check_vectors(embedder, reference, weights, tokenizer, token_limit)
    log(f"checked: {embedder.dims} dims, {token_limit} tokens, greatest difference {difference:.1e}")
    ranges = state_ranges(graph, checkpoint, tokenizer, token_limit)
    return {
        "fp32": graph,
        "fp32-fused": FusedBertGraph(checkpoint).build(),
        "int8": Int8BertGraph(checkpoint, ranges).build(),
    }


def state_ranges(graph: bytes, checkpoint: BertCheckpoint, tokenizer: Path, token_limit: int) -> dict[str, Weights]:
    """The greatest absolute value of each column [hidden] of the states to be smoothed, on calibration texts."""
    names = smoothed_inputs(checkpoint)
    session = open_session(with_outputs(graph, names))
    reader = open_tokenizer(tokenizer, min(token_limit, _LONGEST_CALIBRATED))
    texts = sorted(calibration_texts(reader), key=len)
    ranges = {name: np.zeros(checkpoint.config.hidden, dtype=np.float32) for name in names}
    for at in range(0, len(texts), _CALIBRATED_BATCH):
        ids, mask = padded(reader, texts[at : at + _CALIBRATED_BATCH])
        states = session.run(names, {"input_ids": ids, "attention_mask": mask})
        for name, state in zip(names, states, strict=True):
            ranges[name] = np.maximum(ranges[name], np.abs(state[mask.astype(bool)]).max(axis=0))
    return ranges
