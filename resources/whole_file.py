"""Small text files that a reader sees as they were or as they shall be, and never half written."""

import tempfile
from pathlib import Path

from resources.errors import ConfigurationError


def write_whole(path: Path, text: str) -> None:
    """Writes a file whole or not at all; one that is there keeps its permissions.

    Raises:
        ConfigurationError: The place cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".staging-", dir=path.parent) as folder:
            staged = Path(folder) / path.name
            staged.write_text(text, encoding="utf-8")
            if path.exists():
                staged.chmod(path.stat().st_mode)
            staged.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written ({error.strerror}): allow writing there") from error
