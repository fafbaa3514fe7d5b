"""The embedded server of a project, as the command line starts, looks at and stops it."""

from pathlib import Path

from resources.embedded_triton import EmbeddedTriton
from resources.triton import TritonResource


def embedded_server(triton: TritonResource) -> EmbeddedTriton:
    """The server that `triton` would use where it has no URL."""
    return EmbeddedTriton(
        repository=Path(triton.repository),
        environment=Path(triton.environment),
        state=Path(triton.state),
        idle_stop_s=triton.idle_stop_s,
        ready_timeout_s=triton.ready_timeout_s,
    )
