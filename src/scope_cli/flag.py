"""An event that a signal handler may set."""

import os
import select


class Flag:
    """Set once, by whom ever: a signal handler, too, which `threading.Event` does not allow."""

    def __init__(self) -> None:
        self._file = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """A descriptor that is readable once it is set."""
        return self._file

    def set(self) -> None:
        """Sets it; may be repeated."""
        os.eventfd_write(self._file, 1)

    def is_set(self) -> bool:
        """Whether it is."""
        return self.wait(0)

    def wait(self, seconds: float) -> bool:
        """Waits until it is set, for so many seconds at most; whether it is."""
        waiting = select.poll()
        waiting.register(self._file, select.POLLIN)
        return bool(waiting.poll(seconds * 1000))

    def __del__(self) -> None:
        os.close(self._file)
