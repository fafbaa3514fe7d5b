"""Whether memory stays flat: 10,000 calls of the encoder through Triton, seen from the client and from the server."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from benchmarks.embedding_paths import Served, served
from benchmarks.embedding_texts import short_texts
from benchmarks.measurement import Result, Rows
from resources.process_memory import tree_memory

if TYPE_CHECKING:
    from resources.triton_contract import Tensor

CALLS = 10_000
_WARM_UP = 1_000
_STEPS = 4
_CALLERS = 4
_MB = 2**20


def measure() -> Result:
    """Memory that client and server hold more after 10,000 calls than before them, whichever grew more."""
    with served() as given, ThreadPoolExecutor(_CALLERS) as callers:
        # What grows to its size once, such as a thread's own heap, does so here.
        _call(given, callers, _texts(_WARM_UP))
        rows: Rows = [_seen(given, 0)]
        texts = _texts(CALLS)
        for step in range(1, _STEPS + 1):
            _call(given, callers, texts[CALLS * (step - 1) // _STEPS : CALLS * step // _STEPS])
            rows.append(_seen(given, CALLS * step // _STEPS))
    growth = {who: float(rows[-1][who]) - float(rows[0][who]) for who in ("client MB", "server MB")}
    return Result(
        name="soak_growth_mb",
        value=max(growth.values()),
        unit="MB",
        goal="<= 16",
        rounds=1,
        detail=f"after {CALLS:,} calls of one text, {_CALLERS} at a time: client {growth['client MB']:+.1f} MB, "
        f"server {growth['server MB']:+.1f} MB",
        tables={"memory by calls": rows},
    )


def _texts(count: int) -> list[str]:
    texts = short_texts().texts
    return [texts[number % len(texts)] for number in range(count)]


def _call(given: Served, callers: ThreadPoolExecutor, texts: Sequence[str]) -> None:
    def one(text: str) -> None:
        given.triton.infer("feedback_encoder", _row(text))

    for _ in callers.map(one, texts):
        pass


def _row(text: str) -> "dict[str, Tensor]":
    import numpy as np

    return {"text": np.array([[text.encode()]], dtype=np.object_)}


def _seen(given: Served, calls: int) -> dict[str, str | int | float]:
    """Megabytes held now; the server's are those of tritonserver and of the processes of its models."""
    # The server is a descendant of this process, which started it.
    started, server = tree_memory(given.server.pid), tree_memory(given.server.server_pid)
    return {
        "calls": calls,
        "client MB": round((tree_memory(os.getpid()) - started) / _MB, 1),
        "server MB": round(server / _MB, 1),
    }
