"""Breakages of folders, of one configuration by itself, and of its settings for GPUs."""

import shutil
from pathlib import Path

from tests.resources.breakages import (
    EMBED_CONFIG,
    GPU_CONFIG,
    Case,
    add,
    both,
    edit,
    renamed,
    renamed_file,
    second_version,
    with_file,
)
from tests.resources.small_repository import CODE, graph


def without_whole(root: Path) -> None:
    """Leaves the parts of the ensemble without what must fit their configurations."""
    shutil.rmtree(root / "whole")


CASES = [
    # Folders
    Case(
        "no_configuration",
        with_file("stray/1/model.onnx", b""),
        "stray has no config.pbtxt: write one, or remove the folder",
    ),
    Case(
        "file_outside_a_version",
        both(renamed("embed/1/model.onnx", "embed/model.onnx"), lambda root: shutil.rmtree(root / "embed/1")),
        "embed/model.onnx lies outside a version: move it into embed/1",
        refused="embed",
    ),
    Case("version_v1", renamed("embed/1", "embed/v1"), "embed/v1 is no version: name the folder by a", refused="embed"),
    Case("version_01", renamed("embed/1", "embed/01"), "embed/01 is no version: name the folder by a", refused="embed"),
    Case("version_0", renamed("embed/1", "embed/0"), "embed/0 is no version: name the folder by a whole number from 1"),
    Case("no_version", lambda root: shutil.rmtree(root / "embed/1"), "embed has no version: build the models", "embed"),
    Case("empty_version", lambda root: (root / "embed/2").mkdir(), "embed/2 is empty: remove the folder", "embed"),
    Case(
        "no_card", lambda root: (root / "embed/1/model.json").unlink(), "embed/1 has no model.json: remove the folder"
    ),
    Case(
        "unreadable_card",
        lambda root: (root / "embed/1/model.json").write_text("{}"),
        "embed/1/model.json is not the card of a version: remove",
    ),
    Case(
        "file_gone",
        lambda root: (root / "embed/1/model.onnx").unlink(),
        "embed/1 lacks ['model.onnx'], which its model.json lists: remove",
        refused="embed",
    ),
    Case(
        "file_named_wrongly",
        renamed_file("embed/1/model.onnx", "embed/1/embed.onnx"),
        "embed/1 has no model.onnx, which embed/config.pbtxt serves, but ['embed.onnx']: rename it, or build",
        refused="embed",
    ),
    Case(
        "file_of_another_backend",
        renamed_file("ids/1/model.py", "ids/1/tokenizer.py"),
        "ids/1 has no model.py, which ids/config.pbtxt serves, but ['tokenizer.py']",
    ),
    Case(
        "configured_file_missing",
        add(EMBED_CONFIG, 'default_model_filename: "model.cpu.onnx"'),
        "embed/1 has no model.cpu.onnx, which embed/config.pbtxt serves, but ['model.onnx']",
    ),
    Case(
        "file_of_gpu_missing",
        add(GPU_CONFIG, 'default_model_filename: "model.fp16.onnx"'),
        "embed/1 has no model.fp16.onnx, which embed/configs/gpu.pbtxt serves, but ['model.onnx']",
    ),
    Case(
        "file_not_on_the_card",
        both(
            with_file("embed/1/model.cpu.onnx", graph().SerializeToString()),
            add(EMBED_CONFIG, 'default_model_filename: "model.cpu.onnx"'),
        ),
        "embed/1/model.json does not list model.cpu.onnx, which embed/config.pbtxt serves: build the version again",
    ),
    Case(
        "file_changed",
        lambda root: (root / "ids/1/model.py").write_text(CODE + "\n"),
        "ids/1/model.py has SHA-256 ",
    ),
    Case(
        "card_of_another_version",
        edit("embed/1/model.json", '"version": 1', '"version": 3'),
        "embed/1/model.json is that of embed version 3: remove the folder and build again",
    ),
    Case(
        "source_changed",
        lambda root: (root / "ids/model.py").write_text(CODE + "\n"),
        "ids/1/model.py was built with another ids/model.py: build again",
    ),
    # One configuration
    Case(
        "not_a_configuration",
        edit(EMBED_CONFIG, "input [", "input ("),
        "embed/config.pbtxt is not a model configuration",
        refused="embed",
    ),
    Case(
        "unknown_field",
        add(EMBED_CONFIG, "instance_groop { count: 1 }"),
        'embed/config.pbtxt:8:1 : Message type "inference.ModelConfig" has no field named "instance_groop"',
        refused="embed",
    ),
    Case(
        "other_name",
        edit("ids/config.pbtxt", 'name: "ids"\nb', 'name: "other"\nb'),
        "ids/config.pbtxt names the model 'other': name it as its folder, 'ids'",
        refused="ids",
    ),
    Case(
        "unknown_backend",
        edit(EMBED_CONFIG, 'backend: "onnxruntime"', 'backend: "onnx"'),
        "embed/config.pbtxt: no server knows the backend 'onnx': write one of",
        refused="embed",
    ),
    Case(
        "unknown_platform",
        edit(EMBED_CONFIG, 'backend: "onnxruntime"', 'platform: "onnx"'),
        "embed/config.pbtxt: no server knows the platform 'onnx': write `backend:` and one of",
        refused="embed",
    ),
    Case(
        "platform_of_another_backend",
        edit(EMBED_CONFIG, 'backend: "onnxruntime"', 'backend: "onnxruntime"\nplatform: "tensorrt_plan"'),
        "embed/config.pbtxt: the platform 'tensorrt_plan' is not of the backend 'onnxruntime': remove `platform:`",
        refused="embed",
    ),
    Case(
        "no_backend",
        both(
            edit("ids/config.pbtxt", 'backend: "python"\n', ""),
            renamed_file("ids/1/model.py", "ids/1/tokenizer.py"),
        ),
        "ids/config.pbtxt names no backend, and ids/1 has none's file: write `backend:` and one of",
    ),
    Case(
        "negative_batch",
        both(without_whole, edit("ids/config.pbtxt", "size: 8", "size: -1")),
        "ids/config.pbtxt: max_batch_size is -1: write the most rows, or 0 for none",
        refused="ids",
    ),
    Case(
        "size_of_zero",
        both(without_whole, edit("ids/config.pbtxt", "dims: [ 1 ]", "dims: [ 0 ]")),
        "ids/config.pbtxt: tensor 'text' has a size of 0: write a number from 1, or -1 for any",
        refused="ids",
    ),
    Case(
        "size_below_minus_one",
        both(without_whole, edit("ids/config.pbtxt", "dims: [ 1 ]", "dims: [ -2 ]")),
        "ids/config.pbtxt: tensor 'text' has a size of -2: write a number from 1, or -1 for any",
        refused="ids",
    ),
    Case(
        "no_dims",
        both(without_whole, edit("ids/config.pbtxt", ", dims: [ 1 ]", "")),
        "ids/config.pbtxt: tensor 'text' has no dims: write them, [ 1 ] for one value a row",
        refused="ids",
    ),
    Case(
        "no_type",
        both(without_whole, edit("ids/config.pbtxt", "data_type: TYPE_STRING, ", "")),
        "ids/config.pbtxt: tensor 'text' has no data_type: write it",
        refused="ids",
    ),
    Case(
        "no_tensor_name",
        both(without_whole, edit("ids/config.pbtxt", 'name: "text", ', "")),
        "ids/config.pbtxt: a tensor has no name: write it",
        refused="ids",
    ),
    Case(
        "tensor_twice",
        edit("ids/config.pbtxt", "input [ ", 'input [ { name: "text", data_type: TYPE_STRING, dims: [ 1 ] }, '),
        "ids/config.pbtxt lists the tensor 'text' twice: remove one",
    ),
    Case(
        "no_instances",
        edit("ids/config.pbtxt", "count: 1", "count: 0"),
        "ids/config.pbtxt: an instance_group has a count below 1: write how many instances to start",
    ),
    Case(
        "reshape",
        edit("ids/config.pbtxt", "TYPE_STRING, dims: [ 1 ]", "TYPE_STRING, dims: [ 1 ], reshape { shape: [ 2 ] }"),
        "ids/config.pbtxt: tensor 'text' cannot be reshaped from [1] to [2]: write shapes of equally many elements",
        refused="ids",
    ),
    Case(
        "policy_without_a_version",
        edit(EMBED_CONFIG, "num_versions: 1", "num_versions: 0"),
        "embed/config.pbtxt: version_policy serves no version: write a num_versions from 1",
        refused="embed",
    ),
    Case(
        "policy_of_absent_versions",
        edit(EMBED_CONFIG, "latest { num_versions: 1 }", "specific { versions: [ 1, 3 ] }"),
        "embed/config.pbtxt: version_policy names the versions [3] of [1]: build them, or name others",
    ),
    Case(
        "preferred_above_the_largest_batch",
        edit(GPU_CONFIG, "[ 4, 8 ]", "[ 4, 16 ]"),
        "embed/configs/gpu.pbtxt: preferred_batch_size [16] is above max_batch_size 8: lower it",
    ),
    Case(
        "no_default_priority",
        edit(GPU_CONFIG, "  default_priority_level: 2\n", ""),
        "embed/configs/gpu.pbtxt: default_priority_level is 0: write one from 1 to priority_levels, 2",
    ),
    Case(
        "policy_of_no_priority",
        edit(GPU_CONFIG, "key: 1,", "key: 3,"),
        "embed/configs/gpu.pbtxt: priority_queue_policy has the levels [3]: write levels from 1 to 2",
    ),
    Case(
        "warm_up_with_too_many_rows",
        edit(GPU_CONFIG, "batch_size: 8\n  inputs", "batch_size: 9\n  inputs"),
        "embed/configs/gpu.pbtxt: warm-up request 'short' has 9 rows: write at most 8 (max_batch_size)",
    ),
    Case(
        "warm_up_without_an_input",
        edit(GPU_CONFIG, 'inputs { key: "ids"', 'inputs { key: "id"'),
        "warm-up request 'short' gives ['id']: give what the model takes, ['ids']",
    ),
    Case(
        "warm_up_of_another_type",
        edit(GPU_CONFIG, "TYPE_INT32, dims: [ 16 ]", "TYPE_INT64, dims: [ 16 ]"),
        "warm-up request 'short' gives 'ids' as INT64 [16]: write it as INT32 [-1], with a number for each -1",
    ),
    Case(
        "alternative_with_other_tensors",
        edit(GPU_CONFIG, "TYPE_FP32", "TYPE_FP16"),
        "embed/configs/gpu.pbtxt has other outputs than config.pbtxt: make them equal",
    ),
    Case(
        "alternative_with_another_batch",
        both(
            edit(GPU_CONFIG, "max_batch_size: 8", "max_batch_size: 4"),
            edit(GPU_CONFIG, "[ 4, 8 ]", "[ 4 ]"),
            edit(GPU_CONFIG, "batch_size: 8\n  inputs", "batch_size: 4\n  inputs"),
        ),
        "embed/configs/gpu.pbtxt has other max_batch_size than config.pbtxt: make them equal",
    ),
    # GPUs
    Case(
        "gpus_of_a_cpu",
        edit("ids/config.pbtxt", "kind: KIND_CPU", "kind: KIND_CPU, gpus: [ 0 ]"),
        "ids/config.pbtxt names GPUs for a group of KIND_CPU: write KIND_GPU, or remove `gpus:`",
        refused="ids",
    ),
    Case(
        "absent_gpu",
        edit("ids/config.pbtxt", "kind: KIND_CPU", "kind: KIND_GPU, gpus: [ 1, 2 ]"),
        "ids/config.pbtxt asks for the GPUs [2], and the host has 2: name those that are there, or none for all",
        refused="ids",
    ),
    Case(
        "unknown_parameter_of_tensorrt",
        edit(GPU_CONFIG, "trt_engine_cache_enable", "trt_engine_cache"),
        "embed/configs/gpu.pbtxt: TensorRT has no parameters ['trt_engine_cache']: write those of",
    ),
    Case(
        "unknown_precision",
        edit(GPU_CONFIG, "FP16", "FP8"),
        "embed/configs/gpu.pbtxt: precision_mode is 'FP8': write one of ['FP32', 'FP16', 'INT8']",
    ),
    Case(
        "profile_without_an_input",
        edit(GPU_CONFIG, "ids:1x1", "id:1x1"),
        "embed/configs/gpu.pbtxt: trt_profile_min_shapes names ['id']: name the inputs, ['ids']",
    ),
    Case(
        "profile_in_part",
        edit(GPU_CONFIG, '  parameters { key: "trt_profile_opt_shapes", value: "ids:4x16" }\n', ""),
        "of the shapes of TensorRT's profile only ['trt_profile_min_shapes', 'trt_profile_max_shapes'] are given",
    ),
    Case(
        "profile_that_does_not_rise",
        edit(GPU_CONFIG, "ids:4x16", "ids:4x64"),
        "TensorRT's profile of 'ids' does not rise from min over opt to max, as [-1, -1]",
    ),
    Case(
        "profile_with_smaller_batches",
        edit(GPU_CONFIG, "ids:8x32", "ids:4x32"),
        "TensorRT's profile of 'ids' leaves out batches: write it from 1 to 8 rows",
    ),
    Case(
        "profile_that_cannot_be_read",
        edit(GPU_CONFIG, "ids:8x32", "ids:8,32"),
        "TensorRT's profile cannot be read at '32': write `name:1x2,other:1x2`",
    ),
    Case(
        "kept_engines_of_one_name",
        second_version(),
        "embed/configs/gpu.pbtxt keeps TensorRT's engines, and the graphs of versions [1, 2] have one name",
    ),
]
