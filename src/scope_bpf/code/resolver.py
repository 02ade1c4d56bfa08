"""The interface of resolvers, which compute columns that need more data than the rows."""

from typing import Protocol

import pyarrow as pa

from scope_bpf.catalogue.stream import Rows, Stream
from scope_bpf.code.history import Process
from scope_bpf.code.modules import Module


class Resolver(Protocol):
    """Computes columns such as names of code, and of handles in watched processes."""

    def add_module(self, module: Module) -> bool:
        """Adds a file that a watched process has mapped; returns whether to keep it."""

    def find_functions(self, module: Module) -> dict[str, int]:
        """Offsets by name of functions that have no symbol but were found in another way."""

    def drop_module(self, module: Module) -> None:
        """Releases data of a file that no process maps any more; the file may never have been added."""

    def add_process(self, process: Process) -> None:
        """Adds a process that was running before."""

    def notes(self) -> list[str]:
        """What of the added files cannot be seen, as text. From any thread."""

    def settle(self, timeout_s: float) -> None:
        """Waits until all added files and processes were read, but not longer than `timeout_s`."""

    def close(self) -> None:
        """Stops all reading, also in the background, before the files are closed. May be called again."""

    def resolve(self, stream: Stream, rows: Rows) -> dict[str, pa.Array]:
        """The stream's resolved columns."""
