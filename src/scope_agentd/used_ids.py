"""The ids that tasks have had on this machine, in a file: each is used once.

Sequences and books belong to an id. A second task of the same id would begin them anew, and the server, which has seen
those sequences, would take its batches for repeats.
"""

import os
from pathlib import Path

from scope_agentd.errors import TaskConflict

KEPT = 100_000  # the newest; 3.7 MB


class UsedIds:
    """Remembers ids across runs of the agent; the file has one a line, oldest first."""

    def __init__(self, file: Path) -> None:
        known = file.read_text().split() if file.exists() else []
        if len(known) > KEPT:
            known = known[-KEPT:]
            shorter = file.with_suffix(".new")
            shorter.write_text("".join(f"{task_id}\n" for task_id in known))
            shorter.replace(file)
        self._file = file
        self._ids = set(known)

    def add(self, task_id: str) -> None:
        """Takes an id for a new task.

        Raises:
            TaskConflict: a task has had it.
        """
        if task_id in self._ids:
            raise TaskConflict(f"task '{task_id}' ran before the agent was started; choose another id, or give none")
        with self._file.open("a") as file:
            file.write(f"{task_id}\n")
            file.flush()
            os.fsync(file.fileno())
        self._ids.add(task_id)
