"""Keeps a file usable without a descriptor."""

import os
from typing import Any

from scope_bpf.binding.ffi import ffi, lib


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

    @property
    def path(self) -> str:
        """A path to the file, for this process; valid even if the file was moved or deleted. Needs
        CAP_CHECKPOINT_RESTORE."""
        return f"/proc/self/map_files/{self.address:x}-{self.address + os.sysconf('SC_PAGESIZE'):x}"

    def close(self) -> None:
        """Unmaps the file. May be called again."""
        if self._page != ffi.NULL:
            lib.scope_let_go_file(self._page)
            self._page = ffi.NULL
