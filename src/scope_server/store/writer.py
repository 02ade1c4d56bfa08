"""Stores groups of deliveries: ledger, dimensions, rows and accounts of a whole group in one transaction."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scope_server.errors import Rejected, StoreUnavailable
from scope_server.store.books import Books, Key
from scope_server.store.columns import StreamTable
from scope_server.store.connection import DataRefused, WriterConnection
from scope_server.store.delivery import Decoded, Delivery, Outcome, Verdict
from scope_server.store.dimensions import Dimensions
from scope_server.store.partitions import Partitions, days
from scope_server.store.rows import Part, StreamRows

_log = logging.getLogger(__name__)


class Writer:
    """Writes over a connection of its own, which it makes anew when it was lost. For one thread.

    Args:
        conninfo: a libpq connection string.
        tables: the streams that can be stored, by name.
    """

    def __init__(self, conninfo: str, tables: Mapping[str, StreamTable]) -> None:
        self._conninfo = conninfo
        self._tables = tables
        self._session: _Session | None = None

    def write(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        """Stores what was not stored before, and says for each how it ended, once that is committed.

        Raises:
            StoreUnavailable: nothing was stored, as far as is known; deliver it again later.
        """
        if not deliveries:
            return []
        session = self._connected()
        try:
            return session.write(deliveries)
        except DataRefused:
            session.forget()
        # Someone's data is at fault, or a partition was dropped under us: each for itself, so that none harms another.
        return [self._write_one(session, delivery) for delivery in deliveries]

    def check(self) -> None:
        """Asks the database for an answer.

        Raises:
            StoreUnavailable: there is none.
        """
        session = self._connected()
        session.connection.query("SELECT 1")
        session.connection.commit()

    def cancel(self) -> None:
        """From another thread: ends the statement that runs now, if one does."""
        if self._session and self._session.connection.open:
            self._session.connection.cancel()

    def close(self) -> None:
        """Closes the connection."""
        if self._session:
            self._session.connection.close()
            self._session = None

    def _connected(self) -> "_Session":
        if self._session is None or not self._session.connection.open:
            self._session = _Session(WriterConnection(self._conninfo), self._tables)
        return self._session

    def _write_one(self, session: "_Session", delivery: Delivery) -> Outcome:
        try:
            return session.write([delivery])[0]
        except DataRefused as error:
            session.forget()
            refused = Rejected("refused", f"PostgreSQL refused the rows: {error}")
            _log.warning("batch refused", extra={"task": delivery.task_id, "sequence": delivery.sequence})
        try:
            return session.write([replace(delivery, content=refused)])[0]
        except DataRefused as error:
            session.forget()
            raise StoreUnavailable(str(error)) from error


class _Session:
    """A connection with what is known through it."""

    def __init__(self, connection: WriterConnection, tables: Mapping[str, StreamTable]) -> None:
        self.connection = connection
        self._tables = tables
        self._dimensions = Dimensions(connection)
        self._partitions = Partitions(connection)
        self._books = Books(connection)

    def write(self, deliveries: Sequence[Delivery]) -> list[Outcome]:
        contents = [(delivery.stream, delivery.content) for delivery in deliveries]
        self._partitions.ensure(
            (stream, day)
            for stream, content in contents
            if isinstance(content, Decoded) and content.rows.num_rows
            for day in days(content.first_ns, content.last_ns)
        )
        tasks = self._dimensions.tasks({(each.machine, each.task_id): each.probe for each in deliveries})
        keys = [_key(tasks.get((each.machine, each.task_id)), each) for each in deliveries]
        known = [(key, delivery) for key, delivery in zip(keys, deliveries, strict=True) if key]
        first: dict[Key, Delivery] = {}  # the same batch may be delivered twice at once
        for key, delivery in known:
            first.setdefault(key, delivery)
        numbers = self._books.enter(first)
        earlier = self._books.earlier([key for key in first if key not in numbers])
        self._store({number: first[key] for key, number in numbers.items()})
        self._books.account(known, {key: first[key] for key in numbers})
        self.connection.commit()
        self._dimensions.committed()
        return [
            earlier.get(key) or _fresh(delivery) if key else Outcome(Verdict.REJECTED, "the task is another machine's")
            for key, delivery in zip(keys, deliveries, strict=True)
        ]

    def forget(self) -> None:
        """The transaction was rolled back."""
        self._dimensions.rolled_back()
        self._partitions.forget()

    def _store(self, entered: Mapping[int, Delivery]) -> None:
        parts: dict[str, list[Part]] = {}
        for number, delivery in entered.items():
            if isinstance(delivery.content, Decoded) and delivery.content.rows.num_rows:
                part = Part(delivery.content.rows, delivery.machine, number, delivery.boot_to_utc_ns)
                parts.setdefault(delivery.stream, []).append(part)
        streams = [StreamRows(self._tables[name], of_stream) for name, of_stream in parts.items()]
        # All names, then all processes: writers that meet take their locks in the same order.
        names = self._dimensions.names(name for stream in streams for name in stream.names)
        processes = self._dimensions.processes(process for stream in streams for process in stream.processes)
        for stream in streams:
            self.connection.ingest("events", stream.table.name, stream.stored(names, processes))


def _key(task: int | None, delivery: Delivery) -> Key | None:
    return None if task is None else (task, delivery.sequence)


def _fresh(delivery: Delivery) -> Outcome:
    if isinstance(delivery.content, Rejected):
        return Outcome(Verdict.REJECTED, str(delivery.content))
    return Outcome(Verdict.STORED)
