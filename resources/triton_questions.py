"""What a Triton server is asked besides inferences, and how its answers are read.

Messages of the protocol become plain values here. Whom to ask, and what to do about errors, do not belong here: see
`resources.triton`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from resources.triton_contract import ModelMetadata, TensorSpec
from resources.triton_errors import one_line

if TYPE_CHECKING:
    from tritonclient.grpc import InferenceServerClient


@dataclass(frozen=True)
class ModelStatus:
    """A version of a model, as its server sees it.

    Attributes:
        name: The model's name.
        version: Empty where the server holds none.
        state: `READY`, `LOADING`, `UNLOADING` or `UNAVAILABLE`.
        reason: Why it is not ready; empty if it is.
        inference_count: Rows inferred since the server started.
    """

    name: str
    version: str
    state: str
    reason: str
    inference_count: int


def described(client: InferenceServerClient, timeout_s: float, model: str, version: str) -> ModelMetadata:
    """A model, or the newest version of it, as its server describes it.

    Raises:
        InferenceServerException: What the client or the server reports.
    """
    metadata = client.get_model_metadata(model, version, client_timeout=timeout_s)
    config = client.get_model_config(model, version, client_timeout=timeout_s).config
    versions = tuple(sorted(metadata.versions, key=int))
    return ModelMetadata(
        name=model,
        versions=versions,
        version=version or versions[-1],
        max_batch_size=config.max_batch_size,
        inputs={one.name: TensorSpec(one.datatype, tuple(one.shape)) for one in metadata.inputs},
        outputs={one.name: TensorSpec(one.datatype, tuple(one.shape)) for one in metadata.outputs},
        file=config.default_model_filename,
        steps={
            one.model_name: str(one.model_version) if one.model_version > 0 else ""
            for one in config.ensemble_scheduling.step
        },
    )


def listed(client: InferenceServerClient, timeout_s: float) -> list[ModelStatus]:
    """Every model that a server has seen in its repository.

    Raises:
        InferenceServerException: What the client or the server reports.
    """
    index = client.get_model_repository_index(client_timeout=timeout_s).models
    statistics = client.get_inference_statistics(client_timeout=timeout_s).model_stats
    counts = {(one.name, one.version): one.inference_count for one in statistics}
    return [
        ModelStatus(
            name=one.name,
            version=one.version,
            state=one.state or "UNAVAILABLE",
            reason=one_line(one.reason) if one.state else "not loaded",
            inference_count=counts.get((one.name, one.version), 0),
        )
        for one in index
    ]


def merged(lists: Iterable[list[ModelStatus]]) -> list[ModelStatus]:
    """The models of several servers, by name and version: the server where one is not ready speaks for all."""
    found: dict[tuple[str, str], ModelStatus] = {}
    for one in (one for models in lists for one in models):
        before = found.get((one.name, one.version))
        if before is None:
            found[one.name, one.version] = one
            continue
        said = one if before.state == "READY" else before
        rows = one.inference_count + before.inference_count
        found[one.name, one.version] = replace(said, inference_count=rows)
    return sorted(found.values(), key=lambda one: (one.name, int(one.version or 0)))
