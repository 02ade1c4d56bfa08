"""Keeps many files readable with few descriptors: recently read files are open, others are opened again on use."""

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from scope_bpf.binding.held_file import HeldFile
from scope_bpf.code.content import is_hole
from scope_bpf.host import NO_DESCRIPTORS

log = logging.getLogger(__name__)

MOST_OPEN = 128


class _Descriptor:
    """A descriptor that is closed after its last use, so no thread loses it while reading."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class KeptFile:
    """One file, made by `KeptFiles`. For any thread."""

    def __init__(self, files: "KeptFiles", held: HeldFile, size: int) -> None:
        self._files, self.held, self.size = files, held, size
        self.forget: Callable[[], None] = lambda: None  # frees data read from the file, when the file is closed

    def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes at an offset; none if they cannot be read."""
        descriptor = self._files.open(self)
        with suppress(OSError):
            return os.pread(descriptor.number, size, offset) if descriptor else b""
        return b""

    def is_hole(self, size: int, offset: int) -> bool:
        """Whether the file has no data in this range."""
        descriptor = self._files.open(self)
        return descriptor is not None and is_hole(descriptor.number, size, offset)

    def close(self) -> None:
        """Releases the file: later reads return nothing. May be called again."""
        self._files.drop(self)


class KeptFiles:
    """Keeps files, and opens them again if they were closed. For any thread.

    Args:
        most_open: maximum number of open files; beyond, the least recently read are closed.

    Attributes:
        refused: how often a file could not be opened for lack of descriptors.
    """

    def __init__(self, most_open: int = MOST_OPEN) -> None:
        self._most_open = most_open
        self._lock = threading.Lock()
        self._open: OrderedDict[KeptFile, _Descriptor] = OrderedDict()
        self.refused = 0

    def keep(self, fd: int) -> KeptFile:
        """Keeps a file. Takes over the descriptor, also on failure.

        Raises:
            OSError: the file cannot be mapped.
        """
        descriptor = _Descriptor(fd)
        file = KeptFile(self, HeldFile(fd), os.fstat(fd).st_size)
        with self._lock:
            self._put(file, descriptor)
        return file

    def open(self, file: KeptFile) -> _Descriptor | None:
        """A descriptor of a file, valid as long as the caller keeps the object; None if it cannot be opened."""
        with self._lock:
            if descriptor := self._open.get(file):
                self._open.move_to_end(file)
                return descriptor
            if not file.size:
                return None
            for _ in range(2):
                try:
                    with file.held.reached() as path:
                        descriptor = _Descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                except OSError as error:
                    if error.errno not in NO_DESCRIPTORS:
                        return None
                    self._close_some(len(self._open))  # others need these descriptors
                else:
                    self._put(file, descriptor)
                    return descriptor
            self.refused += 1
            log.warning("no descriptor left to open a file with", extra={"times": self.refused})
            return None

    def close_idle(self) -> None:
        """Closes all files that are not being read, to free descriptors."""
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
        """Releases a file. May be called again."""
        with self._lock:
            self._open.pop(file, None)
            file.size = 0
            file.held.close()
        file.forget()

    @property
    def count(self) -> int:
        """Number of open files."""
        return len(self._open)
