"""The layouts of rows, for tests that run over both."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from tests.integration.server.records import Line, lined
from tests.integration.server.tables import TABLES

from scope_catalogue.catalogue import streams
from scope_server.store.layout.choice import LAYOUTS
from scope_server.store.schema.tables import Tables
from scope_server.store.writing.connection import WriterConnection

LAID = {name: TABLES if name == "blocks" else Tables(streams().values(), layout) for name, layout in LAYOUTS.items()}


@dataclass(frozen=True)
class Laid:
    """A database whose rows lie in a layout."""

    conninfo: str
    tables: Tables

    def line(self) -> AbstractAsyncContextManager[Line]:
        """The server's ingest path to it."""
        return lined(self.conninfo, tables=self.tables)

    def pack(self) -> int:
        """Makes all rows small, as upkeep does with old ones; returns the number of steps."""
        connection, steps = WriterConnection(self.conninfo), 0
        step = self.tables.layout.packing(self.tables)
        try:
            while step(connection, everything=True):
                steps += 1
        finally:
            connection.close()
        return steps
