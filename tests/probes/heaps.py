"""What the `heap` probe recorded, and what programs of known leaks say."""

from typing import Any

import pytest
from tests.probes.recording import Recording


def live(recording: Recording, pid: int = 0) -> dict[str, tuple[int, int]]:
    """The last state of the process: by the function that allocated, how many blocks and bytes."""
    states = {row["stack_id"]: row for row in recording.rows("heap_live") if row["pid"] == (pid or recording.pid)}
    found: dict[str, tuple[int, int]] = {}
    for row in states.values():
        name = (row["stack"] or "").rpartition(";")[2]
        count, size = found.get(name, (0, 0))
        found[name] = count + row["live_count"], size + row["live_bytes"]
    return found


def memory(recording: Recording, pid: int = 0) -> dict[str, Any]:
    """The last state of the whole process."""
    return [row for row in recording.rows("heap_memory") if row["pid"] == (pid or recording.pid)][-1]


def printed(capfd: pytest.CaptureFixture[str]) -> dict[str, int]:
    """What the program says about itself."""
    return {name: int(number) for name, number in (line.split() for line in capfd.readouterr().out.splitlines())}


def chunk(size: int) -> int:
    """What glibc takes for a block: a word more, in steps of 16 bytes (malloc/malloc.c, request2size)."""
    return max(32, size + 8 + 15 & ~15)
