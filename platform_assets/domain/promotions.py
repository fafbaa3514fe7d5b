"""What the record of promotions says: which version a model serves, and which one it served before."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Action(StrEnum):
    """How a version came to be served."""

    PROMOTED = "promoted"
    FITTED = "fitted"
    ROLLED_BACK = "rolled back"


class Step(NamedTuple):
    """One line of the record."""

    action: Action
    version: int
    former: int | None
    """What was served until then; None for the first."""


def former_version(record: Iterable[Step]) -> int | None:
    """The version that a rollback goes to; None where there is nothing to go back to.

    A rollback takes its promotion back: after one, the next goes to the version before that, and not forward again.

    Args:
        record: The steps of one model, the oldest first.
    """
    before: list[int | None] = []
    for step in record:
        if step.action is not Action.ROLLED_BACK:
            before.append(step.former)
        elif before:
            before.pop()
    return before[-1] if before else None
