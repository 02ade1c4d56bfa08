"""Fills a database through the server's own decoding and its own writer."""

import uuid
from collections.abc import Callable, Iterable

import psycopg

from scope_cli.bench_store.load import Load
from scope_cli.errors import CommandError
from scope_proto.scope.v1.record_pb2 import Record
from scope_server.errors import GroupFailed
from scope_server.ingest.admit import Admission
from scope_server.machine import Machine
from scope_server.store.rollups.merge import Merger
from scope_server.store.schema.tables import Tables
from scope_server.store.writing.connection import WriterConnection
from scope_server.store.writing.delivery import Delivery, Verdict
from scope_server.store.writing.writer import Writer

GROUP = 8  # batches a transaction
_KEEP_DAYS = 3650
_MERGE_EVERY = 64  # groups


class Filler:
    """Stores records of a load's machines, which it registers."""

    def __init__(self, conninfo: str, tables: Tables, load: Load) -> None:
        self.conninfo, self.tables = conninfo, tables
        self.writer = Writer(conninfo, tables)
        self._admission = Admission(tables, _KEEP_DAYS)
        self._machines = _registered(conninfo, load)

    def deliveries(self, records: Iterable[tuple[int, Record]]) -> list[Delivery]:
        """The records as the writer takes them: decoded and checked."""
        return [self._admission(record, self._machines[machine]) for machine, record in records]

    def write(self, deliveries: list[Delivery]) -> int:
        """Stores them in one transaction; how many rows they have.

        Raises:
            CommandError: one was not stored.
        """
        try:
            outcomes = self.writer.write(deliveries)
        except GroupFailed as error:
            raise CommandError(f"a batch was not stored: {error}") from None
        for outcome in outcomes:
            if outcome.verdict is not Verdict.STORED:
                raise CommandError(f"a batch was not stored: {outcome.reason}")
        return sum(delivery.record.batch.event_count for delivery in deliveries)

    def fill(self, load: Load, told: Callable[[int], None]) -> int:
        """Stores all of the load, and packs blocks and merges rollups beside it as a server does; how many rows it has.

        Args:
            told: is told how many there are, now and then.
        """
        rows, groups, group = 0, 0, []
        connection = WriterConnection(self.conninfo)
        merger, pack = Merger(connection, self.tables.values()), self.tables.layout.packing(self.tables)
        for one in load.records():
            group.append(one)
            if len(group) == GROUP:
                rows += self.write(self.deliveries(group))
                groups, group = groups + 1, []
                told(rows)
                if groups % _MERGE_EVERY == 0:
                    merger.step()
                    while pack(connection):
                        pass
        if group:
            rows += self.write(self.deliveries(group))
        while merger.step() or pack(connection):
            told(rows)
        connection.close()
        return rows

    def close(self) -> None:
        """Ends the writer."""
        self.writer.close()


def _registered(conninfo: str, load: Load) -> list[Machine]:
    machines = []
    with psycopg.connect(conninfo) as connection:
        for number in range(load.machines):
            machine_id, installation = f"{number:032x}", str(uuid.UUID(int=number))
            key = connection.execute(
                "INSERT INTO store.machines (machine_id, installation, hostname, kernel, architecture, cpus,"
                " memory_bytes, agent_version) VALUES (%s, %s, %s, '', '', 1, 0, '')"
                " ON CONFLICT (machine_id) DO UPDATE SET last_seen = now() RETURNING id",
                [machine_id, installation, f"node-{number}"],
            ).fetchone()
            assert key
            machines.append(Machine(key[0], machine_id, installation, load.boot_to_utc_ns))
    return machines
