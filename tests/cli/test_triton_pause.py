import getpass
import json
from pathlib import Path

import pytest

from resources.triton import TritonResource
from resources.triton_supervisor import read_record


def test_pause_is_seen_and_resume_ends_it(feedback, project: Path) -> None:
    said = feedback("triton", "pause", "--reason", "moving the server").stdout
    assert said.startswith(f"inference is paused by {getpass.getuser()}@")
    assert said.endswith("(moving the server); `feedback triton resume` lets it go on\n")
    # Who came second does not take the place of who came first.
    assert "moving the server" in feedback("triton", "pause", "--reason", "another").stdout
    status = json.loads(feedback("triton", "status", "--format", "json").stdout)
    assert status["paused"]["reason"] == "moving the server"
    assert "moving the server" in feedback("triton", "status").stdout
    findings = json.loads(feedback("doctor", "--format", "json").stdout)
    assert [one["state"] for one in findings if one["what"] == "inference"] == ["warn"]

    assert "it was paused by" in feedback("triton", "resume").stdout
    assert feedback("triton", "resume").stdout == "inference was not paused\n"
    assert json.loads(feedback("triton", "status", "--format", "json").stdout)["paused"] is None
    assert [file.name for file in (project / ".triton").iterdir()] == []


def test_a_pause_that_cannot_be_read_is_one(feedback, project: Path) -> None:
    feedback("triton", "pause")
    (project / ".triton" / "paused.json").write_text("{")
    assert "paused by somebody" in feedback("triton", "status").stdout
    feedback("triton", "resume")
    assert "paused" not in feedback("triton", "status").stdout


@pytest.mark.integration
def test_status_tells_of_each_server(feedback, triton: TritonResource, monkeypatch: pytest.MonkeyPatch) -> None:
    server = read_record(Path(triton.state))
    assert server is not None
    monkeypatch.setenv("TRITON_URL", f"127.0.0.1:9,{server.url}")
    result = feedback("triton", "status", "--format", "json")
    assert result.exit_code == 0
    status = json.loads(result.stdout)
    assert [one["version"] is not None for one in status["servers"]] == [False, True]
    assert "no Triton server answers at 127.0.0.1:9" in status["servers"][0]["problem"]
    assert "text_embedder" in {model["name"] for model in status["models"]}
    assert f"at {server.url}" in feedback("triton", "status").stdout
