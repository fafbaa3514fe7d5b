"""The version folders of a model: which are loaded, whether they are whole, and whether they hold what is served.

What is inside an ONNX file belongs to `graphs`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from resources.errors import ConfigurationError
from resources.model_config import ModelConfig
from resources.model_repository import CARD_NAME, CONFIG_NAME, ModelRepository, sha256
from resources.repository_validation.accelerators import keeps_engines
from resources.repository_validation.backends import CONTAINER, EMBEDDED, ENSEMBLE, FILES, ONNX, backend_of
from resources.repository_validation.graphs import graph_name, graph_problems

Configs = Mapping[Path, ModelConfig]


def version_problems(repository: ModelRepository, model: str, configs: Configs) -> Iterator[str]:
    """Policies that name versions which are not there, incomplete folders, and files that are missing or changed.

    Args:
        repository: The repository.
        model: A model of it.
        configs: Its readable configurations by path, the default first.
    """
    present, complete = repository.version_folders(model), repository.versions(model)
    for path, config in configs.items():
        absent = sorted(set(config.versions.specific) - set(present))
        if present and absent:
            yield f"{path}: version_policy names the versions {absent} of {present}: build them, or name others"
        elif present and not config.versions.served(present):
            yield f"{path}: version_policy serves no version: write a num_versions from 1"
    for version in present:
        if version not in complete:
            yield f"{_incomplete(repository, model, version)}: remove the folder, or build the version again"

    served = sorted({version for config in configs.values() for version in config.versions.served(complete)})
    for version in served:
        changed = list(_card_problems(repository, model, version))
        yield from changed
        if version == complete[-1]:
            yield from _source_problems(repository, model, version)
        if not changed:
            yield from _file_problems(repository, model, version, configs)
    for path, config in configs.items():
        if keeps_engines(config):
            yield from _engine_problems(repository, model, path, config)


def _engine_problems(repository: ModelRepository, model: str, path: Path, config: ModelConfig) -> Iterator[str]:
    """ONNX Runtime finds a kept engine by the names in the graph, not by its weights (its issue 6455)."""
    versions_by_name: dict[str, list[int]] = {}
    for version in repository.versions(model):
        file = repository.version_path(model, version) / (config.file or FILES[ONNX])
        if file.is_file():
            versions_by_name.setdefault(graph_name(file), []).append(version)
    for versions in versions_by_name.values():
        if len(versions) > 1:
            yield (
                f"{path} keeps TensorRT's engines, and the graphs of versions {versions} have one name, so that one "
                "would answer for the other: write trt_engine_cache_enable 0"
            )


def _incomplete(repository: ModelRepository, model: str, version: int) -> str:
    folder = repository.version_path(model, version)
    if not any(folder.iterdir()):
        return f"{folder} is empty"
    if not (folder / CARD_NAME).is_file():
        return f"{folder} has no {CARD_NAME}"
    try:
        missing = [name for name in repository.card(model, version).files if not (folder / name).is_file()]
    except ConfigurationError:
        return f"{folder / CARD_NAME} is not the card of a version"
    return f"{folder} lacks {missing}, which its {CARD_NAME} lists"


def _card_problems(repository: ModelRepository, model: str, version: int) -> Iterator[str]:
    folder = repository.version_path(model, version)
    card = repository.card(model, version)
    if (card.model, card.version) != (model, version):
        yield f"{folder / CARD_NAME} is that of {card.model} version {card.version}: remove the folder and build again"
    for name, expected in card.files.items():
        found = sha256(folder / name)
        if found != expected:
            yield f"{folder / name} has SHA-256 {found}, its card says {expected}: remove the folder and build again"


def _source_problems(repository: ModelRepository, model: str, version: int) -> Iterator[str]:
    """Files that are tracked beside the configuration and copied into each version."""
    for name, expected in repository.card(model, version).files.items():
        source = repository.path / model / name
        if source.is_file() and sha256(source) != expected:
            yield f"{repository.version_path(model, version) / name} was built with another {source}: build again"


def _file_problems(repository: ModelRepository, model: str, version: int, configs: Configs) -> Iterator[str]:
    """Each configuration must find the file it serves; a graph is read once, whoever serves it."""
    folder = repository.version_path(model, version)
    listed = repository.card(model, version).files
    default = next(iter(configs.values()))
    graphs: dict[Path, list[Path]] = {}
    missing: set[str] = set()
    for path, config in configs.items():
        if version not in config.versions.served(repository.versions(model)):
            continue
        backend = backend_of(config) or next((name for name, file in FILES.items() if (folder / file).exists()), "")
        name = config.file or FILES.get(backend, "")
        if not backend and not config.steps and config.platform != ENSEMBLE:
            yield f"{path} names no backend, and {folder} has none's file: write `backend:` and one of {sorted(FILES)}"
        elif name and not (folder / name).exists():
            if name not in missing:
                there = sorted(entry.name for entry in folder.iterdir() if entry.name != CARD_NAME)
                yield f"{folder} has no {name}, which {path} serves, but {there}: rename it, or build the version again"
            missing.add(name)
        elif name and name not in listed:
            yield f"{folder / CARD_NAME} does not list {name}, which {path} serves: build the version again"
        elif name and backend == ONNX:
            graphs.setdefault(folder / name, []).append(path)
    for file, paths in graphs.items():
        runtimes = [EMBEDDED if path.name == CONFIG_NAME else CONTAINER for path in paths]
        accelerated = [path for path in paths if "tensorrt" in configs[path].accelerators]
        yield from graph_problems(file, default, runtimes, accelerated[0] if accelerated else None)
