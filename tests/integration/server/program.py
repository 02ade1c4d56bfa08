"""A program that tests kill, stop, and let go on."""

import os
import signal
import subprocess


class Program:
    """One that a subclass starts."""

    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def runs(self) -> bool:
        """Whether it was started and not killed."""
        return self._process is not None

    def kill(self) -> None:
        """Kills it, even if it is stopped."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stops it: it takes connections, and answers nothing."""
        if self._process:
            os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        if self._process:
            os.kill(self._process.pid, signal.SIGCONT)
