"""Converts a batch's columns to a table for PostgreSQL, or refuses them with a reason."""

from collections.abc import Mapping
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_catalogue.stream import fingerprint
from scope_proto.scope.v1.record_pb2 import Batch
from scope_server.errors import Rejected
from scope_server.ingest.times import Clock
from scope_server.machine import Machine
from scope_server.store.schema.columns import StreamTable
from scope_server.store.writing.delivery import Decoded

MOST_ROWS = 1 << 20  # per batch; real batches of 1 MiB have 150,000
_MOST_DAYS = 8  # per batch; each day has a partition
_DAY_US = 24 * 3600 * 10**6
_IN_THIS_THREAD = pa.ipc.IpcReadOptions(use_threads=False)  # for so little data, more threads cost more than they save


def decode(batch: Batch, table: StreamTable, machine: Machine, clock: Clock) -> Decoded | None:
    """Reads and checks the batch's columns, and adds the time; None if there are no rows.

    Raises:
        Rejected: the columns can never be stored.
    """
    if batch.event_count > MOST_ROWS:
        raise Rejected("too_large", f"{batch.event_count} rows; at most {MOST_ROWS} are allowed")
    if not batch.arrow_ipc:
        if batch.event_count:
            raise Rejected("corrupt", f"{batch.event_count} events declared, but no columns")
        return None
    rows = _read(batch, table)
    if rows.num_rows != batch.event_count:
        raise Rejected("corrupt", f"{batch.event_count} events declared, but {rows.num_rows} rows found")
    if not rows.num_rows:
        return None
    _check_values(rows)
    return _dated(rows, batch.boot_to_utc_ns, machine, clock)


def _read(batch: Batch, table: StreamTable) -> pa.Table:
    try:
        with pa.ipc.open_stream(batch.arrow_ipc, options=_IN_THIS_THREAD) as reader:
            _check_schema(reader.schema, batch.schema_fingerprint, table)  # before anything is decompressed
            rows = reader.read_all()
        rows.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, Rejected):
            raise
        raise Rejected("corrupt", f"not a valid Arrow stream: {str(error).splitlines()[0]}") from error
    return rows


def _check_schema(schema: pa.Schema, announced: str, table: StreamTable) -> None:
    if announced == table.fingerprint and schema.equals(table.schema):
        return  # as nearly always: this costs a hundredth of a fingerprint
    if fingerprint(schema) != announced:
        raise Rejected("corrupt", f"the columns' fingerprint differs from the declared {announced[:40]!r}")
    if announced == table.fingerprint:
        return
    if len(set(schema.names)) < len(schema.names):
        raise Rejected("corrupt", "two columns have the same name")
    for column in schema:
        known = table.schema.get_field_index(column.name)
        if known < 0:
            raise Rejected("undescribed", f"column '{column.name[:63]}' of {table.name} is unknown and not described")
        if table.schema.field(known).type != column.type:
            raise Rejected(
                "other_schema",
                f"column '{column.name}' of {table.name} is {column.type}, here it is {table.schema.field(known).type}",
            )


def _check_values(rows: pa.Table) -> None:
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if field.name == "ktime_ns" and column.null_count:
            raise Rejected("corrupt", f"column '{field.name}' is absent in {column.null_count} rows")
        for chunk in column.chunks:
            text = _text_of(chunk)
            if text is not None and _has_nul(text):
                raise Rejected(
                    "nul_in_text", f"column '{field.name}' has text with a NUL, which PostgreSQL cannot keep"
                )
    clocks = [name for name in ("ktime_ns", "start_ns") if name in rows.schema.names]
    if any((pc.max(rows.column(name)).as_py() or 0) >= 1 << 63 for name in clocks):  # None: no row has a process
        raise Rejected("bad_time", "a time since boot has more than 63 bits")
    if "ktime_ns" not in rows.schema.names:
        raise Rejected("corrupt", "column 'ktime_ns' is missing")


def _text_of(chunk: pa.Array) -> pa.Array | None:
    if pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary
    elif pa.types.is_list(chunk.type):
        chunk = chunk.flatten()
    return chunk if pa.types.is_string(chunk.type) else None


def _has_nul(text: pa.Array) -> bool:
    data = text.buffers()[2]
    if not data or np.frombuffer(data, np.uint8).all():
        return False  # as nearly always: a look at all bytes at once, also at those of no text
    return bool(pc.any(pc.match_substring(text, "\0")).as_py())


def _dated(rows: pa.Table, boot_to_utc_ns: int, machine: Machine, clock: Clock) -> Decoded:
    bounds = pc.min_max(rows.column("ktime_ns")).as_py()
    first, last = bounds["min"], bounds["max"]
    offset = clock.offset(first, last, boot_to_utc_ns, machine)
    days = _days(rows, first + offset, last + offset, offset)
    if len(days) > _MOST_DAYS:
        raise Rejected("bad_time", f"a batch with rows of {len(days)} days; at most {_MOST_DAYS} are allowed")
    redated = offset != boot_to_utc_ns // 1000 * 1000
    return Decoded(rows, first + offset, last + offset, days, offset, redated)


def _days(rows: pa.Table, first_ns: int, last_ns: int, offset: int) -> tuple[date, ...]:
    begin, end = (ns // 1000 // _DAY_US for ns in (first_ns, last_ns))
    if begin == end:
        numbers = [begin]
    else:
        ktime = rows.column("ktime_ns").to_numpy().astype(np.int64)
        numbers = np.unique((ktime + offset) // (1000 * _DAY_US)).tolist()
    return tuple(date(1970, 1, 1) + timedelta(days=day) for day in numbers)


def table_of(batch: Batch, tables: Mapping[str, StreamTable]) -> StreamTable:
    """The table of the batch's stream.

    Raises:
        Rejected: the stream is unknown.
    """
    table = tables.get(batch.stream)
    if table is None:
        raise Rejected("undescribed", f"stream '{batch.stream}' is unknown and not described")
    return table
