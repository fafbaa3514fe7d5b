"""The Python environment that holds the embedded Triton server: which of its parts lie where.

It is made by `make setup`; running the server is not done here (`resources.embedded_triton`).
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from resources.errors import ConfigurationError


@dataclass(frozen=True)
class ServerEnvironment:
    """The server's own Python environment, and where in it the server's parts are.

    Attributes:
        path: The environment.
        site_packages: Where its packages lie.
        stub: The process in which the Python backend runs a model, of the environment's Python.
        library_path: Where the shared library of that Python lies; empty for a system folder.
    """

    path: Path
    site_packages: Path
    stub: Path
    library_path: str

    @classmethod
    def find(cls, path: Path) -> Self:
        """Looks for the parts.

        Raises:
            ConfigurationError: This is not Linux, or a part is missing.
        """
        if sys.platform != "linux":
            raise ConfigurationError(
                "the embedded Triton server needs Linux: set TRITON_URL to the host:port of a Triton server"
            )
        for site_packages in sorted(path.glob("lib/python3.*/site-packages")):
            parts = site_packages / "pytriton/tritonserver"
            python = site_packages.parent.name.removeprefix("python")
            stub = parts / "python_backend_stubs" / python / "triton_python_backend_stub"
            if (parts / "bin/tritonserver").is_file() and stub.is_file():
                return cls(path, site_packages, stub, _library_path(path, python))
        raise ConfigurationError(f"{path} holds no Triton server: run `make setup`")

    @property
    def python_backend(self) -> Path:
        """The folder of the Python backend."""
        return self.site_packages / "pytriton/tritonserver/backends/python"


def _library_path(environment: Path, python: str) -> str:
    """Where the environment's base interpreter keeps its shared library, if not in a system folder."""
    try:
        lines = (environment / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "home":
            folder = Path(value.strip()).parent / "lib"
            if any(folder.glob(f"libpython{python}.so*")):
                return str(folder)
    return ""
