"""A file that is kept without a descriptor."""

import os
from typing import Any

from scope_bpf.binding.ffi import ffi, lib


class HeldFile:
    """Keeps a file as it is, and open to be opened again, without a descriptor: by mapping a page of it.

    Attributes:
        address: where it is mapped.

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
        """A path that leads to it, whatever has become of its own; for this process. Takes CAP_CHECKPOINT_RESTORE."""
        return f"/proc/self/map_files/{self.address:x}-{self.address + os.sysconf('SC_PAGESIZE'):x}"

    def close(self) -> None:
        """Lets go of it. May be called again."""
        if self._page != ffi.NULL:
            lib.scope_let_go_file(self._page)
            self._page = ffi.NULL
