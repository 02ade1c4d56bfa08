"""Writes a group of deliveries: rows, catalogue and event counts are committed together."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scope_server.errors import Rejected
from scope_server.store.dimensions.declared import Process
from scope_server.store.dimensions.dimension import Dimension
from scope_server.store.latest.put import put_states
from scope_server.store.rollups.packed import FRESH, packed
from scope_server.store.rollups.tally import tally
from scope_server.store.schema.columns import StreamTable
from scope_server.store.schema.partitions import Partition, Partitions, day_of
from scope_server.store.writing.books import Books, Key
from scope_server.store.writing.catalogue import Catalogue, Entry
from scope_server.store.writing.connection import WriterConnection
from scope_server.store.writing.delivery import (
    INGEST,
    SPOOL,
    STORED,
    Batch,
    Decoded,
    Delivery,
    End,
    Gap,
    Outcome,
    Start,
    Verdict,
)
from scope_server.store.writing.described import Description
from scope_server.store.writing.dimensions import Dimensions, Keys
from scope_server.store.writing.rejections import keep, legible, take_back
from scope_server.store.writing.rows import Part, StreamRows
from scope_server.store.writing.runs import Runs


@dataclass(frozen=True)
class _Known:
    # A delivery whose run belongs to its machine; `number` is its index in the group.
    number: int
    run: int
    delivery: Delivery


@dataclass(frozen=True)
class _Rows:
    # The rows of a delivery.
    known: _Known
    batch: Batch
    decoded: Decoded

    @property
    def part(self) -> Part:
        return Part(self.decoded.rows, self.known.delivery.machine.key, self.decoded.boot_to_utc_ns)


class Session:
    """A connection with its caches. For one thread.

    Args:
        kept_bytes: maximum size of kept rejected records.
    """

    def __init__(self, connection: WriterConnection, tables: Mapping[str, StreamTable], kept_bytes: int) -> None:
        self.connection = connection
        self._tables = tables
        self._kept_bytes = kept_bytes
        self._runs = Runs(connection)
        self._dimensions = Dimensions(connection)
        self._partitions = Partitions(connection)
        self._catalogue = Catalogue(connection)

    def write(self, deliveries: Sequence[Delivery], taken_back: int | None = None) -> list[Outcome]:
        """Stores deliveries that were not stored before; returns the outcome of each after the commit.

        Args:
            taken_back: an entry of the quarantine to undo in the same transaction, of the only delivery.

        Raises:
            StoreUnavailable: probably nothing was stored.
            Rejected: the delivery of the quarantine cannot be stored; nothing was stored; call `forget`.
            DataRefused, Exception: nothing was stored; call `forget`.
        """
        runs = self._runs.ensure(deliveries)
        known = [
            _Known(number, run, delivery)
            for number, (run, delivery) in enumerate(zip(runs, deliveries, strict=True))
            if isinstance(run, int)
        ]
        by_stream = _rows_of(known)
        self._ensure_partitions(by_stream)
        streams = {name: StreamRows(self._tables[name], [one.part for one in rows]) for name, rows in by_stream.items()}
        keys = self._ensure_dimensions(known, streams.values())
        if taken_back is not None and not take_back(self.connection, taken_back):
            raise Rejected("gone", "the record is no longer in the quarantine")
        books = Books(self.connection, _accounts(known))
        numbers = self._catalogue.numbers(sum(len(rows) for rows in by_stream.values()))
        kept: dict[int, int] = {}  # index in the group -> id of the batch
        outcomes = [STORED if isinstance(run, int) else run for run in runs]
        for one in known:
            outcomes[one.number] = self._enter(books, one, numbers, kept)
            if taken_back is not None and outcomes[one.number] is not STORED:
                raise Rejected(outcomes[one.number].code, outcomes[one.number].reason)
        for name, rows in sorted(by_stream.items()):  # all writers use the same order
            self._store(streams[name], rows, kept, keys)
        books.write()
        self._runs.begin({one.run: one.delivery.content for one in known if isinstance(one.delivery.content, Start)})
        self._runs.end({one.run: one.delivery.content for one in known if isinstance(one.delivery.content, End)})
        self.connection.commit()
        self._catalogue.committed(len(kept))
        return outcomes

    def forget(self) -> None:
        """Rolls back, and clears the caches.

        Raises:
            StoreUnavailable: the connection is lost.
        """
        self.connection.rollback()
        self._runs.forget()
        self._dimensions.forget()
        self._partitions.forget()

    def _enter(self, books: Books, one: _Known, numbers: Sequence[int], kept: dict[int, int]) -> Outcome:
        delivery, content = one.delivery, one.delivery.content
        try:
            self._tell(books, one)
        except Rejected as error:
            delivery = replace(delivery, rejected=delivery.rejected or error)
        if isinstance(content, Batch):
            key, when = (one.run, content.stream), {"first_ns": content.first_ns, "last_ns": content.last_ns}
            try:
                if not books.settle(key, content.sequence):
                    return STORED
            except Rejected as error:
                books.refuse(key, error.code, content.events, **when)
                return _refused(error)
            if delivery.rejected:
                books.lose(key, INGEST, delivery.rejected.code, content.events, **when)
            elif content.rows:
                books.store(key, content.rows.rows.num_rows)
                kept[one.number] = numbers[len(kept)]
        if delivery.rejected:
            keep(self.connection, one.run, delivery, delivery.rejected, self._kept_bytes)
            return _refused(delivery.rejected)
        return STORED

    def _tell(self, books: Books, one: _Known) -> None:
        content = one.delivery.content
        if isinstance(content, End):
            books.end(one.run, content.last_sequences)
        elif isinstance(content, Gap):
            books.give_up(one.run, content, SPOOL)
        for account in one.delivery.accounts:
            books.tell(one.run, account, after_kill=isinstance(content, End) and content.end == "killed")

    def _store(self, stream: StreamRows, rows: Sequence[_Rows], kept: Mapping[int, int], keys: Keys) -> None:
        numbers = [kept.get(one.known.number) for one in rows]
        entries = [
            Entry(
                number,
                one.known.run,
                one.batch.sequence,
                one.known.delivery.machine.key,
                stream.table.name,
                one.decoded,
            )
            for number, one in zip(numbers, rows, strict=True)
            if number is not None
        ]
        if entries:
            stored = stream.stored(numbers, keys)
            stream.table.layout.write(self.connection, stream.table.name, stream.table.keyed, stored)
            added_up = packed(tally(stream.table, stored), stream.table.rollup.by, FRESH)
            if added_up.num_rows:
                self.connection.ingest("rollups", stream.table.name, added_up)
            put_states(self.connection, stream.table, stored)
            self._catalogue.enter(entries)

    def _ensure_partitions(self, by_stream: Mapping[str, Sequence[_Rows]]) -> None:
        days_of = {(name, day) for name, rows in by_stream.items() for one in rows for day in one.decoded.days}
        for_rows = {partition for name, day in days_of for partition in self._tables[name].layout.day(name, day)}
        days = {day_of(one.decoded.last_ns) for rows in by_stream.values() for one in rows}
        for_rollups = {Partition("rollups", name, day) for name, day in days_of}
        self._partitions.ensure(for_rows | for_rollups | {Partition("store", "batches", day) for day in days})

    def _ensure_dimensions(self, known: Sequence[_Known], streams: Collection[StreamRows]) -> Keys:
        descriptions: dict[Process, Description] = {}
        for one in known:
            if isinstance(one.delivery.content, Batch):
                for facts in one.delivery.content.processes:
                    process = (one.delivery.machine.key, facts.pid, facts.start_ns)
                    new = Description(facts, one.delivery.content.as_of_ns)
                    earlier = descriptions.get(process)
                    descriptions[process] = earlier.joined(new) if earlier else new
        wanted: dict[Dimension, set[Hashable]] = {}
        for stream in streams:
            for dimension, values in stream.wanted.items():
                wanted.setdefault(dimension, set()).update(values)
        return self._dimensions.ensure(wanted, descriptions)


def _refused(rejected: Rejected) -> Outcome:
    return Outcome(Verdict.REFUSED, legible(str(rejected)), rejected.code)


def _rows_of(known: Sequence[_Known]) -> dict[str, list[_Rows]]:
    found: dict[str, list[_Rows]] = {}
    for one in known:
        batch = one.delivery.content
        if isinstance(batch, Batch) and batch.rows and not one.delivery.rejected:
            found.setdefault(batch.stream, []).append(_Rows(one, batch, batch.rows))
    return found


def _accounts(known: Sequence[_Known]) -> Iterator[Key]:
    # All accounts that the group may change.
    for one in known:
        content = one.delivery.content
        yield from ((one.run, account.stream) for account in one.delivery.accounts)
        if isinstance(content, Batch | Gap):
            yield one.run, content.stream
        elif isinstance(content, End):
            yield from ((one.run, stream) for stream in content.last_sequences)
