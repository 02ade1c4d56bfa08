"""Rows of a stream as spans, in the order in which they were committed."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from scope_catalogue.condition import Condition, columns_read
from scope_catalogue.where import read_filter
from scope_server.exports.contract import Portion, Skipped, Span
from scope_server.exports.files import Files
from scope_server.store.reading.by_commit import Place, place_of
from scope_server.store.reading.reader import MOST_ROWS, EventQuery, Order, Reader
from scope_server.store.schema.columns import StreamTable
from scope_views.matching import matching

# Of the process that served a request: opentelemetry.io/docs/specs/semconv/resource
_RESOURCE = {
    "comm": "service.name",
    "hostname": "host.name",
    "machine_id": "host.id",
    "pid": "process.pid",
}


class Spans:
    """The source of a stream's spans; the stream says how its rows are spans.

    Args:
        tables: of all streams: another one may tell something of the spans' processes.
    """

    every_s = 5.0

    def __init__(self, reader: Reader, table: StreamTable, tables: Mapping[str, StreamTable]) -> None:
        declared = table.described.shown.span
        assert declared
        self.name = f"spans.{table.name}"
        self._reader, self._declared, self._table = reader, declared, table
        self._files = {
            attribute: Files(reader, tables[of.stream], of.path)
            for attribute, of in declared.files.items()
            if of.stream in tables
        }
        self._failed = table.failed
        where = read_filter(declared.where, table.types) if declared.where else None
        self._query = EventQuery(table, where=where, order=Order.STORED, limit=MOST_ROWS)

    async def read(self, position: str) -> Portion:
        """See `Source`."""
        found = await self._reader.follow(self._query, self._place(position))
        failed = _mask(self._table, self._failed, found.rows)
        names = {attribute: await files.names(found.rows) for attribute, files in self._files.items()}
        spans = [
            self._span(row, failed[place], {attribute: told[place] for attribute, told in names.items()})
            for place, row in enumerate(found.rows)
            if row[self._declared.lasting] is not None
        ]
        return Portion(spans, found.place.cursor(), found.more)

    async def skip(self, position: str) -> Skipped:
        """See `Source`."""
        place = self._place(position) or (await self._reader.follow(self._query, None)).place
        skipped = await self._reader.skip(self._query, place)
        return Skipped(skipped.place.cursor(), skipped.events)

    def _place(self, position: str) -> Place | None:
        return place_of(position) if position else None

    def _span(self, row: Mapping[str, Any], failed: bool, files: Mapping[str, str]) -> Span:
        declared = self._declared
        begin_ns = _ns(row["time"])
        told = {name: value for name, value in row.items() if name != "task_id"}  # what two tasks record is one request
        digest = hashlib.sha256(json.dumps([self._table.name, told], sort_keys=True).encode()).digest()
        attributes = {
            **{of: row[name] for name, of in declared.attributes.items() if row[name] is not None},
            **{of: name for of, name in files.items() if name},
            **declared.given,
        }
        named = " ".join(str(row[name]) for name in declared.named if row[name] is not None)
        return Span(
            name=named or declared.text or self._table.name,
            kind=declared.kind,
            trace_id=digest[:16],
            span_id=digest[16:24],
            begin_ns=begin_ns,
            end_ns=begin_ns + row[declared.lasting],
            resource=tuple((of, str(row[name])) for name, of in _RESOURCE.items() if row.get(name) is not None),
            attributes=attributes,
            failed=failed,
        )


def _mask(table: StreamTable, condition: Condition | None, rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    if condition is None or not rows:
        return [False] * len(rows)
    types = {field.name: field.type for field in table.schema}
    columns = {name: pa.array([row[name] for row in rows], types[name]) for name in columns_read(condition)}
    return [bool(each) for each in matching(condition, pa.table(columns)).to_pylist()]


def _ns(time: str) -> int:
    """Of a time with nine digits of a second."""
    whole, _, rest = time.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * 10**9 + int(rest)
