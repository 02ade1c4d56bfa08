"""Makes messages of the rows in a record, as the spool has them: with all names."""

from collections.abc import Iterator
from functools import cache

import pyarrow as pa

from scope_agentd.bus.positions import Source, lost_of
from scope_bpf.probes import probe_named
from scope_proto.scope.v1 import record_pb2
from scope_wire.bus.columns import packed, type_name
from scope_wire.bus.message import Message, packed_schema

MOST_BYTES = 512 << 10  # of a message's columns, roughly: a row more or less is no harm

_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)  # passing small columns to other threads costs more


def messages(source: Source, record: record_pb2.Record) -> Iterator[Message]:
    """The rows of a batch, in order, as one message or several.

    Raises:
        pyarrow.ArrowException: the columns cannot be read.
    """
    batch = record.batch
    with pa.ipc.open_stream(batch.arrow_ipc, options=_OPTIONS) as reader:
        (rows,) = reader
    most = max(1, rows.num_rows * MOST_BYTES // max(1, rows.nbytes))
    for first in range(0, rows.num_rows, most):
        part = rows.slice(first, most)
        yield Message(
            stream=batch.stream,
            task=source.task,
            run=source.run,
            began_ns=source.began_ns,
            sequence=batch.sequence,
            events_before=batch.events_before + first,
            emitted=batch.account.emitted,
            lost=lost_of(batch.account),
            left_out=batch.account.left_out,
            boot_to_utc_ns=batch.boot_to_utc_ns,
            events=part.num_rows,
            columns={name: packed(values) for name, values in zip(part.schema.names, part.columns, strict=True)},
        )


@cache
def schema_of(probe: str, stream: str) -> bytes:
    """The second frame of a stream's messages."""
    of = probe_named(probe)
    (wanted,) = (known for known in of.public_streams if known.name == stream)
    described = wanted.described()
    return packed_schema([(one.name, type_name(one.type), described[one.name].unit) for one in of.schema(wanted)])
