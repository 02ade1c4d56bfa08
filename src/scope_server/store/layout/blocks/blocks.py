"""The layout `blocks`, as the contract has it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.layout.blocks import rows as reading
from scope_server.store.layout.blocks import tables
from scope_server.store.layout.blocks.compaction import Compaction
from scope_server.store.layout.blocks.packing import HOUR_US, packed
from scope_server.store.layout.blocks.tables import FRESH, MEANINGS, PACKED
from scope_server.store.layout.contract import Record, Step
from scope_server.store.schema.day_tables import DayTable, Measured, detach_and_drop, measured
from scope_server.store.schema.partitions import Partition
from scope_server.store.writing.connection import WriterConnection


class Blocks:
    """See `Layout`. Writers make fresh blocks, which `Compaction` packs."""

    name = "blocks"
    kept: Mapping[str, str] = {FRESH: "in blocks as written", PACKED: "in large, compressed blocks"}
    meanings: Mapping[str, str] = MEANINGS
    block = sql.SQL("tableoid::bigint AS part, ctid::text AS place")

    creation = staticmethod(tables.creation)
    addition = staticmethod(tables.addition)
    rows = staticmethod(reading.rows)
    places = staticmethod(reading.places)
    rows_at = staticmethod(reading.rows_at)
    within = staticmethod(reading.within)
    spans = staticmethod(reading.spans)
    holding = staticmethod(reading.holding)
    chosen = staticmethod(reading.chosen)

    def prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Every database can have blocks."""

    def day(self, stream: str, day: date) -> Collection[Partition]:
        """The day's partition of fresh blocks; compaction makes that of the packed ones."""
        return [Partition(FRESH, stream, day)]

    def write(self, connection: WriterConnection, stream: str, keyed: Sequence[str], rows: pa.Table) -> None:
        """Appends fresh blocks."""
        connection.ingest(FRESH, stream, packed(rows, keyed, HOUR_US))

    def packing(self, streams: Collection[str]) -> Step:
        """A step of compaction."""
        return Compaction(streams).step

    def blocks(self, stream: str) -> Sequence[sql.Composable]:
        """The tables of fresh and of packed blocks."""
        return [sql.Identifier(schema, stream) for schema in (FRESH, PACKED)]

    def references(self, stream: str, columns: Iterable[Record], dimension: Dimension) -> Sequence[sql.Composable]:
        """Each block has the keys of all its rows."""
        return reading.references(stream, dimension)

    def measured(self, connection: psycopg.Connection[Any]) -> Measured:
        """The sizes of the partitions."""
        return measured(connection, (FRESH, PACKED))

    def drop(self, connection: psycopg.Connection[Any], one: DayTable) -> bool:
        """Drops a partition."""
        return detach_and_drop(connection, one)


BLOCKS = Blocks()
