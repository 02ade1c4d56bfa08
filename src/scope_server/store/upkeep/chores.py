"""Background jobs that pack fresh blocks and merge rollups."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from scope_server.store.rollups.merge import Merger
from scope_server.store.schema.tables import Tables
from scope_server.store.writing.connection import WriterConnection

Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True)
class Chore:
    """A frugal job of `Upkeep`, made from a function that does one step."""

    name: str
    every_s: float
    step: Callable[[Connection], bool]
    close: Callable[[], None] = lambda: None
    frugal: bool = True
    urgent: bool = False

    def begin(self, connection: Connection) -> None:
        """Nothing to prepare."""

    def end(self) -> None:
        """Closes the connection."""
        self.close()


def chores(conninfo: str, tables: Tables) -> list[Chore]:
    """The jobs for these streams."""
    later: dict[str, float] = {}
    merging = _Columnar(conninfo, lambda connection: Merger(connection, tables.values(), later).step())
    packing = _Columnar(conninfo, tables.layout.packing(tables))
    return [Chore("merge", 10.0, merging.step, merging.close), Chore("pack", 30.0, packing.step, packing.close)]


class _Columnar:
    # Columns need a connection like the writers'. It is made at the first step, and again after it was lost.

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
