"""Building an encoder's models into a repository: fetch, make graphs, measure, then add all versions or none."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from resources.bert_build import bert_graphs
from resources.bert_checkpoint import read_checkpoint
from resources.encoder_graph import GRAPH_REVISION, check_embedder, wrap_encoder
from resources.encoder_self_test import passes, self_test
from resources.encoder_source import EncoderFiles, obtain_encoder
from resources.encoder_variants import FidelityLimits, choose_variant, measure_variants
from resources.errors import ConfigurationError, ResourceError
from resources.model_config import parse_config, read_config, with_dims
from resources.model_repository import CONFIG_NAME, ModelCard, ModelRepository, Variant, sha256
from resources.whole_file import write_whole

TOKENIZER = "tokenizer"
EMBEDDER = "text_embedder"
EMBEDDINGS = "embeddings"
TOKENIZER_CODE = "model.py"
GRAPH_NAME = "model.onnx"
"""The graph with standard operators, for GPUs."""
CPU_GRAPH_NAME = "model.cpu.onnx"
"""The graph that CPUs serve."""
SELF_TEST_NAME = "model.cpu.selftest.npz"
"""What the CPU's graph gave where it was built."""

Details = dict[str, str | int | float]


@dataclass(frozen=True)
class _Embedder:
    """An embedder's version: its files, and what its card says of them."""

    files: dict[str, bytes | Path]
    dims: int
    variants: tuple[Variant, ...]


def build_encoder(
    repository: ModelRepository,
    source: str,
    cache: Path,
    created_at: datetime,
    log: Callable[[str], None],
    limits: FidelityLimits | None = None,
) -> dict[str, int]:
    """Adds a tokenizer, an embedder, the ensembles over them and what is written around them, made from one encoder.

    Of a BERT-family checkpoint several graphs are made and measured against the original; the fastest within the
    limits becomes the CPU's. An ONNX file is wrapped and serves everywhere. The table is `variants` of the card.
    The configurations of every model with a tensor `embeddings` get the encoder's number of dimensions. A
    repeated build of the same encoder changes nothing. After a failure the repository is as it was.

    Args:
        repository: The repository to build into.
        source: `wheels:<name>`, `dir:<folder>` or `hf:<repository>[@<revision>]`.
        cache: A folder for downloaded files.
        created_at: The moment to note on the cards, with a time zone.
        log: Is told about progress, one line each.
        limits: How far a graph may be from the original; the defaults unless given.

    Returns:
        The version of each model that now serves this encoder.

    Raises:
        ConfigurationError: The source is unknown, incomplete or not such an encoder; or the repository lacks
            the models to build.
        ServerUnavailableError: A download failed.
        ResourceError: A graph does not compute what the encoder does, or none is within the limits.
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
    if files.config is not None:
        origin["config_sha256"] = sha256(files.config)
    limits = limits or FidelityLimits()
    embedder = _built_before(repository, files, origin, limits) or _made(files, limits, log)

    with ExitStack() as undo:

        def add(
            model: str, content: Mapping[str, bytes | Path], details: Details, variants: tuple[Variant, ...] = ()
        ) -> int:
            card = ModelCard(
                source=files.source,
                dims=None if model == TOKENIZER else embedder.dims,
                token_limit=files.token_limit,
                created_at=created_at,
                details=details,
                variants=variants,
            )
            before = repository.version_folders(model)
            version = repository.add_version(model, content, card)
            if version not in before:
                undo.callback(repository.remove_version, model, version)
            return version

        versions = {
            TOKENIZER: add(TOKENIZER, {TOKENIZER_CODE: code, "tokenizer.json": files.tokenizer}, {}),
            EMBEDDER: add(EMBEDDER, embedder.files, origin, embedder.variants),
        }
        # An ensemble has no files; naming its parts gives it a new version whenever one of them has.
        parts: Details = {f"{part}_version": version for part, version in versions.items()}
        for ensemble in _ensembles(repository):
            versions[ensemble] = add(ensemble, {}, parts)
        for model in _written_around(repository):
            versions[model] = add(model, {TOKENIZER_CODE: repository.path / model / TOKENIZER_CODE}, {})
        for path in _config_paths(repository):
            _set_dims(path, embedder.dims, undo)
        undo.pop_all()
    return versions


def _made(files: EncoderFiles, limits: FidelityLimits, log: Callable[[str], None]) -> _Embedder:
    """The graphs of the encoder, checked and measured."""
    graphs, dims = _graphs(files, log)
    log(f"measuring {', '.join(graphs)}")
    variants = measure_variants(graphs, files.tokenizer, files.token_limit)
    chosen = choose_variant(variants, limits)
    if chosen is None:
        raise ResourceError(
            f"{files.source}: no graph is within the limits (mean cosine {limits.mean_cosine}, least cosine "
            f"{limits.min_cosine}, alone versus batch {limits.alone_versus_batch}): use another encoder, or loosen "
            "the limits"
        )
    cpu = graphs[chosen.name]
    return _Embedder(
        files={
            GRAPH_NAME: next(iter(graphs.values())),
            CPU_GRAPH_NAME: cpu,
            SELF_TEST_NAME: self_test(cpu, files.tokenizer, files.token_limit),
        },
        dims=dims,
        variants=tuple(one.model_copy(update={"served": one is chosen}) for one in variants),
    )


def _graphs(files: EncoderFiles, log: Callable[[str], None]) -> tuple[dict[str, bytes], int]:
    """The graphs by name, the one of standard operators first, and their number of dimensions."""
    if files.config is not None:
        log(f"writing the graphs of {files.source}")
        checkpoint = read_checkpoint(files.model, files.config)
        graphs = bert_graphs(checkpoint, files.model, files.tokenizer, files.token_limit, log)
        return graphs, checkpoint.config.hidden
    log(f"wrapping {files.source}")
    embedder = wrap_encoder(files.model)
    difference = check_embedder(embedder, files.model, files.tokenizer, files.token_limit)
    log(f"checked: {embedder.dims} dims, {files.token_limit} tokens, greatest difference {difference:.1e}")
    return {"as published": embedder.model}, embedder.dims


def _built_before(
    repository: ModelRepository, files: EncoderFiles, origin: Details, limits: FidelityLimits
) -> _Embedder | None:
    """The newest version's files, if they were made of the same and would be chosen and served here again."""
    for version in repository.versions(EMBEDDER)[-1:]:
        card = repository.card(EMBEDDER, version)
        folder = repository.version_path(EMBEDDER, version)
        held = {name: folder / name for name in (GRAPH_NAME, CPU_GRAPH_NAME, SELF_TEST_NAME)}
        chosen = choose_variant(card.variants, limits)
        if card.details != origin or card.token_limit != files.token_limit or card.dims is None:
            continue
        if chosen is None or not chosen.served or card.files != {name: sha256(path) for name, path in held.items()}:
            continue
        # The version may have been built on another CPU.
        if passes(held[CPU_GRAPH_NAME], held[SELF_TEST_NAME]):
            return _Embedder(files=dict(held), dims=card.dims, variants=card.variants)
    return None


def _ensembles(repository: ModelRepository) -> list[str]:
    """The models that chain the tokenizer and the embedder and nothing else."""
    configs = {model: read_config(repository.path / model / CONFIG_NAME) for model in repository.models()}
    parts = {TOKENIZER, EMBEDDER}
    return [model for model, config in configs.items() if {step.model for step in config.steps} == parts]


def _written_around(repository: ModelRepository) -> list[str]:
    """The other models whose code lies beside their configuration: they ask the encoder's models."""
    return [
        model
        for model in repository.models()
        if model != TOKENIZER and (repository.path / model / TOKENIZER_CODE).is_file()
    ]


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
        undo.callback(write_whole, path, before)
        write_whole(path, after)
