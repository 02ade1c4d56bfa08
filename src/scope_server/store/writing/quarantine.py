"""The quarantine: lists, retries and deletes records that the database refused to store."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import dict_row

from scope_proto.scope.v1.record_pb2 import Record
from scope_server.errors import Rejected, StoreUnavailable, UnknownThing
from scope_server.machine import Machine
from scope_server.store.reading.queries import queries
from scope_server.store.schema.tables import Tables
from scope_server.store.writing.delivery import Batch, Delivery
from scope_server.store.writing.writer import Writer

Admit = Callable[[Record, Machine], Delivery]


@dataclass(frozen=True)
class Quarantined:
    """A quarantined record.

    Attributes:
        stream, sequence: None if the record is not a batch.
        events: number of events counted as lost at `ingest`, with the reason `code`.
        kept: whether the record's bytes were kept, so that it can be retried.
    """

    id: int
    run_id: str
    machine_id: str
    hostname: str
    stream: str | None
    sequence: int | None
    events: int
    code: str
    reason: str
    received: datetime
    bytes: int
    kept: bool


class Quarantine:
    """The quarantine of a database. Blocks: call it from a thread.

    Args:
        conninfo: a libpq connection string.
        tables: the known streams by name.
        admit: makes deliveries of records, such as an `Admission`.
        committed: called, in the caller's thread, with the stream of which rows were committed.

    Raises:
        StoreUnavailable: from all methods, if the database cannot be reached.
    """

    def __init__(
        self,
        conninfo: str,
        tables: Tables,
        admit: Admit,
        committed: Callable[[Collection[str]], None] = lambda _: None,
    ) -> None:
        self._conninfo, self._tables, self._admit, self._committed = conninfo, tables, admit, committed

    def entries(self, limit: int = 100) -> list[Quarantined]:
        """The quarantined records, newest first."""
        return [Quarantined(**row) for row in self._run("quarantined", {"limit": limit})]

    def retry(self, entry: int) -> None:
        """Stores a record and removes its events from the losses, in one transaction.

        Raises:
            UnknownThing: there is no such entry, or its bytes were not kept.
            Rejected: the record still cannot be stored; nothing has changed.
        """
        found = self._run("quarantined_record", {"id": entry})
        if not found or found[0]["record"] is None:
            raise UnknownThing(f"entry {entry}: it is not in the quarantine, or its bytes were not kept")
        row = found[0]
        machine = Machine(row["machine"], row["machine_id"], row["installation"], row["boot_to_utc_ns"])
        delivery = self._admit(Record.FromString(row["record"]), machine)
        if delivery.rejected:
            raise Rejected(delivery.rejected.code, str(delivery.rejected))
        writer = Writer(self._conninfo, self._tables)
        try:
            writer.retry(entry, delivery)
        finally:
            writer.close()
        if isinstance(delivery.content, Batch):
            self._committed([delivery.content.stream])

    def drop(self, entry: int) -> None:
        """Deletes an entry; its events stay counted as lost.

        Raises:
            UnknownThing: there is no such entry.
        """
        if not self._run("drop_quarantined", {"id": entry}):
            raise UnknownThing(f"entry {entry}: it is not in the quarantine")

    def _run(self, name: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._connection() as connection:
            return connection.execute(queries()[name], parameters).fetchall()

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        try:
            with psycopg.connect(self._conninfo, row_factory=dict_row) as connection:
                yield connection
        except psycopg.OperationalError as error:
            raise StoreUnavailable(str(error).strip().splitlines()[0]) from error
