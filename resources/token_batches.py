"""Token ids of many texts in one array, and the padded batches that an embedder is fastest with.

Sorting, cutting and padding belong here; where ids come from and go to does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from resources.triton_contract import Tensor


@dataclass(frozen=True)
class TokenBatches:
    """Texts in order of their length, the longest first, so that neighbours need little padding.

    Attributes:
        order: int64 of shape (texts,): the place of each text before they were sorted.
        lengths: int64 of shape (texts,): tokens of each, in sorted order.
        ids: int32: the tokens of all texts after each other, in sorted order.
        starts: int64 of shape (texts + 1,): where in `ids` each text begins, and the end of the last.
    """

    order: NDArray[np.int64]
    lengths: NDArray[np.int64]
    ids: NDArray[np.int32]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, answers: Sequence[Mapping[str, Tensor]]) -> TokenBatches:
        """Sorts what a tokenizer answered: `input_ids` and `attention_mask` of shape (rows, tokens), padded."""
        import numpy as np

        masks = [answer["attention_mask"].astype(np.bool_) for answer in answers]
        given = np.concatenate([np.count_nonzero(mask, axis=1) for mask in masks]).astype(np.int64)
        flat = np.concatenate([answer["input_ids"][mask] for answer, mask in zip(answers, masks, strict=True)])
        begins = np.cumsum(given) - given
        order = np.argsort(-given, kind="stable").astype(np.int64)
        lengths = given[order]
        ends = np.cumsum(lengths)
        # For each token in sorted order, its place in `flat`.
        places = np.repeat(begins[order] - (ends - lengths), lengths) + np.arange(len(flat))
        return cls(
            order=order,
            lengths=lengths,
            ids=flat[places].astype(np.int32, copy=False),
            starts=np.concatenate([np.zeros(1, dtype=np.int64), ends]),
        )

    def cuts(self, *, token_budget: int, max_rows: int, multiple: int) -> Iterator[slice]:
        """Runs of sorted texts, each of as many rows as the budget holds of its longest text, and of at least one."""
        start = 0
        while start < len(self.lengths):
            rows = max(min(token_budget // _up(int(self.lengths[start]), multiple), max_rows), 1)
            stop = min(start + rows, len(self.lengths))
            yield slice(start, stop)
            start = stop

    def padded(self, cut: slice, multiple: int) -> dict[str, Tensor]:
        """`input_ids` and `attention_mask`, INT32 of shape (rows, tokens of the longest, rounded up to `multiple`)."""
        import numpy as np

        lengths = self.lengths[cut]
        mask = np.arange(_up(int(lengths[0]), multiple)) < lengths[:, np.newaxis]
        input_ids = np.zeros(mask.shape, dtype=np.int32)
        input_ids[mask] = self.ids[self.starts[cut.start] : self.starts[cut.stop]]
        return {"input_ids": input_ids, "attention_mask": mask.astype(np.int32)}


def _up(tokens: int, multiple: int) -> int:
    return -(-max(tokens, 1) // multiple) * multiple
