"""From a batch as it arrived to a table of columns that PostgreSQL can take, or the reason why not."""

import time
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from scope_bpf.stream import fingerprint
from scope_proto.scope.v1.batch_pb2 import Batch
from scope_server.errors import Rejected
from scope_server.ingest.envelope import declared_bytes
from scope_server.store.columns import StreamTable
from scope_server.store.delivery import Decoded

DECOMPRESSED_LIMIT = 64 << 20  # bytes; sixty times the largest message
_EARLIEST_NS = 946_684_800 * 10**9  # 2000-01-01
_AHEAD_NS = 24 * 3600 * 10**9
_LONGEST_NS = 32 * 24 * 3600 * 10**9  # each day has a partition
_REQUIRED = ("ktime_ns", "pid", "start_ns")  # where the stream has them


def decode(batch: Batch, tables: Mapping[str, StreamTable]) -> Decoded:
    """Reads and checks the batch's columns.

    Raises:
        Rejected: they can never be stored.
    """
    table = tables.get(batch.stream)
    if table is None:
        raise Rejected("unknown_stream", f"this server knows no stream '{batch.stream}'; is it older than the agent?")
    if not batch.arrow_ipc:
        if batch.event_count:
            raise Rejected("corrupt", f"{batch.event_count} events are announced and no columns came")
        return Decoded(table.schema.empty_table(), 0, 0)
    rows = _conformed(_read(batch.arrow_ipc), batch, table)
    if rows.num_rows != batch.event_count:
        raise Rejected("corrupt", f"{batch.event_count} events are announced, {rows.num_rows} came")
    _check_text(rows)
    return _timed(rows, batch.boot_to_utc_ns)


def _read(arrow_ipc: bytes) -> pa.Table:
    declared = declared_bytes(arrow_ipc)
    if declared > DECOMPRESSED_LIMIT:
        raise Rejected("too_large", f"{declared} bytes when decompressed; at most {DECOMPRESSED_LIMIT} are taken")
    try:
        with pa.ipc.open_stream(arrow_ipc) as reader:
            rows = reader.read_all()
        rows.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Rejected("corrupt", f"not a sound Arrow stream: {str(error).splitlines()[0]}") from error
    return rows


def _conformed(rows: pa.Table, batch: Batch, table: StreamTable) -> pa.Table:
    if rows.schema.equals(table.schema) and batch.schema_fingerprint == table.fingerprint:
        return rows
    if fingerprint(rows.schema) != batch.schema_fingerprint:
        raise Rejected("corrupt", f"the columns' fingerprint is not {batch.schema_fingerprint}, as announced")
    for column in rows.schema:
        known = table.schema.get_field_index(column.name)
        if known < 0:
            raise Rejected(
                "newer_schema",
                f"this server knows no column '{column.name}' of {table.name}; is it older than the agent?",
            )
        if table.schema.field(known).type != column.type:
            raise Rejected(
                "other_schema",
                f"column '{column.name}' of {table.name} is {column.type}, here it is {table.schema.field(known).type}",
            )
    if len(set(rows.schema.names)) < len(rows.schema.names):
        raise Rejected("corrupt", "two columns have one name")
    # An older agent's: what it does not know yet is absent.
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in table.schema
    ]
    return pa.table(columns, schema=table.schema)


def _check_text(rows: pa.Table) -> None:
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if field.name in _REQUIRED and column.null_count:
            raise Rejected("corrupt", f"column '{field.name}' is absent in {column.null_count} rows")
        for chunk in column.chunks:
            text = _text_of(chunk)
            if text is not None and pc.any(pc.match_substring(text, "\0")).as_py():
                raise Rejected(
                    "nul_in_text", f"column '{field.name}' has text with a NUL, which PostgreSQL cannot keep"
                )


def _text_of(chunk: pa.Array) -> pa.Array | None:
    if pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary
    elif pa.types.is_list(chunk.type):
        chunk = chunk.flatten()
    return chunk if pa.types.is_string(chunk.type) else None


def _timed(rows: pa.Table, boot_to_utc_ns: int) -> Decoded:
    if not rows.num_rows:
        return Decoded(rows, 0, 0)
    bounds = pc.min_max(rows.column("ktime_ns")).as_py()
    clocks = [name for name in ("ktime_ns", "start_ns") if name in rows.schema.names]
    if any(pc.max(rows.column(name)).as_py() >= 1 << 63 for name in clocks):
        raise Rejected("bad_time", "a time since boot has more than 63 bits")
    first, last = bounds["min"] + boot_to_utc_ns, bounds["max"] + boot_to_utc_ns
    if first < _EARLIEST_NS or last > time.time_ns() + _AHEAD_NS or last - first > _LONGEST_NS:
        raise Rejected("bad_time", f"times from {first} to {last} ns since 1970 cannot be; is the machine's clock set?")
    return Decoded(rows, first, last)
