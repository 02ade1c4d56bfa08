"""What computes columns that take more than the rows to know."""

from typing import Protocol

import pyarrow as pa

from scope_bpf.catalogue.stream import Rows, Stream
from scope_bpf.code.modules import Module


class Resolver(Protocol):
    """Columns that take more than the rows to know: names of code and handles in the watched processes."""

    def add_module(self, module: Module) -> bool:
        """Takes note of a file that a watched process has mapped; whether it is to be kept open."""

    def find_functions(self, module: Module) -> dict[str, int]:
        """Offsets of functions that have no symbol in a module but were found otherwise, by name."""

    def drop_module(self, module: Module) -> None:
        """Lets go of what is kept of a file that nobody maps any more. Not every one was added."""

    def resolve(self, stream: Stream, rows: Rows) -> dict[str, pa.Array]:
        """The stream's resolved columns."""
