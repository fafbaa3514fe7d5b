"""`feedback models`, `feedback triton` and `feedback doctor` where no server runs."""

import json
import os
import shutil
from pathlib import Path

import pytest


@pytest.fixture
def served(project: Path, built_repository: Path) -> Path:
    """The built models without any fitted one, as the project's own."""
    repository = project / "model_repository"
    shutil.copytree(built_repository, repository, copy_function=_link)
    for version in repository.glob("anomaly_detector/[0-9]*"):
        shutil.rmtree(version)
    return repository


def _link(source: str, target: str) -> None:
    """Only the weights are shared: a test may edit the rest."""
    (os.link if source.endswith(".onnx") else shutil.copy2)(source, target)


def test_list(feedback, served: Path) -> None:
    rows = {row["model"]: row for row in json.loads(feedback("models", "list", "--format", "json").stdout)}
    assert rows["text_embedder"]["dims"] == 384
    assert len(rows["text_embedder"]["sha256"]) == 64
    assert rows["anomaly_detector"]["version"] is None
    assert "feedback run --select anomaly_model" in rows["anomaly_detector"]["source"]
    assert "text_embedder" in feedback("models", "list").stdout


@pytest.mark.parametrize("options", [(), ("--config-name", "gpu", "--gpus", "1")])
def test_validate(feedback, served: Path, options: tuple[str, ...]) -> None:
    result = feedback("models", "validate", *options)
    assert (result.exit_code, result.stdout) == (0, "every model can be served\n")
    result = feedback("models", "validate", *options, "--format", "json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"valid": True, "problems": []})


@pytest.mark.parametrize(
    ("file", "old", "new", "options", "line"),
    [
        ("tokenizer/config.pbtxt", '"tokenizer"', '"other"', (), "names the model 'other': name it as its folder"),
        ("text_embedder/config.pbtxt", '"onnxruntime"', '"onnx"', (), "no server knows the backend 'onnx': write one"),
        ("feedback_encoder/config.pbtxt", "FP32", "FP16", (), "the answer takes it as FP16 [-1, 384]: make them equal"),
        ("text_embedder/configs/gpu.pbtxt", "FP16", "FP8", (), "precision_mode is 'FP8': write one of"),
        (
            "text_embedder/configs/gpu.pbtxt",
            "KIND_GPU }",
            "KIND_GPU, gpus: [ 0, 1 ] }",
            ("--config-name", "gpu", "--gpus", "1"),
            "asks for the GPUs [1], and the host has 1: name those that are there, or none for all",
        ),
    ],
)
def test_validate_of_a_broken_repository(
    feedback, served: Path, file: str, old: str, new: str, options: tuple[str, ...], line: str
) -> None:
    text = (served / file).read_text()
    assert old in text
    (served / file).write_text(text.replace(old, new))

    result = feedback("models", "validate", *options)

    assert result.exit_code == 1
    assert result.stdout.count("\n") == 1
    assert f"model_repository/{file}" in result.stdout
    assert line in result.stdout


def test_validate_for_a_host_without_gpus(feedback, served: Path) -> None:
    result = feedback("models", "validate", "--config-name", "gpu", "--gpus", "0", "--format", "json")
    assert result.exit_code == 1
    problems = json.loads(result.stdout)["problems"]
    assert [problem.partition("/model_repository/")[2].split("/")[0] for problem in problems] == [
        "anomaly_detector",
        "text_embedder",
    ]
    assert all("asks for a GPU, and the host has none" in problem for problem in problems)


def test_validate_of_a_configuration_that_no_model_has(feedback, served: Path, one_line) -> None:
    one_line(feedback("models", "validate", "--config-name", "tpu"), "configs/tpu.pbtxt")


def test_build_refuses_an_unknown_source(feedback, served: Path, one_line) -> None:
    one_line(feedback("models", "build", "--source", "floppy:a"), "floppy")


def test_without_a_repository(feedback, one_line) -> None:
    one_line(feedback("models", "list"), "model_repository")


def test_triton_status_starts_nothing(feedback, project: Path, served: Path) -> None:
    result = feedback("triton", "status", "--format", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["running"] is False
    assert not (project / ".triton").exists()
    assert "no server is running" in feedback("triton", "status").stdout


def test_triton_stop_without_a_server(feedback, served: Path) -> None:
    result = feedback("triton", "stop", "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"stopped": False}


def test_triton_of_another_machine(feedback, served: Path, one_line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_URL", "127.0.0.1:9")
    one_line(feedback("triton", "status"), "127.0.0.1:9", "TRITON_URL", code=1)
    assert json.loads(feedback("triton", "status", "--format", "json").stdout)["running"] is False
    one_line(feedback("triton", "serve"), "127.0.0.1:9", "unset TRITON_URL")


def test_triton_serve_without_its_environment(feedback, served: Path, one_line) -> None:
    one_line(feedback("triton", "serve"), ".triton-venv", "make setup")


def states(feedback) -> dict[str, str]:
    result = feedback("doctor", "--format", "json")
    found = {finding["what"]: finding for finding in json.loads(result.stdout)}
    assert result.exit_code == int(any(finding["state"] == "fail" for finding in found.values()))
    return {what: f"{finding['state']}: {finding['detail']}" for what, finding in found.items()}


def test_doctor_of_a_sound_project(feedback, project: Path, served: Path, triton_environment: Path) -> None:
    (project / ".triton-venv").symlink_to(triton_environment)
    found = states(feedback)
    assert not any(state.startswith("fail") for state in found.values()), found
    assert found["model anomaly_detector"].startswith("warn: no version yet")
    assert "`deferred`" in found["LLM"]
    assert "thresholds.yaml" in feedback("doctor").stdout


def test_doctor_names_what_is_wrong(feedback, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "config/sources.yaml").write_text("sources:\n  shop: {}\n")
    (project / "landing").write_text("a file in the way")
    (project / "dagster.yaml").unlink()
    found = states(feedback)
    assert "sources.yaml:2: sources.shop.columns: is missing" in found["config/sources.yaml"]
    assert found["landing zone"].startswith("fail")
    assert found["models"].startswith("fail")
    assert "make setup" in found["Triton environment"]
    assert found["Dagster"].startswith("fail")
    monkeypatch.setenv("TRITON_URL", "127.0.0.1:9")
    assert "127.0.0.1:9" in states(feedback)["Triton"]


def test_doctor_outside_a_project(feedback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert states(feedback)["project"].startswith("fail")
