"""What the server says about its own time, and how long a request takes by how many are under way."""

import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from benchmarks.embedding_paths import Served
from benchmarks.measurement import Rows
from resources.triton import TritonResource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resources.triton_contract import Tensor

CONCURRENCY = (1, 2, 3, 4, 6, 8)
_MODELS = ("tokenizer", "text_embedder", "feedback_encoder")
_STAGES = ("queue", "compute_input", "compute_infer", "compute_output")
_SWEEP_S = 2.0
_KNEE = 0.95
_BUDGET = 512


class Statistics:
    """The server's counters from now on."""

    def __init__(self, triton: TritonResource) -> None:
        self._url = triton.url
        self._before = self._read()

    def since(self) -> Rows:
        """For each model: its requests, executions ÷ requests, and the mean milliseconds of a request in each stage."""
        rows: Rows = []
        for model, now in self._read().items():
            counted = {key: value - self._before.get(model, {}).get(key, 0) for key, value in now.items()}
            if requests := counted["requests"]:
                rows.append(
                    {
                        "model": model,
                        "requests": requests,
                        "executions ÷ requests": round(counted["executions"] / requests, 2),
                        "rows a request": round(counted["rows"] / requests, 1),
                        **{f"{stage} ms": round(counted[stage] / requests / 1e6, 3) for stage in _STAGES},
                    }
                )
        return rows

    def _read(self) -> dict[str, dict[str, int]]:
        from tritonclient.grpc import InferenceServerClient

        with InferenceServerClient(self._url) as client:
            answer = client.get_inference_statistics()
        found: dict[str, dict[str, int]] = {}
        for one in answer.model_stats:
            if one.name in _MODELS:
                total = found.setdefault(one.name, dict.fromkeys(("requests", "executions", "rows", *_STAGES), 0))
                total["requests"] += one.inference_stats.success.count
                total["executions"] += one.execution_count
                total["rows"] += one.inference_count
                for stage in _STAGES:
                    total[stage] += getattr(one.inference_stats, stage).ns
        return found


def sweep_in_flight(given: Served, texts: "Sequence[str]") -> dict[str, Rows]:
    """Requests a second and their P50 and P99 with 1 to 8 under way, for two kinds of request, each with its knee.

    Like perf_analyzer: so many clients, each sending its next request when it has its answer. The knee is the
    least number under way that reaches 95 % of the best rate.
    """
    batches = _batches(given, texts)
    kinds: dict[str, tuple[str, list[dict[str, Tensor]], int]] = {
        f"text_embedder, {_BUDGET} padded tokens a request": ("text_embedder", batches, len(texts)),
        "feedback_encoder, one text a request": ("feedback_encoder", [_text(one) for one in texts], len(texts)),
    }
    tables: dict[str, Rows] = {}
    for title, (model, requests, rows) in kinds.items():
        found = [_closed_loop(given.triton, model, requests, rows, clients) for clients in CONCURRENCY]
        best = max(float(row["texts/s"]) for row in found)
        knee = next(row["in flight"] for row in found if float(row["texts/s"]) >= _KNEE * best)
        tables[f"{title}: the knee is at {knee} in flight"] = found
    return tables


def _closed_loop(
    triton: TritonResource, model: str, requests: "Sequence[dict[str, Tensor]]", rows: int, clients: int
) -> "dict[str, Any]":
    taken: list[float] = []
    lock = threading.Lock()
    turn = iter(range(10**9))
    end = time.perf_counter() + _SWEEP_S

    def work(_client: int) -> None:
        while time.perf_counter() < end:
            with lock:
                number = next(turn)
            start = time.perf_counter()
            triton.infer(model, requests[number % len(requests)])
            with lock:
                taken.append(time.perf_counter() - start)

    triton.infer(model, requests[0])
    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(work, range(clients)))
    spent = time.perf_counter() - start
    percentiles = statistics.quantiles(taken, n=100, method="inclusive")
    return {
        "in flight": clients,
        "requests/s": round(len(taken) / spent, 1),
        "texts/s": round(len(taken) / spent * rows / len(requests), 1),
        "P50 ms": round(percentiles[49] * 1e3, 1),
        "P99 ms": round(percentiles[98] * 1e3, 1),
    }


def _batches(given: Served, texts: "Sequence[str]") -> "list[dict[str, Tensor]]":
    """Requests to the embedder as the asset makes them: texts of like length, padded, in no order of length."""
    import random

    import numpy as np
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(given.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(given.token_limit)
    ids = sorted((one.ids for one in tokenizer.encode_batch(list(texts))), key=len, reverse=True)
    made: list[dict[str, Tensor]] = []
    while ids:
        columns = len(ids[0])
        count = max(_BUDGET // columns, 1)
        padded = np.zeros((len(ids[:count]), columns), np.int32)
        mask = np.zeros_like(padded)
        for row, one in enumerate(ids[:count]):
            padded[row, : len(one)], mask[row, : len(one)] = one, 1
        made.append({"input_ids": padded, "attention_mask": mask})
        ids = ids[count:]
    random.Random(1).shuffle(made)
    return made


def _text(text: str) -> "dict[str, Tensor]":
    import numpy as np

    return {"text": np.array([[text.encode()]], dtype=np.object_)}
