"""How fast the embeddings asset's own path is: against the limit of its graph, and against other ways to embed.

All of one comparison take turns in one run, the order reversed each round, and the figures are medians of the
rounds' ratios. What the paths are is in `embedding_paths`, the peers in `embedding_peers`.
"""

import functools
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from benchmarks.embedding_paths import BUDGETS, InProcess, Served, held, served
from benchmarks.embedding_peers import PEERS, Peer, running
from benchmarks.embedding_serving import Statistics, sweep_in_flight
from benchmarks.embedding_texts import Texts, long_texts, short_texts
from benchmarks.measurement import Result, Rows, in_turns, ratios, seconds, spread

ROUNDS = 7
LIMITS = {"embed_vs_limit_short": short_texts, "embed_vs_limit_long": long_texts}
OTHERS = {f"embed_vs_{peer}": peer for peer in PEERS}
NAMES = (*LIMITS, *OTHERS)

_OURS, _LIMIT, _NAIVE = "through Triton", "the limit", "naive onnxruntime"
_KINDS: dict[str, tuple[Callable[[], Texts], int]] = {"short": (short_texts, 1500), "long": (long_texts, 200)}
_WARM_UP = 200
_WARM_UP_PART = 5
_SAME_GRAPH, _GOAL_ST = 0.9999, 2.0


def compare(names: Sequence[str]) -> Iterator[Result]:
    """Measure these of `NAMES`, on one server."""
    with served() as given:
        in_process = InProcess(given)
        for name, texts in LIMITS.items():
            if name in names:
                yield _against_limit(name, texts(), given, in_process)
        if peers := [peer for name, peer in OTHERS.items() if name in names]:
            yield from _against_peers(peers, given, in_process)


def _against_limit(name: str, texts: Texts, given: Served, in_process: InProcess) -> Result:
    """Seconds of onnxruntime in process ÷ ours, on all the texts."""
    budget = _warm(texts, given, in_process)
    work = {
        _OURS: lambda: seconds(lambda: given.encoder.encode(texts.texts)),
        _LIMIT: lambda: seconds(lambda: in_process.at_the_limit(texts.texts, budget)),
    }
    counted = Statistics(given.triton)
    taken = in_turns(work, ROUNDS)
    tables = {f"Triton's own statistics, {texts.what}": counted.since()}
    if name == "embed_vs_limit_short":
        tables |= sweep_in_flight(given, texts.some(1000).texts)
    found = ratios(taken, _LIMIT, _OURS)
    rates = {path: len(texts.texts) / statistics.median(times) for path, times in taken.items()}
    return Result(
        name=name,
        value=statistics.median(found),
        unit="ratio",
        goal=">= 0.95",
        rounds=ROUNDS,
        detail=f"{spread(found)}; {texts.what}, {rates[_OURS]:.0f} and {rates[_LIMIT]:.0f} texts/s of "
        f"{given.graph.name}; the limit: onnxruntime, sorted, {budget} tokens a batch, a session of one thread a core",
        tables=tables,
    )


def _against_peers(names: Sequence[str], given: Served, in_process: InProcess) -> Iterator[Result]:
    """Each peer's seconds ÷ ours, on a fixed choice of the texts."""
    with ExitStack() as started:
        peers = started.enter_context(running(names, given))
        measured = {
            kind: _rounds(number, make().some(count), peers, given, in_process)
            for number, (kind, (make, count)) in enumerate(_KINDS.items())
        }
    rows = _rows(measured)
    for name in names:
        found = {kind: ratios(taken, name, _OURS) for kind, (_, _, taken) in measured.items()}
        least = min(found, key=lambda kind: statistics.median(found[kind]))
        yield Result(
            name=f"embed_vs_{name}",
            value=statistics.median(found[least]),
            unit="ratio",
            goal=f">= {_GOAL_ST:g}" if name == "sentence_transformers" else "> 1",
            rounds=ROUNDS,
            detail="; ".join(f"{kind} texts {spread(values)}" for kind, values in found.items())
            + "; its start and the loading of its model left out",
            tables={"texts a second, and ÷ the limit": rows} if name == names[-1] else {},
        )


def _rounds(
    number: int, texts: Texts, peers: Sequence[Peer], given: Served, in_process: InProcess
) -> tuple[Texts, dict[str, int], dict[str, list[float]]]:
    """The texts, each path's batch, and the seconds of each path round by round."""
    warm_up = texts.some(len(texts.texts) // _WARM_UP_PART)
    batches = {_LIMIT: _warm(texts, given, in_process)}
    ours = given.encoder.encode(warm_up.texts).embeddings
    for peer in peers:
        batches[peer.name] = peer.choose_batch(warm_up.texts, number)
        peer.check(warm_up.texts, ours)
    work: dict[str, Callable[[], float]] = {
        _OURS: lambda: seconds(lambda: given.encoder.encode(texts.texts)),
        _LIMIT: lambda: seconds(lambda: in_process.at_the_limit(texts.texts, batches[_LIMIT])),
        _NAIVE: lambda: seconds(lambda: in_process.naive(texts.texts)),
        **{peer.name: functools.partial(peer.seconds, texts.texts, number) for peer in peers},
    }
    return texts, batches, in_turns(work, ROUNDS)


def _rows(measured: dict[str, tuple[Texts, dict[str, int], dict[str, list[float]]]]) -> Rows:
    paths = next(iter(measured.values()))[2]
    rows: Rows = []
    for path in paths:
        row: dict[str, str | int | float] = {"path": path}
        for kind, (texts, batches, taken) in measured.items():
            row[f"{kind} texts/s"] = round(len(texts.texts) / statistics.median(taken[path]), 1)
            row[f"{kind} ÷ limit"] = round(statistics.median(ratios(taken, _LIMIT, path)), 2)
            row[f"{kind} batch"] = batches.get(path, "")
        rows.append(row)
    return rows


def _warm(texts: Texts, given: Served, in_process: InProcess) -> int:
    """Warms up both paths, sees that they compute the same, and gives the token budget at which the limit is faster."""
    some = texts.some(_WARM_UP).texts
    ours = given.encoder.encode(some).embeddings
    held("onnxruntime in process", in_process.at_the_limit(some, BUDGETS[0]), ours, _SAME_GRAPH)
    work = {
        str(budget): functools.partial(seconds, functools.partial(in_process.at_the_limit, some, budget))
        for budget in BUDGETS
    }
    taken = in_turns(work, 5)
    return min(BUDGETS, key=lambda budget: statistics.median(taken[str(budget)]))
