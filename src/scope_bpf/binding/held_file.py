"""Keeps a file usable without a descriptor."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scope_bpf.binding.capability import raised
from scope_bpf.binding.ffi import ffi, lib
from scope_bpf.host import CAP_CHECKPOINT_RESTORE


class HeldFile:
    """Keeps a file by mapping one page of it: the file can be opened again, even if it was deleted.

    Attributes:
        address: address of the mapping.

    Raises:
        OSError: the kernel refused.
    """

    def __init__(self, fd: int) -> None:
        self._page: Any = lib.scope_hold_file(fd)
        if self._page == ffi.NULL:
            raise OSError(ffi.errno, os.strerror(ffi.errno))
        self.address = int(ffi.cast("uintptr_t", self._page))

    @contextmanager
    def reached(self) -> Iterator[str]:
        """A path to the file, for this thread while entered; valid even if the file was moved or deleted. Needs
        CAP_CHECKPOINT_RESTORE, which only has to be permitted."""
        with raised(CAP_CHECKPOINT_RESTORE):
            yield f"/proc/self/map_files/{self.address:x}-{self.address + os.sysconf('SC_PAGESIZE'):x}"

    def close(self) -> None:
        """Unmaps the file. May be called again."""
        if self._page != ffi.NULL:
            lib.scope_let_go_file(self._page)
            self._page = ffi.NULL
