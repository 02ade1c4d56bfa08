"""What else the store has done in the background: fresh blocks are packed, and rollups are merged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from scope_server.store.blocks.compaction import Compaction
from scope_server.store.rollups.merge import Merger
from scope_server.store.schema.columns import StreamTable
from scope_server.store.writing.connection import WriterConnection

Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True)
class Chore:
    """A job of `Upkeep` that can wait, made of a function that does one step."""

    name: str
    every_s: float
    step: Callable[[Connection], bool]
    close: Callable[[], None] = lambda: None
    frugal: bool = True
    urgent: bool = False

    def begin(self, connection: Connection) -> None:
        """It needs no beginning."""

    def end(self) -> None:
        """Gives back what it holds."""
        self.close()


def chores(conninfo: str, tables: Mapping[str, StreamTable]) -> list[Chore]:
    """The chores of these streams."""
    merging = _Columnar(conninfo, lambda connection: Merger(connection, tables.values()).step())
    packing = _Columnar(conninfo, Compaction(tables.values()).step)
    return [Chore("merge", 10.0, merging.step, merging.close), Chore("pack", 30.0, packing.step, packing.close)]


class _Columnar:
    # Columns travel over a connection of the writers' kind, made when there is a first step, and anew when it was lost.

    def __init__(self, conninfo: str, work: Callable[[WriterConnection], bool]) -> None:
        self._conninfo, self._work = conninfo, work
        self._connection: WriterConnection | None = None

    def step(self, _: Connection) -> bool:
        if self._connection is None or not self._connection.open:
            self._connection = WriterConnection(self._conninfo)
        return self._work(self._connection)

    def close(self) -> None:
        if self._connection:
            self._connection.close()
