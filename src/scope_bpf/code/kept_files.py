"""Files that are kept without keeping a descriptor of each: the ones that were read last are open, others can be."""

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from scope_bpf.binding.held_file import HeldFile
from scope_bpf.host import NO_DESCRIPTORS

log = logging.getLogger(__name__)

MOST_OPEN = 128


class _Descriptor:
    """Closed when nobody uses it any more, so that no thread has it closed under its reading."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class KeptFile:
    """One file, to be read from any thread. Made by `KeptFiles`."""

    def __init__(self, files: "KeptFiles", held: HeldFile, size: int) -> None:
        self._files, self.held, self.size = files, held, size
        self.forget: Callable[[], None] = lambda: None  # lets go of what was read, when the file is closed

    def pread(self, size: int, offset: int) -> bytes:
        """What lies at an offset; nothing where it cannot be read."""
        descriptor = self._files.open(self)
        with suppress(OSError):
            return os.pread(descriptor.number, size, offset) if descriptor else b""
        return b""

    def close(self) -> None:
        """Lets go of the file: there is nothing to be read any more. May be called again."""
        self._files.drop(self)


class KeptFiles:
    """Opens files again that were closed since. For any thread.

    Args:
        most_open: more are closed, those first that were not read for longest.

    Attributes:
        refused: how often there was no descriptor to open one with.
    """

    def __init__(self, most_open: int = MOST_OPEN) -> None:
        self._most_open = most_open
        self._lock = threading.Lock()
        self._open: OrderedDict[KeptFile, _Descriptor] = OrderedDict()
        self.refused = 0

    def keep(self, fd: int) -> KeptFile:
        """Keeps a file, by a descriptor that is ours from now on, also where this fails.

        Raises:
            OSError: it cannot be mapped.
        """
        descriptor = _Descriptor(fd)
        file = KeptFile(self, HeldFile(fd), os.fstat(fd).st_size)
        with self._lock:
            self._put(file, descriptor)
        return file

    def open(self, file: KeptFile) -> _Descriptor | None:
        """A descriptor of a file, good for as long as the caller has it; None if it cannot be opened."""
        with self._lock:
            if descriptor := self._open.get(file):
                self._open.move_to_end(file)
                return descriptor
            if not file.size:
                return None
            for _ in range(2):
                try:
                    descriptor = _Descriptor(os.open(file.held.path, os.O_RDONLY | os.O_CLOEXEC))
                except OSError as error:
                    if error.errno not in NO_DESCRIPTORS:
                        return None
                    self._close_some(len(self._open))  # they are others' now
                else:
                    self._put(file, descriptor)
                    return descriptor
            self.refused += 1
            log.warning("no descriptor left to open a file with", extra={"times": self.refused})
            return None

    def close_idle(self) -> None:
        """Closes what nobody reads just now: others need the descriptors."""
        with self._lock:
            self._close_some(len(self._open))

    def _put(self, file: KeptFile, descriptor: _Descriptor) -> None:
        self._open[file] = descriptor
        self._close_some(len(self._open) - self._most_open)

    def _close_some(self, count: int) -> None:
        for _ in range(count):
            file, _ = self._open.popitem(last=False)
            file.forget()

    def drop(self, file: KeptFile) -> None:
        """Lets go of a file. May be called again."""
        with self._lock:
            self._open.pop(file, None)
            file.size = 0
            file.held.close()
        file.forget()

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)
