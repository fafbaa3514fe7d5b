"""What a configuration says that no server accepts, whatever the version's files are.

Nothing but the configuration is looked at: files belong to `versions`, GPUs to `accelerators`.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from math import prod
from pathlib import Path

from resources.model_config import ModelConfig, Queue, Tensor
from resources.repository_validation.backends import ENSEMBLE, FILES, OTHERS, PLATFORMS
from resources.repository_validation.shapes import fits, words

# Once parsed, a zero that is written and one that is not are the same.
_EXPLICIT_ZERO = re.compile(r"instance_group\b[^\]]*\bcount\s*:\s*0\b")


def configuration_problems(path: Path, model: str, config: ModelConfig) -> Iterator[str]:
    """Name, backend, tensors, reshapes, instances, queue and warm-up requests of one configuration."""
    if config.name not in ("", model):
        yield f"{path} names the model {config.name!r}: name it as its folder, {model!r}"
    if config.max_batch_size < 0:
        yield f"{path}: max_batch_size is {config.max_batch_size}: write the most rows, or 0 for none"
    yield from _backend_problems(path, config)
    for name in config.twice:
        yield f"{path} lists the tensor {name!r} twice: remove one"
    for name, tensor in chain(config.inputs.items(), config.outputs.items()):
        yield from _tensor_problems(path, name, tensor)
    if any(group.count < 0 for group in config.groups) or _EXPLICIT_ZERO.search(_uncommented(path)):
        # The server does not refuse it: it starts a number of its own.
        yield f"{path}: an instance_group has a count below 1: write how many instances to start"
    if config.queue is not None:
        yield from _queue_problems(path, config.queue, config.max_batch_size)
    for warm_up in config.warm_ups:
        where = f"{path}: warm-up request {warm_up.name!r}"
        if warm_up.rows > max(config.max_batch_size, 1):
            yield f"{where} has {warm_up.rows} rows: write at most {max(config.max_batch_size, 1)} (max_batch_size)"
        yield from _warm_up_problems(where, warm_up.inputs, config)


def _uncommented(path: Path) -> str:
    return re.sub(r"#.*", "", path.read_text(encoding="utf-8"))


def _backend_problems(path: Path, config: ModelConfig) -> Iterator[str]:
    if config.steps and config.platform != ENSEMBLE:
        yield f'{path} has ensemble steps and is no ensemble: write `platform: "ensemble"`, or remove them'
    elif config.platform == ENSEMBLE:
        if not config.steps:
            yield f"{path} is an ensemble without steps: write its ensemble_scheduling"
    elif config.platform and config.platform not in PLATFORMS:
        yield f"{path}: no server knows the platform {config.platform!r}: write `backend:` and one of {sorted(FILES)}"
    elif config.backend and config.backend not in FILES.keys() | OTHERS:
        yield f"{path}: no server knows the backend {config.backend!r}: write one of {sorted(FILES)}"
    elif config.backend and config.platform and PLATFORMS[config.platform] != config.backend:
        yield f"{path}: the platform {config.platform!r} is not of the backend {config.backend!r}: remove `platform:`"


def _tensor_problems(path: Path, name: str, tensor: Tensor) -> Iterator[str]:
    if not name:
        yield f"{path}: a tensor has no name: write it"
    if tensor.data_type == "INVALID":
        yield f"{path}: tensor {name!r} has no data_type: write it"
    if not tensor.dims:
        yield f"{path}: tensor {name!r} has no dims: write them, [ 1 ] for one value a row"
    wrong = [size for size in (*tensor.dims, *(tensor.reshape or ())) if size == 0 or size < -1]
    if wrong:
        yield f"{path}: tensor {name!r} has a size of {wrong[0]}: write a number from 1, or -1 for any"
    elif tensor.reshape is not None and not _same_elements(tensor.dims, tensor.reshape):
        yield (
            f"{path}: tensor {name!r} cannot be reshaped from {list(tensor.dims)} to {list(tensor.reshape)}: "
            "write shapes of equally many elements"
        )


def _same_elements(dims: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return dims.count(-1) == shape.count(-1) and abs(prod(dims)) == abs(prod(shape))


def _queue_problems(path: Path, queue: Queue, max_batch_size: int) -> Iterator[str]:
    too_large = [rows for rows in queue.preferred if rows > max_batch_size]
    if too_large:
        yield f"{path}: preferred_batch_size {too_large} is above max_batch_size {max_batch_size}: lower it"
    if queue.priorities and not 1 <= queue.default_priority <= queue.priorities:
        yield (
            f"{path}: default_priority_level is {queue.default_priority}: write one from 1 to priority_levels, "
            f"{queue.priorities}"
        )
    beyond = [level for level in queue.ruled_priorities if not 1 <= level <= queue.priorities]
    if beyond:
        yield f"{path}: priority_queue_policy has the levels {beyond}: write levels from 1 to {queue.priorities}"


def _warm_up_problems(where: str, given: Mapping[str, Tensor], config: ModelConfig) -> Iterator[str]:
    taken = {name for name, tensor in config.inputs.items() if not tensor.optional or name in given}
    if given.keys() != taken:
        yield f"{where} gives {sorted(given)}: give what the model takes, {sorted(taken)}"
        return
    for name, tensor in given.items():
        wanted = config.inputs[name]
        fixed = all(size > 0 for size in tensor.dims)
        if tensor.data_type != wanted.data_type or not fixed or not fits(tensor.dims, wanted.dims):
            yield f"{where} gives {name!r} as {words(tensor)}: write it as {words(wanted)}, with a number for each -1"
