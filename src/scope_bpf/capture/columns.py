"""Makes an Arrow record batch of a batch of records."""

import socket
from collections.abc import Callable, Collection
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_bpf.binding.rows import tails, text_lists, texts
from scope_bpf.capture.batch import Batch, RawBatch, SampledBatch
from scope_bpf.catalogue.stream import IDENTITY, INTERVAL, Names, Rows, Tails
from scope_bpf.layout.fields import Field, Kind
from scope_catalogue.stream import Mode


def to_arrow(raw: Batch, only: Collection[str] | None = None) -> pa.RecordBatch:
    """The columns of a batch, or only the named ones; a copy, independent of the batch's memory.

    Raises:
        KernelError: a record refers to text outside itself (EINVAL): this stream's program did not make it.
    """
    if isinstance(raw, SampledBatch):
        return raw.rows if only is None else raw.rows.select([name for name in raw.schema.names if name in only])
    stream = raw.stream
    schema = raw.schema if only is None else pa.schema([field for field in raw.schema if field.name in only])
    wanted = set(schema.names)
    nobodys = _of_nobody(raw)
    columns = {
        field.name: _column(raw, field, nobodys.get(field.name)) for field in raw.layout.fields if field.name in wanted
    }
    if stream.mode is Mode.SUMMARY:
        columns |= {name: pa.array(raw.rows[name]) for name in INTERVAL.names or ()}
    made = stream.made
    if made.derive and not columns.keys() >= wanted:
        columns |= made.derive(raw.rows)
    if made.decode and not columns.keys() >= wanted:
        columns |= made.decode(raw.rows, Tails(*tails(raw.native)), wanted)
    if raw.resolver and made.resolved and not columns.keys() >= wanted:
        columns |= raw.resolver.resolve(stream, raw.rows)
    columns |= {
        name: pa.nulls(raw.count, made.resolved[name].arrow) for name in wanted & made.resolved.keys() - columns.keys()
    }
    if stream.names and (joined := wanted & stream.names.columns.keys()):
        columns |= _joined(raw, stream.names, joined)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _of_nobody(raw: RawBatch) -> dict[str, Rows]:
    """For each column about the process, in which rows it is absent: bool, shape (count,). Empty: in none.

    Tasks that are no processes, such as `swapper/0`, keep their name.
    """
    if not raw.stream.of_processes or "pid" not in (raw.rows.dtype.names or ()):
        return {}
    nobodys = raw.rows["pid"] == 0
    if not nobodys.any():
        return {}
    return dict.fromkeys(IDENTITY, nobodys) | {"comm": nobodys & (raw.rows["comm"] == b"")}


def _column(raw: RawBatch, field: Field, absent: Rows | None) -> pa.Array:
    if switch := raw.stream.null_unless.get(field.name):
        absent = raw.rows[switch] == 0
    if field.kind in (Kind.TEXT, Kind.TEXT_LIST, Kind.PATH):
        return _nulled(_from_tails(raw, field), absent)
    values = raw.rows[field.name]
    if field.kind is Kind.NUMBER:
        return pa.array(np.array(values), mask=absent)  # copies even a single row, which is already contiguous
    if field.kind is Kind.HISTOGRAM:
        flat = np.array(values, order="C").reshape(-1)
        return pa.FixedSizeListArray.from_arrays(pa.array(flat), type=field.arrow)
    makers: dict[Kind, Callable[[bytes], str | None]] = {
        Kind.NAME: _name,
        Kind.ENUM: partial(_enumerator, field),
        Kind.ADDRESS: partial(_address, field),
    }
    return _dictionary(values, makers[field.kind], absent)


def _from_tails(raw: RawBatch, field: Field) -> pa.Array:
    if field.kind is Kind.TEXT_LIST:
        return text_lists(raw.native, field.offset, raw.stream.name)
    return texts(raw.native, field.offset, raw.stream.name, are_paths=field.kind is Kind.PATH)


def _nulled(column: pa.Array, absent: Rows | None) -> pa.Array:
    return column if absent is None else pc.if_else(pa.array(~absent), column, None)


def _joined(raw: RawBatch, names: Names, wanted: Collection[str]) -> dict[str, pa.Array]:
    if not raw.names:
        return {name: pa.nulls(raw.count, pa.string()) for name in wanted}
    found = pc.index_in(
        _keys(raw.rows, names.keys), pa.concat_arrays([_keys(batch.rows, names.keys) for batch in raw.names])
    )
    return {name: pa.concat_arrays([_with_cuts(batch, name) for batch in raw.names]).take(found) for name in wanted}


def _with_cuts(raw: RawBatch, name: str) -> pa.Array:
    column = raw.stream.described()[name]
    texts = to_arrow(raw, {name})[name]
    if not column.cut_if:
        return texts
    return pc.if_else(pa.array(raw.rows[column.cut_if] != 0), pc.binary_join_element_wise("...", texts, ""), texts)


def _keys(rows: Rows, names: tuple[str, ...]) -> pa.Array:
    packed = np.empty(len(rows), [(name, rows.dtype[name]) for name in names])
    for name in names:
        packed[name] = rows[name]
    return pa.Array.from_buffers(pa.binary(packed.dtype.itemsize), len(rows), [None, pa.py_buffer(packed)])


def _dictionary(values: Rows, text_of: Callable[[bytes], str | None], absent: Rows | None) -> pa.DictionaryArray:
    """A text for each value, made once per distinct value."""
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    encoded = pa.Array.from_buffers(pa.binary(values.dtype.itemsize), len(values), [None, buffer]).dictionary_encode()
    found = pa.array([text_of(value) for value in encoded.dictionary.to_pylist()], pa.string()).dictionary_encode()
    distinct = len(found.dictionary) == len(found)
    indices = encoded.indices if distinct else found.indices.take(encoded.indices)
    return pa.DictionaryArray.from_arrays(_nulled(indices, absent), found.dictionary)


def _name(value: bytes) -> str:
    return value.partition(b"\0")[0].decode(errors="backslashreplace")


def _enumerator(field: Field, value: bytes) -> str:
    """The name of an enum's value; its number if it has no name."""
    number = int(np.frombuffer(value, field.dtype)[0])
    return field.names.get(number, str(number))


def _address(field: Field, value: bytes) -> str | None:
    """The text of a struct scope_address; None: the address family is not IPv4 or IPv6."""
    (address,) = np.frombuffer(value, field.dtype)
    family, octets = int(address["family"]), address["bytes"].tobytes()
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, octets[:4])
    return socket.inet_ntop(socket.AF_INET6, octets) if family == socket.AF_INET6 else None
