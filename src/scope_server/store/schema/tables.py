"""The known streams: those of the catalogue, and those that agents described."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from scope_catalogue.stream import DescribedStream
from scope_server.errors import SchemaConflict
from scope_server.store.layout.blocks.blocks import BLOCKS
from scope_server.store.layout.contract import Layout
from scope_server.store.schema.columns import StreamTable, stream_table


class Tables(Mapping[str, StreamTable]):
    """Streams by name. They only grow: streams and columns are added, never changed. For any thread.

    Attributes:
        layout: how the rows of all streams lie in the database.

    Raises:
        SchemaConflict: a stream has a column that cannot be stored.
    """

    def __init__(self, streams: Iterable[DescribedStream], layout: Layout = BLOCKS) -> None:
        self.layout = layout
        self._streams = {stream.name: stream for stream in streams}
        self._tables = {name: stream_table(stream, layout) for name, stream in self._streams.items()}
        self._learnt: tuple[DescribedStream, ...] = ()
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> StreamTable:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._tables))

    def __len__(self) -> int:
        return len(self._tables)

    def lack(self, stream: DescribedStream) -> bool:
        """Whether rows of this stream cannot be stored yet: the stream or a column is unknown.

        Raises:
            SchemaConflict: the stream has a column of another type, which is never stored.
        """
        known = self._streams.get(stream.name)
        return known is None or joined(known, stream) is not known

    def add(self, stream: DescribedStream) -> StreamTable:
        """Adds a stream, or its unknown columns; returns the table, which has to be made.

        Raises:
            SchemaConflict: the stream has a column of another type, or one that cannot be stored; nothing has changed.
        """
        with self._lock:
            table, whole = self._with(stream)
            self._streams = {**self._streams, stream.name: whole}
            self._tables = {**self._tables, stream.name: table}
            self._learnt = (*self._learnt, stream)
            return table

    def learnt(self) -> tuple[DescribedStream, ...]:
        """The added descriptions, in their order."""
        return self._learnt

    def with_stream(self, stream: DescribedStream) -> StreamTable:
        """The table as `add` would return it."""
        return self._with(stream)[0]

    def _with(self, stream: DescribedStream) -> tuple[StreamTable, DescribedStream]:
        whole = joined(self._streams.get(stream.name), stream)
        return stream_table(whole, self.layout), whole


def joined(known: DescribedStream | None, other: DescribedStream) -> DescribedStream:
    """The known stream with the columns of another description that it lacks; the same object if there are none.

    How rows are added up, and all meanings, stay those that were known first.

    Raises:
        SchemaConflict: a column has another type.
    """
    if known is None:
        return other
    by_name = known.by_name
    for column in other.columns:
        before = by_name.get(column.name)
        if before and (before.type, before.stack) != (column.type, column.stack):
            raise SchemaConflict(f"column '{column.name}' of {known.name} is {before.type}, here it is {column.type}")
    added = tuple(column for column in other.columns if column.name not in by_name)
    return replace(known, columns=(*known.columns, *added)) if added else known
