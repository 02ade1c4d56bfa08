"""The memory that tasks have in the kernel for their rings and maps, and its bound."""

import os
import threading

from scope_agentd.errors import TooMuchMemory

_SHARE = 4  # without a setting, tasks may have one part in so many of the machine's memory


class TaskMemory:
    """For any thread.

    Args:
        limit_bytes: of all runs together; None: a quarter of the machine's memory.
    """

    def __init__(self, limit_bytes: int | None) -> None:
        of_machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._limit = limit_bytes or of_machine // _SHARE
        self._lock = threading.Lock()
        self._taken: dict[bytes, int] = {}  # by run

    def take(self, run_id: bytes, size: int) -> None:
        """Counts what a run has.

        Raises:
            TooMuchMemory: with it, all runs would have more than the limit; it is not counted.
        """
        with self._lock:
            taken = sum(self._taken.values())
            if taken + size > self._limit:
                raise TooMuchMemory(
                    f"the task needs {_mb(size)} for rings and maps; running tasks ({len(self._taken)}) have "
                    f"{_mb(taken)}, and all may have {_mb(self._limit)}: stop tasks, choose a smaller ring_bytes, or "
                    "raise task_bytes in the agent's settings"
                )
            self._taken[run_id] = size

    def give_back(self, run_id: bytes) -> None:
        """Forgets what a run had. May be called again."""
        with self._lock:
            self._taken.pop(run_id, None)


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
