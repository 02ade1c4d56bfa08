"""Finds the separate debug files of stripped files: on this machine at once, on servers in the background."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

from scope_bpf.code.debug.separate import local_debug_file
from scope_bpf.code.debug.settings import settings_of
from scope_bpf.code.elf import ElfFile
from scope_bpf.code.modules import Module

if TYPE_CHECKING:
    from scope_bpf.code.debug.debuginfod import Debuginfod

_BUILD_ID_DIGITS = range(16, 129)  # hexadecimal; linkers write 32 or 40


class DebugFiles:
    """Finds debug files until `close`. `seek` is for one thread, the other methods for any.

    Attributes:
        arrived: number of files that have arrived from servers.
    """

    def __init__(self) -> None:
        self._sought: WeakSet[Module] = WeakSet()
        self._lock = threading.Lock()
        self._server: Debuginfod | None = None
        self._is_closed = False
        self.arrived = 0
        settings = settings_of()
        if settings.urls:
            from scope_bpf.code.debug.debuginfod import Debuginfod  # noqa: PLC0415  # its imports take 0.4 s

            self._server = Debuginfod(settings)

    def seek(self, module: Module) -> bool:
        """Looks for the debug file of a stripped file, when called for the first time.

        Returns:
            Whether this machine has the file, so that there are more names at once.
        """
        if self._is_closed or module in self._sought or module.elf.symbols:
            return False
        self._sought.add(module)
        module.debug = local_debug_file(module.elf, module.path)
        if module.debug:
            return True
        build_id = module.elf.build_id
        with self._lock:
            if self._server and not self._is_closed and len(build_id) in _BUILD_ID_DIGITS:
                self._server.ask(build_id, partial(self._arrive, module))
        return False

    def _arrive(self, module: Module, found: ElfFile) -> None:
        module.debug = found
        self.arrived += 1

    def notes(self) -> list[str]:
        """What servers did not answer, as text."""
        if not (server := self._server):
            return []
        told = [f"debuginfod: {reason} ({count})" for reason, count in sorted(server.counts.copy().items())]
        return told + ([f"debuginfod: files that had not arrived yet ({server.pending})"] if server.pending else [])

    def close(self) -> None:
        """Seeks no more on servers, and lets go all files. May be called again."""
        with self._lock:
            self._is_closed = True
        if self._server:
            self._server.close()
        for module in list(self._sought):
            module.debug = None
