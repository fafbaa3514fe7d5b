"""What a BERT checkpoint computes, in numpy and double precision: the yardstick for every graph made of it.

Slow on purpose, one text at a time and without padding, so that it shares no shortcut with the graphs.
Formulas: Devlin et al., "BERT" (arXiv 1810.04805), and Vaswani et al., "Attention Is All You Need" (1706.03762).
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from resources.bert_checkpoint import BertCheckpoint, BertLayer, Dense, Norm

Array = NDArray[np.float64]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def hidden_states(checkpoint: BertCheckpoint, ids: NDArray[np.integer]) -> Iterator[tuple[str, Array]]:
    """The states of one text's tokens after each step, by the name that the graphs give them.

    Args:
        checkpoint: The encoder.
        ids: The token ids [tokens], without padding.

    Yields:
        `embedded`, then `layer<n>/attended` and `layer<n>/output` for each layer; each [tokens, hidden].
    """
    epsilon = checkpoint.config.epsilon
    state: Array = checkpoint.words[ids].astype(np.float64) + checkpoint.positions[: len(ids)]
    state = _normalized(state, checkpoint.norm, epsilon)
    yield "embedded", state
    for number, layer in enumerate(checkpoint.layers):
        attended = _attention(state, layer, checkpoint.config.heads)
        state = _normalized(state + attended, layer.attention_norm, epsilon)
        yield f"layer{number}/attended", state
        between = _dense(state, layer.up)
        activated = between * 0.5 * (1.0 + _erf(between / math.sqrt(2.0)))
        state = _normalized(state + _dense(activated, layer.down), layer.output_norm, epsilon)
        yield f"layer{number}/output", state


def reference_vector(checkpoint: BertCheckpoint, ids: NDArray[np.integer]) -> Array:
    """The text's vector [hidden]: the mean of its tokens' last states, of length 1."""
    *_, (_, last) = hidden_states(checkpoint, ids)
    mean = last.mean(axis=0)
    vector: Array = mean / np.linalg.norm(mean)
    return vector


def _attention(state: Array, layer: BertLayer, heads: int) -> Array:
    def split(dense: Dense) -> Array:
        return _dense(state, dense).reshape(len(state), heads, -1).transpose(1, 0, 2)

    query, key, value = split(layer.query), split(layer.key), split(layer.value)
    scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (weights / weights.sum(axis=-1, keepdims=True)) @ value
    return _dense(mixed.transpose(1, 0, 2).reshape(state.shape), layer.attention_output)


def _dense(state: Array, dense: Dense) -> Array:
    result: Array = state @ dense.weight.astype(np.float64) + dense.bias
    return result


def _normalized(state: Array, norm: Norm, epsilon: float) -> Array:
    centred = state - state.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
    result: Array = centred / deviation * norm.scale + norm.shift
    return result
