"""The switch by which a person stops all inference: a file that every process looks at before it asks a model.

Who turned it, when and why belong here. What it stops does not: see `resources.triton`.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from resources.errors import ConfigurationError
from resources.triton_errors import InferencePausedError

FILE_NAME: Final = "paused.json"


@dataclass(frozen=True)
class Pause:
    """An inference that is paused.

    Attributes:
        by: User and machine.
        at: ISO 8601 in UTC.
        reason: As the person gave it; may be empty.
    """

    by: str
    at: str
    reason: str

    def __str__(self) -> str:
        return f"paused by {self.by} at {self.at}" + (f" ({self.reason})" if self.reason else "")


class PauseSwitch:
    """The switch of a state directory.

    Args:
        state: The directory that the processes share.
    """

    def __init__(self, state: Path) -> None:
        self._file = state / FILE_NAME

    def turn_off(self, reason: str = "") -> Pause:
        """Stops inference; gives who did, which is somebody else where it was stopped already.

        Raises:
            ConfigurationError: The directory cannot be written.
        """
        pause = Pause(
            f"{getpass.getuser()}@{socket.gethostname()}",
            datetime.now(UTC).isoformat(timespec="seconds"),
            " ".join(reason.split()),
        )
        draft = self._file.with_suffix(f".{socket.gethostname()}.{id(self)}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(asdict(pause), indent=1), encoding="utf-8")
            try:
                # A link, unlike a rename, leaves alone what is there.
                self._file.hardlink_to(draft)
            except FileExistsError:
                return self.paused() or pause
            finally:
                draft.unlink()
        except OSError as error:
            raise ConfigurationError(f"{self._file} cannot be written ({error.strerror}): allow writing it") from None
        return pause

    def turn_on(self) -> Pause | None:
        """Lets inference go on; gives the pause that this ends, or None where there was none.

        Raises:
            ConfigurationError: The file cannot be removed.
        """
        pause = self.paused()
        try:
            self._file.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{self._file} cannot be removed ({error.strerror}): allow it") from None
        return pause

    def paused(self) -> Pause | None:
        """Who stopped inference, or None. A file that says nothing readable stops it as well."""
        try:
            return Pause(**json.loads(self._file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError):
            return Pause("somebody", "an unknown time", f"{self._file} cannot be read")

    def check(self) -> None:
        """Returns if inference may go on.

        Raises:
            InferencePausedError: It may not; says who stopped it, when, and how to go on.
        """
        # Asked before each request: looking is quicker than opening in vain.
        if os.access(self._file, os.F_OK) and (pause := self.paused()):
            raise InferencePausedError(f"inference is {pause}: `feedback triton resume` lets it go on")
