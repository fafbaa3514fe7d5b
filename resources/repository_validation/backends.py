"""What is known of the servers' backends: their names, the file each serves, and what their ONNX Runtime reads."""

from dataclasses import dataclass

from resources.model_config import ModelConfig

ENSEMBLE = "ensemble"
ONNX = "onnxruntime"

FILES = {
    ONNX: "model.onnx",
    "python": "model.py",
    "tensorrt": "model.plan",
    "pytorch": "model.pt",
    "openvino": "model.xml",
}
"""The file of a version that a backend serves where the configuration names none."""

PLATFORMS = {
    "onnxruntime_onnx": ONNX,
    "tensorrt_plan": "tensorrt",
    "pytorch_libtorch": "pytorch",
    "tensorflow_savedmodel": "tensorflow",
    "tensorflow_graphdef": "tensorflow",
}
"""The backend that each of the older platform names means; others are refused."""

OTHERS = {"dali", "fil", "tensorflow", "tensorrtllm", "vllm", "identity", "repeat", "square"}
"""Further backends of Triton's containers, which serve other files."""


@dataclass(frozen=True)
class Runtime:
    """The newest format that a version of ONNX Runtime reads, as loading graphs with it showed.

    Attributes:
        version: ONNX Runtime's version.
        server: Where it runs.
        opset: The newest opset of ONNX's own operators.
        ir: The newest version of the file format.
    """

    version: str
    server: str
    opset: int
    ir: int


EMBEDDED = Runtime("1.32.0", "the embedded server", opset=28, ir=14)
"""As model_repository/requirements.lock pins it; it serves config.pbtxt."""

CONTAINER = Runtime("1.19.2", "Triton 2.51's container", opset=21, ir=10)
"""As build.py of Triton's branch r24.10 pins it (TRITON_VERSION_MAP); it serves the alternatives in configs/."""


def backend_of(config: ModelConfig) -> str:
    """The backend's name; empty where the configuration names none, and where it is an ensemble."""
    if config.platform == ENSEMBLE:
        return ""
    named = config.backend or PLATFORMS.get(config.platform, "")
    # Without a name the server goes by the file's.
    return named or next((backend for backend, file in FILES.items() if file == config.file), "")
