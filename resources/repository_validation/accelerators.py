"""GPUs: whether the host has those that a configuration asks for, and whether its TensorRT settings can be read.

Nothing here asks a driver: a GPU is there if its device file is.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from resources.model_config import ModelConfig
from resources.repository_validation.backends import backend_of
from resources.repository_validation.shapes import full

_GPU, _CPU = "KIND_GPU", "KIND_CPU"
_PRECISIONS = ("FP32", "FP16", "INT8")
_PROFILE = {bound: f"trt_profile_{bound}_shapes" for bound in ("min", "opt", "max")}
_OTHER_PARAMETERS = """
    precision_mode max_workspace_size_bytes trt_max_partition_iterations trt_min_subgraph_size
    int8_calibration_table_name int8_use_native_calibration_table trt_dla_enable trt_dla_core
    trt_engine_cache_enable trt_engine_cache_path trt_engine_cache_prefix trt_dump_subgraphs
    trt_force_sequential_engine_build trt_context_memory_sharing_enable trt_layer_norm_fp32_fallback
    trt_timing_cache_enable trt_timing_cache_path trt_force_timing_cache trt_detailed_build_log
    trt_build_heuristics_enable trt_sparsity_enable trt_builder_optimization_level trt_auxiliary_streams
    trt_tactic_sources trt_extra_plugin_lib_paths trt_cuda_graph_enable trt_dump_ep_context_model
    trt_ep_context_file_path trt_ep_context_embed_mode
"""
_PARAMETERS = {*_OTHER_PARAMETERS.split(), *_PROFILE.values()}
"""Those of the table "Parameter mapping" in the README of Triton's onnxruntime_backend."""


def present_gpus() -> int:
    """The NVIDIA GPUs of this host, or those that its container was given."""
    return sum(device.name.removeprefix("nvidia").isdigit() for device in Path("/dev").glob("nvidia[0-9]*"))


def keeps_engines(config: ModelConfig) -> bool:
    """Whether TensorRT's engines are kept in a folder and found again."""
    return config.accelerators.get("tensorrt", {}).get("trt_engine_cache_enable", "").lower() in ("1", "true")


def host_problems(path: Path, config: ModelConfig, gpus: int) -> Iterator[str]:
    """GPUs that a configuration asks for and the host has not."""
    asked = sorted({number for group in config.groups if group.kind == _GPU for number in group.gpus})
    absent = [number for number in asked if number >= gpus]
    if absent:
        yield f"{path} asks for the GPUs {absent}, and the host has {gpus}: name those that are there, or none for all"
    elif gpus == 0 and any(group.kind == _GPU for group in config.groups):
        yield f"{path} asks for a GPU, and the host has none: write {_CPU}, or serve it on a host with a GPU"
    elif gpus == 0 and backend_of(config) == "tensorrt":
        yield f"{path} is served by TensorRT, and the host has no GPU: serve it on a host with one"


def accelerator_problems(path: Path, config: ModelConfig) -> Iterator[str]:
    """What is wrong on any host."""
    for group in config.groups:
        if group.gpus and group.kind == _CPU:
            yield f"{path} names GPUs for a group of {_CPU}: write {_GPU}, or remove `gpus:`"
        if any(number < 0 for number in group.gpus):
            yield f"{path} names the GPUs {list(group.gpus)}: write numbers from 0"
    parameters = config.accelerators.get("tensorrt")
    if parameters is None:
        return
    unknown = sorted(parameters.keys() - _PARAMETERS)
    if unknown:
        yield f"{path}: TensorRT has no parameters {unknown}: write those of the onnxruntime backend's README"
    precision = parameters.get("precision_mode", _PRECISIONS[0])
    if precision not in _PRECISIONS:
        yield f"{path}: precision_mode is {precision!r}: write one of {list(_PRECISIONS)}"
    stated = [name for name in _PROFILE.values() if name in parameters]
    if stated and len(stated) < len(_PROFILE):
        yield f"{path}: of the shapes of TensorRT's profile only {stated} are given: write {list(_PROFILE.values())}"
    elif stated:
        yield from _profile_problems(path, config, {bound: parameters[name] for bound, name in _PROFILE.items()})


def _profile_problems(path: Path, config: ModelConfig, texts: Mapping[str, str]) -> Iterator[str]:
    """The profile must name every input, and every request must lie within it."""
    try:
        profiles = {bound: _shapes(text) for bound, text in texts.items()}
    except ValueError as error:
        yield f"{path}: TensorRT's profile cannot be read at {error}: write `name:1x2,other:1x2`"
        return
    for bound, shapes in profiles.items():
        if shapes.keys() != config.inputs.keys():
            yield f"{path}: {_PROFILE[bound]} names {sorted(shapes)}: name the inputs, {sorted(config.inputs)}"
            return
    for name, tensor in config.inputs.items():
        expected = full(tensor, config.max_batch_size)
        least, usual, most = (profiles[bound][name] for bound in ("min", "opt", "max"))
        lengths = {len(shape) for shape in (least, usual, most)}
        ordered = all(a <= b <= c for a, b, c in zip(least, usual, most, strict=False))
        if lengths != {len(expected)} or not ordered:
            yield f"{path}: TensorRT's profile of {name!r} does not rise from min over opt to max, as {list(expected)}"
        elif config.max_batch_size > 0 and not (least[0] == 1 and most[0] >= config.max_batch_size):
            most_rows = config.max_batch_size
            yield f"{path}: TensorRT's profile of {name!r} leaves out batches: write it from 1 to {most_rows} rows"


def _shapes(text: str) -> dict[str, tuple[int, ...]]:
    """Shapes by name from `name:1x2,other:1x2`.

    Raises:
        ValueError: The text has another form; names the part.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for part in text.split(","):
        name, _, sizes = part.strip().rpartition(":")
        if not name or not all(size.isdigit() for size in sizes.split("x")):
            raise ValueError(repr(part))
        shapes[name] = tuple(int(size) for size in sizes.split("x"))
    return shapes
