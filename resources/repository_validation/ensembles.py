"""Whether the models of an ensemble fit together: each tensor exists, is the same on both sides, and is used.

The rules are the server's own; it compares shapes with -1 as a size that fits all.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from resources.model_config import ModelConfig, Step, Tensor
from resources.model_repository import ModelRepository
from resources.repository_validation.shapes import ANY, fits

Configs = Mapping[str, tuple[Path, ModelConfig]]


@dataclass(frozen=True)
class _End:
    """One side of a tensor inside an ensemble.

    Attributes:
        who: Gives or takes it.
        data_type: In the server's words.
        shape: With the batch.
    """

    who: str
    data_type: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, who: str, tensor: Tensor, config: ModelConfig) -> "_End":
        # As a request shows it: the model's own reshaping happens behind that.
        return cls(who, tensor.data_type, (ANY, *tensor.dims) if config.max_batch_size > 0 else tensor.dims)

    def __str__(self) -> str:
        return f"{self.data_type} {list(self.shape)}"


def ensemble_problems(repository: ModelRepository, configs: Configs) -> Iterator[str]:
    """The problems of every ensemble among the configurations that a server would use."""
    for model, (path, config) in configs.items():
        if not config.steps:
            continue
        absent = sorted({step.model for step in config.steps} - set(repository.models()))
        if absent:
            yield f"{path} chains {absent}, which the repository does not have: add the model, or chain another"
        elif any(step.model not in configs for step in config.steps):
            continue  # that it cannot be read is said already
        elif model in _chained(model, configs):
            yield f"{path} chains itself, by way of its steps: remove that step"
        else:
            yield from _part_problems(repository, path, config, configs)
            # One wrong map leaves tensors without a giver or a taker, which would be the same mistake again.
            yield from list(_map_problems(path, config, configs)) or _tensor_problems(path, config, configs)


def _chained(model: str, configs: Configs) -> set[str]:
    """Every model below an ensemble, however deep."""
    seen: set[str] = set()
    waiting = [model]
    while waiting:
        current = waiting.pop()
        for step in configs[current][1].steps if current in configs else ():
            if step.model not in seen:
                seen.add(step.model)
                waiting.append(step.model)
    return seen


def _part_problems(repository: ModelRepository, path: Path, config: ModelConfig, configs: Configs) -> Iterator[str]:
    """The versions that the steps ask for, and the sizes of their batches."""
    for step in config.steps:
        part_path, part = configs[step.model]
        present = repository.version_folders(step.model)
        asked = f"{path} asks for {step.model} version {step.version}"
        if step.version > 0 and step.version not in present:
            yield f"{asked}, and it has {present}: build it, or name another"
        elif step.version > 0 and step.version not in part.versions.served(present):
            yield f"{asked}, which {part_path} does not serve: add it to the version_policy there"
    sizes = {step.model: configs[step.model][1].max_batch_size for step in config.steps}
    smaller = [model for model, rows in sizes.items() if 0 < rows < config.max_batch_size]
    if smaller:
        least = min(sizes[model] for model in smaller)
        yield f"{path} takes {config.max_batch_size} rows, {smaller} at most {least}: lower max_batch_size"


def _map_problems(path: Path, config: ModelConfig, configs: Configs) -> Iterator[str]:
    """The parts' own names of the tensors: each must exist, and no input may be left out."""
    for step in config.steps:
        part = configs[step.model][1]
        for kind, mapped, known in (("input", step.inputs, part.inputs), ("output", step.outputs, part.outputs)):
            for name in sorted(mapped.keys() - known.keys()):
                yield f"{path} maps {kind} {name!r} of {step.model}, which has {sorted(known)}: correct the {kind}_map"
        needed = {name for name, tensor in part.inputs.items() if not tensor.optional}
        missing = sorted(needed - step.inputs.keys())
        if missing and not step.inputs.keys() - part.inputs.keys():
            yield f"{path} gives {step.model} no {missing}: add it to the input_map"


def _tensor_problems(path: Path, config: ModelConfig, configs: Configs) -> Iterator[str]:
    """The ensemble's own tensors: who gives each of them, who takes it, and as what."""
    given = {name: _End.of("a request", tensor, config) for name, tensor in config.inputs.items()}
    for step in config.steps:
        part = configs[step.model][1]
        for own, shared in step.outputs.items():
            if shared in given:
                yield f"{path}: {given[shared].who} and {step.model} both give {shared!r}: rename one of them"
            given.setdefault(shared, _End.of(step.model, part.outputs[own], part))

    taken: list[tuple[str, _End]] = []
    for step in config.steps:
        part = configs[step.model][1]
        taken += [(shared, _End.of(step.model, part.inputs[own], part)) for own, shared in step.inputs.items()]
    taken += [(name, _End.of("the answer", tensor, config)) for name, tensor in config.outputs.items()]
    for name, taker in taken:
        giver = given.get(name)
        if giver is None:
            yield f"{path}: {taker.who} takes {name!r}, which nothing gives: correct the maps of the steps"
        elif giver.data_type != taker.data_type or not fits(giver.shape, taker.shape):
            yield f"{path}: {giver.who} gives {name!r} as {giver}, {taker.who} takes it as {taker}: make them equal"
    names = {name for name, _ in taken}
    if names < given.keys():
        yield f"{path}: nothing takes {sorted(given.keys() - names)}: remove it, or map it to an input"
    yield from _cycle_problems(path, config, set(given))


def _cycle_problems(path: Path, config: ModelConfig, given: set[str]) -> Iterator[str]:
    """Steps that wait for each other; the order in which they are written does not matter."""
    ready = set(config.inputs)
    waiting = list(config.steps)
    while waiting:
        runnable = [step for step in waiting if not given.intersection(step.inputs.values()) - ready]
        if not runnable:
            yield f"{path}: the steps {_names(waiting)} wait for each other's tensors: correct their input_map"
            return
        ready |= {shared for step in runnable for shared in step.outputs.values()}
        waiting = [step for step in waiting if step not in runnable]


def _names(steps: list[Step]) -> str:
    return ", ".join(sorted({step.model for step in steps}))
