"""A server that speaks Triton's protocol over a socket, for faults that a real one cannot be brought to."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc


class FakeTriton(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Serves any model from `x` to `y`, both of one type and shape; a subclass says what it answers."""

    datatype = "FP32"
    shape: Sequence[int] = (-1, 4)

    def ServerLive(self, request, context):  # noqa: N802
        return service_pb2.ServerLiveResponse(live=True)

    def ModelMetadata(self, request, context):  # noqa: N802
        x, y = (
            service_pb2.ModelMetadataResponse.TensorMetadata(name=name, datatype=self.datatype, shape=self.shape)
            for name in "xy"
        )
        return service_pb2.ModelMetadataResponse(name=request.name, versions=["1"], inputs=[x], outputs=[y])

    def ModelConfig(self, request, context):  # noqa: N802
        response = service_pb2.ModelConfigResponse()
        response.config.name = request.name
        response.config.max_batch_size = 8
        return response


@contextmanager
def serving(servicer: FakeTriton) -> Iterator[str]:
    """The address of a server of it."""
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait()
