"""What the code location holds, as a user finds it in the UI, and that it loads fast and refuses bad limits."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from platform_assets.definitions import build_defs
from platform_assets.jobs import DAY_ASSETS
from platform_assets.partitions import ARRIVAL_DAYS
from platform_assets.settings import Settings
from resources.errors import ConfigurationError

BLOCKING = {
    "raw_feedback": {"records_conserved", "ids_unique", "files_match_contract", "schema"},
    "feedback_embeddings": {"one_vector_per_sendable_row", "vectors_sound", "schema"},
    "anomaly_scores": {"one_score_per_vector", "schema"},
    "normalized_feedback": {"one_record_per_row", "values_allowed", "schema"},
    "daily_summary": {"volumes_add_up", "schema"},
}
WARNING = {
    "raw_feedback": {"share_quarantined"},
    "feedback_embeddings": {"share_failed_embeddings"},
    "anomaly_scores": {"share_anomalous", "novelty_drift"},
    "normalized_feedback": {"share_deferred", "language_mix"},
    "served_models": {"served_as_pinned"},
}
HEAVY = {"numpy", "tritonclient", "grpc", "deltalake", "duckdb", "onnx", "onnxruntime", "sklearn", "lingua", "openai",
         "vaderSentiment", "pyarrow", "psycopg", "confluent_kafka", "obstore", "fastexcel", "jiter"}  # fmt: skip


@pytest.fixture
def copy(project_root: Path, tmp_path: Path) -> Path:
    """A project with the shipped configuration."""
    shutil.copytree(project_root / "config", tmp_path / "config")
    return tmp_path


@pytest.fixture(scope="module")
def definitions(project_root: Path) -> dg.Definitions:
    return build_defs(Settings(project_root))


def checks_by_asset(definitions: dg.Definitions, *, blocking: bool) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in definitions.asset_checks or []:
        assert isinstance(one, dg.AssetChecksDefinition)
        for spec in one.check_specs:
            if spec.blocking is blocking:
                found.setdefault(spec.asset_key.to_user_string(), set()).add(spec.name)
    return found


def test_the_assets_and_their_days(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == {
        *DAY_ASSETS,
        "anomaly_model",
        "served_models",
    }
    by_day = {key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).partitions_def}
    assert by_day == set(DAY_ASSETS)
    assert all(graph.get(dg.AssetKey(name)).partitions_def == ARRIVAL_DAYS for name in DAY_ASSETS)


def test_every_asset_shows_its_columns_group_and_description(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert node.metadata["dagster/column_schema"].columns
        assert node.group_name != "default"
        assert node.description
        assert node.kinds


def test_today_is_a_partition() -> None:
    assert ARRIVAL_DAYS.get_last_partition_key() == str(datetime.now(UTC).date())
    assert ARRIVAL_DAYS.get_first_partition_key() == "2025-01-01"


def test_the_checks_and_which_of_them_block(definitions: dg.Definitions) -> None:
    assert checks_by_asset(definitions, blocking=True) == BLOCKING
    assert checks_by_asset(definitions, blocking=False) == WARNING
    specs = [spec for one in definitions.asset_checks or [] for spec in one.check_specs]
    assert all(spec.description for spec in specs)
    assert {spec.asset_key.path[0] for spec in specs if spec.partitions_def != ARRIVAL_DAYS} == {"served_models"}


def test_the_owner_may_let_any_limit_block(copy: Path) -> None:
    path = copy / "config/thresholds.yaml"
    path.write_text(path.read_text().replace("    min_rows: 20\n", "    min_rows: 20\n    severity: block\n"))
    found = build_defs(Settings(copy))
    assert checks_by_asset(found, blocking=False) == {"served_models": {"served_as_pinned"}}
    everything = {asset: BLOCKING[asset] | WARNING.get(asset, set()) for asset in BLOCKING}
    assert checks_by_asset(found, blocking=True) == everything


def test_the_sensors_run_from_the_start(definitions: dg.Definitions) -> None:
    sensors = {sensor.name: sensor.default_status for sensor in definitions.sensors or []}
    assert sensors == dict.fromkeys(
        ["landing_sensor", "anomaly_model_sensor", "default_automation_condition_sensor"],
        dg.DefaultSensorStatus.RUNNING,
    )


def test_the_jobs(definitions: dg.Definitions) -> None:
    day, fit = definitions.resolve_job_def("feedback_day"), definitions.resolve_job_def("fit_anomaly_model")
    assert {key.to_user_string() for key in day.asset_layer.executable_asset_keys} == set(DAY_ASSETS)
    assert {key.to_user_string() for key in fit.asset_layer.executable_asset_keys} == {"anomaly_model"}
    expected = {f"{asset}:{name}" for asset in BLOCKING for name in BLOCKING[asset] | WARNING.get(asset, set())}
    held = {f"{key.asset_key.to_user_string()}:{key.name}" for key in day.asset_layer.asset_graph.asset_check_keys}
    assert held == expected


def test_resources_may_be_replaced(project_root: Path) -> None:
    marked = dg.ResourceDefinition.hardcoded_resource("mine")
    found = build_defs(Settings(project_root), resource_overrides={"triton": marked})
    assert (found.resources or {})["triton"] is marked
    assert set(found.resources or {}) == {"settings", "lake", "landing", "triton", "lake_io"}


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("  novelty_drift:\n    limit: 2\n", "  novelty_drift:\n    limit: many\n", "checks.novelty_drift.limit"),
        ("share_deferred:", "share_defered:", "checks.share_defered: unknown key"),
        ("false_alarm_rate: 0.01", "false_alarm_rate: 2", "anomaly_model.false_alarm_rate"),
    ],
)
def test_a_bad_limit_is_refused_at_load_with_file_and_line(copy: Path, before: str, after: str, says: str) -> None:
    path = copy / "config/thresholds.yaml"
    text = path.read_text()
    path.write_text(text.replace(before, after))
    lines = path.read_text().splitlines()
    line = next(number for number, found in enumerate(lines, 1) if after.strip().splitlines()[-1].strip() in found)
    with pytest.raises(ConfigurationError) as caught:
        build_defs(Settings(copy))
    message = str(caught.value)
    if "unknown key" in says:
        assert message.startswith(f"{path}:")
        assert "checks.share_deferred: is missing" in message or says in message
    else:
        assert message.startswith(f"{path}:{line}: {says}")


def python(code: str, cwd: Path, **variables: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


def test_loading_the_definitions_imports_nothing_heavy(project_root: Path) -> None:
    code = (
        f"import sys, platform_assets.definitions as found\nfound.defs()\nprint(sorted({HEAVY!r} & set(sys.modules)))"
    )
    assert python(code, project_root, PYTHONPATH=str(project_root)).strip() == "[]"


def test_importing_the_definitions_reads_no_file_and_needs_no_project(project_root: Path, tmp_path: Path) -> None:
    assert (
        python("import platform_assets.definitions; print('fine')", tmp_path, PYTHONPATH=str(project_root)) == "fine\n"
    )


@pytest.mark.parametrize("command", ["check", "list"])
def test_dg_takes_the_project(project_root: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    run = subprocess.run(
        [Path(sys.executable).with_name("dg"), command, "defs"],
        cwd=project_root,
        env={**os.environ, "DAGSTER_HOME": str(tmp_path), "PYTHONPATH": str(project_root), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    if command == "list":
        for name in (*DAY_ASSETS, "anomaly_model", "landing_sensor", "feedback_day", "novelty_drift"):
            assert name in run.stdout
