"""Comparing shapes as servers do: a -1 fits every size, and the batch dimension stands in front."""

from collections.abc import Sequence

from resources.model_config import Tensor

ANY = -1


def fits(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether there is a shape that is both."""
    return len(one) == len(other) and all(a == b or ANY in (a, b) for a, b in zip(one, other, strict=True))


def full(tensor: Tensor, max_batch_size: int) -> tuple[int, ...]:
    """The whole shape of a tensor as a model's graph has it: reshaped, and with the batch."""
    dims = tensor.dims if tensor.reshape is None else tensor.reshape
    return (ANY, *dims) if max_batch_size > 0 else dims


def words(tensor: Tensor) -> str:
    """A tensor for a message, such as `FP32 [384]`."""
    return f"{tensor.data_type} {list(tensor.dims)}"
