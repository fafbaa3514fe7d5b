"""How much memory a process and those it started hold, as Linux counts it."""

import re
from pathlib import Path

_PARENT = re.compile(r"^PPid:\s+(\d+)", re.MULTILINE)
_HELD = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


def tree_memory(pid: int) -> int:
    """Bytes held by a process and its descendants; a page that several of them map counts once.

    0 where the process does not exist, or is not on a Linux that lets this one look.
    """
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        if found := _PARENT.search(_read(status)):
            children.setdefault(int(found[1]), []).append(int(status.parent.name))
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        waiting += children.get(one, [])
        if found := _HELD.search(_read(Path(f"/proc/{one}/smaps_rollup"))):
            total += int(found[1]) * 1024
    return total


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # it ended meanwhile, or is another user's
