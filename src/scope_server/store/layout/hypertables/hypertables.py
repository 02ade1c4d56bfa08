"""The layout `hypertables`, as the contract has it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date

import pyarrow as pa
from psycopg import sql

from scope_server.store.layout.contract import Step
from scope_server.store.layout.hypertables import chunks, tables
from scope_server.store.layout.hypertables import rows as reading
from scope_server.store.layout.hypertables.tables import ROWS
from scope_server.store.schema.partitions import Partition
from scope_server.store.writing.connection import WriterConnection


class Hypertables:
    """See `Layout`. TimescaleDB makes chunks as rows arrive."""

    name = "hypertables"
    kept: Mapping[str, str] = {ROWS: "in a hypertable"}
    meanings: Mapping[str, str] = {}
    block = sql.SQL("0::bigint AS part, id::text AS place")

    prepare = staticmethod(tables.prepare)
    creation = staticmethod(tables.creation)
    addition = staticmethod(tables.addition)
    rows = staticmethod(reading.rows)
    places = staticmethod(reading.places)
    rows_at = staticmethod(reading.rows_at)
    within = staticmethod(reading.within)
    spans = staticmethod(reading.spans)
    holding = staticmethod(reading.holding)
    chosen = staticmethod(reading.chosen)
    references = staticmethod(reading.references)
    measured = staticmethod(chunks.sizes)
    drop = staticmethod(chunks.drop)

    def day(self, stream: str, day: date) -> Collection[Partition]:
        """None: chunks are made by the rows."""
        return []

    def write(self, connection: WriterConnection, stream: str, keyed: Sequence[str], rows: pa.Table) -> None:
        """Appends rows."""
        connection.ingest(ROWS, stream, rows)

    def packing(self, streams: Collection[str]) -> Step:
        """A step of compression, of all hypertables."""
        return chunks.Columnstore().step

    def blocks(self, stream: str) -> Sequence[sql.Composable]:
        """The batches."""
        return [reading.batches(stream)]


HYPERTABLES = Hypertables()
