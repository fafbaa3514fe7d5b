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


def test_validate(feedback, served: Path) -> None:
    assert feedback("models", "validate").exit_code == 0
    (served / "text_embedder/config.pbtxt").write_text('name: "other"\n')
    result = feedback("models", "validate", "--format", "json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["valid"] is False
    assert found["problems"]


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
