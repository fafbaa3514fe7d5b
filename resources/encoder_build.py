"""Building an encoder's models into a repository: fetch, wrap, check, then add all versions or none."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from resources.encoder_graph import GRAPH_REVISION, check_embedder, wrap_encoder
from resources.encoder_source import EncoderFiles, obtain_encoder
from resources.errors import ConfigurationError
from resources.model_config import parse_config, read_config, with_dims
from resources.model_repository import CONFIG_NAME, ModelCard, ModelRepository, sha256

TOKENIZER = "tokenizer"
EMBEDDER = "text_embedder"
EMBEDDINGS = "embeddings"
TOKENIZER_CODE = "model.py"
GRAPH_NAME = "model.onnx"

Details = dict[str, str | int | float]


def build_encoder(
    repository: ModelRepository, source: str, cache: Path, created_at: datetime, log: Callable[[str], None]
) -> dict[str, int]:
    """Adds a tokenizer, an embedder and the ensembles over them, made from one encoder.

    The configurations of every model with a tensor `embeddings` get the encoder's number of dimensions. A
    repeated build of the same encoder changes nothing. After a failure the repository is as it was.

    Args:
        repository: The repository to build into.
        source: `wheels:<name>`, `dir:<folder>` or `hf:<repository>[@<revision>]`.
        cache: A folder for downloaded files.
        created_at: The moment to note on the cards, with a time zone.
        log: Is told about progress, one line each.

    Returns:
        The version of each model that now serves this encoder.

    Raises:
        ConfigurationError: The source is unknown, incomplete or not such an encoder; or the repository lacks
            the models to build.
        ServerUnavailableError: A download failed.
        ResourceError: The wrapped graph does not compute what the encoder does.
    """
    code = repository.path / TOKENIZER / TOKENIZER_CODE
    missing = {TOKENIZER, EMBEDDER} - set(repository.models())
    if missing or not code.is_file():
        lacking = ", ".join(sorted(missing)) or f"{TOKENIZER}/{TOKENIZER_CODE}"
        raise ConfigurationError(f"{repository.path} lacks {lacking}: restore it from the sources")
    files = obtain_encoder(source, cache, log)
    origin: Details = {
        "encoder_sha256": sha256(files.model),
        "tokenizer_sha256": sha256(files.tokenizer),
        "graph_revision": GRAPH_REVISION,
    }
    graph, dims = _built_before(repository, files, origin) or _wrapped(files, log)

    with ExitStack() as undo:

        def add(model: str, content: Mapping[str, bytes | Path], details: Details) -> int:
            card = ModelCard(
                source=files.source,
                dims=None if model == TOKENIZER else dims,
                token_limit=files.token_limit,
                created_at=created_at,
                details=details,
            )
            before = repository.version_folders(model)
            version = repository.add_version(model, content, card)
            if version not in before:
                undo.callback(repository.remove_version, model, version)
            return version

        versions = {
            TOKENIZER: add(TOKENIZER, {TOKENIZER_CODE: code, "tokenizer.json": files.tokenizer}, {}),
            EMBEDDER: add(EMBEDDER, {GRAPH_NAME: graph}, origin),
        }
        # An ensemble has no files; naming its parts gives it a new version whenever one of them has.
        parts: Details = {f"{part}_version": version for part, version in versions.items()}
        for ensemble in _ensembles(repository):
            versions[ensemble] = add(ensemble, {}, parts)
        for path in _config_paths(repository):
            _set_dims(path, dims, undo)
        undo.pop_all()
    return versions


def _wrapped(files: EncoderFiles, log: Callable[[str], None]) -> tuple[bytes, int]:
    """The graph around the encoder, checked, and its number of dimensions."""
    log(f"wrapping {files.source}")
    embedder = wrap_encoder(files.model)
    difference = check_embedder(embedder, files.model, files.tokenizer, files.token_limit)
    log(f"checked: {embedder.dims} dims, {files.token_limit} tokens, greatest difference {difference:.1e}")
    return embedder.model, embedder.dims


def _built_before(repository: ModelRepository, files: EncoderFiles, origin: Details) -> tuple[Path, int] | None:
    """The newest version's graph, if it was made of the same files and is still as it was checked."""
    for version in repository.versions(EMBEDDER)[-1:]:
        card = repository.card(EMBEDDER, version)
        path = repository.version_path(EMBEDDER, version) / GRAPH_NAME
        same = card.details == origin and card.token_limit == files.token_limit
        if same and card.dims is not None and sha256(path) == card.files.get(GRAPH_NAME):
            return path, card.dims
    return None


def _ensembles(repository: ModelRepository) -> list[str]:
    """The models that chain the tokenizer and the embedder and nothing else."""
    configs = {model: read_config(repository.path / model / CONFIG_NAME) for model in repository.models()}
    parts = {TOKENIZER, EMBEDDER}
    return [model for model, config in configs.items() if {step.model for step in config.steps} == parts]


def _config_paths(repository: ModelRepository) -> list[Path]:
    return [path for model in repository.models() for path in repository.configs(model)]


def _set_dims(path: Path, dims: int, undo: ExitStack) -> None:
    """Rewrites a configuration that states another number of dimensions."""
    before = path.read_text(encoding="utf-8")
    after = with_dims(before, EMBEDDINGS, dims)
    config = parse_config(after, path)
    stated = {**config.inputs, **config.outputs}.get(EMBEDDINGS)
    if stated is not None and stated.dims != (dims,):
        raise ConfigurationError(f'{path}: write the tensor "{EMBEDDINGS}" with `dims: [ {dims} ]`')
    if after != before:
        undo.callback(_replace, path, before)
        _replace(path, after)


def _replace(path: Path, text: str) -> None:
    """Writes a file whole or not at all, with the permissions it had."""
    with tempfile.TemporaryDirectory(prefix=".staging-", dir=path.parent) as folder:
        staged = Path(folder) / path.name
        staged.write_text(text, encoding="utf-8")
        staged.chmod(path.stat().st_mode)
        staged.replace(path)
