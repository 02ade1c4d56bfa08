"""A command that is held until its tracing has begun."""

import os
import shutil
from collections.abc import Sequence

from scope_bpf.binding.spawn import spawn_held
from scope_bpf.errors import TargetNotFound


class HeldCommand:
    """Forks a command that waits for `release` before it becomes itself. `close` ends one that was never released.

    Raises:
        TargetNotFound: there is no such command.
    """

    def __init__(self, command: Sequence[str]) -> None:
        path = shutil.which(command[0])
        if path is None:
            raise TargetNotFound(f"there is no command '{command[0]}' to run")
        self.path: str = path
        self.pid, self._release_fd = spawn_held(path, command)
        self._status: int | None = None

    def release(self) -> None:
        """Lets the command run."""
        os.write(self._release_fd, b"\n")
        self._close_release()

    def poll(self) -> int | None:
        """Its exit status, negative for the signal that ended it; None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def close(self) -> None:
        """Ends the command if it still waits to be released. One that runs goes on."""
        if self._release_fd >= 0:
            self._close_release()
            _, status = os.waitpid(self.pid, 0)
            self._status = os.waitstatus_to_exitcode(status)

    def _close_release(self) -> None:
        os.close(self._release_fd)
        self._release_fd = -1
