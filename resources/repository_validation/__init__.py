"""Whether a model repository can be served: its folders, configurations, versions, files and graphs fit each other.

Every rule is one that a server was seen, or is documented, to refuse or to serve wrongly; what it loads well is no
problem. Nothing is built, changed or started here, and no model is run.
"""

from collections.abc import Iterator
from pathlib import Path

from resources.errors import ConfigurationError
from resources.model_config import ModelConfig, read_config, unknown_field
from resources.model_repository import CONFIG_NAME, ModelRepository
from resources.repository_validation.accelerators import accelerator_problems, host_problems, present_gpus
from resources.repository_validation.configurations import configuration_problems
from resources.repository_validation.ensembles import ensemble_problems
from resources.repository_validation.layout import layout_problems, stray_folders
from resources.repository_validation.versions import version_problems

__all__ = ["validate_repository"]

_PROMISED = ("inputs", "outputs", "max_batch_size")


def validate_repository(repository: ModelRepository, *, config_name: str = "", gpus: int | None = None) -> list[str]:
    """Looks for what would keep a server from serving the versions that its configurations name.

    A model that an ensemble chains, and the ensemble, must have a version; any other may have none yet. Every
    configuration is checked; whether the host has the GPUs is asked only of those that would be used.

    Args:
        repository: The repository.
        config_name: The server's `--model-config-name`: `configs/<name>.pbtxt` is used of the models that have one.
        gpus: The GPUs of the serving host; None counts this one's.

    Returns:
        The problems, one line each with the file and what to do; empty if there is none.

    Raises:
        ConfigurationError: The repository is not a folder, or no model has a configuration of that name.
    """
    models = repository.models()
    paths = {model: _used(repository, model, config_name) for model in models}
    if config_name and not any(path.name != CONFIG_NAME for path in paths.values()):
        raise ConfigurationError(
            f"no model in {repository.path} has a configs/{config_name}.pbtxt: name one that is there"
        )

    problems = list(stray_folders(repository))
    used: dict[str, ModelConfig] = {}
    misplaced: set[str] = set()
    for model in models:
        found = list(layout_problems(repository, model))
        if found:
            misplaced.add(model)
        problems += found
        configs: dict[Path, ModelConfig] = {}
        for path in repository.configs(model):
            try:
                configs[path] = read_config(path)
            except ConfigurationError as error:
                problems.append(str(error))
        if paths[model] in configs:
            used[model] = configs[paths[model]]
        problems += _model_problems(repository, model, configs)

    problems += ensemble_problems(repository, {model: (paths[model], config) for model, config in used.items()})
    count = present_gpus() if gpus is None else gpus
    for model, config in used.items():
        problems += host_problems(paths[model], config, count)
    needed = {step.model for config in used.values() for step in config.steps}
    needed |= {model for model, config in used.items() if config.steps}
    problems += [
        f"{repository.path / model} has no version: build the models"
        for model in sorted(needed & used.keys() - misplaced)
        if not repository.version_folders(model)
    ]
    return problems


def _used(repository: ModelRepository, model: str, config_name: str) -> Path:
    default, *alternatives = repository.configs(model)
    return next((path for path in alternatives if path.stem == config_name), default)


def _model_problems(repository: ModelRepository, model: str, configs: dict[Path, ModelConfig]) -> Iterator[str]:
    """What can be said of one model without knowing the others."""
    default = configs.get(repository.configs(model)[0])
    for path, config in configs.items():
        if unknown := unknown_field(path):
            yield f"{path}:{unknown} (line:column): correct it, a server does not load the model"
        yield from configuration_problems(path, model, config)
        yield from accelerator_problems(path, config)
        for kind in _PROMISED if default else ():
            if getattr(config, kind) != getattr(default, kind):
                yield f"{path} has other {kind} than {CONFIG_NAME}: make them equal"
    yield from version_problems(repository, model, configs)
