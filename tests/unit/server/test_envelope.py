"""The size that an Arrow stream declares, read without decompressing it."""

import struct

import pyarrow as pa
import pytest

from scope_server.errors import Rejected
from scope_server.ingest.envelope import declared_bytes


def _stream(batch: pa.RecordBatch, compression: str | None = "lz4", times: int = 1) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for _ in range(times):
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _batch(count: int) -> pa.RecordBatch:
    words = pa.array([f"word {n % 7}" for n in range(count)]).dictionary_encode()
    return pa.record_batch({"numbers": pa.array(range(count), pa.int64()), "words": words})


@pytest.mark.parametrize("compression", ["lz4", "zstd", None])
def test_it_is_what_the_columns_take(compression: str | None) -> None:
    """The declared size includes numbers, indices and dictionaries, compressed or not."""
    declared = declared_bytes(_stream(_batch(10_007), compression))
    assert 12 * 10_007 <= declared <= 12 * 10_007 + 1000


def test_a_claim_counts_though_it_is_a_lie() -> None:
    """A buffer's claim of an exabyte counts, though it is false."""
    data = _stream(pa.record_batch({"n": pa.array([7] * 10_007, pa.int64())}))
    honest = struct.pack("<q", 8 * 10_007)
    assert data.count(honest) >= 1
    at = data.rindex(honest)
    assert declared_bytes(data[:at] + struct.pack("<q", 1 << 60) + data[at + 8 :]) >= 1 << 60


@pytest.mark.parametrize("claim", [-2, -(1 << 63)])
def test_a_negative_length_is_no_length(claim: int) -> None:
    """A negative length is refused: it would make the sum too small."""
    data = _stream(pa.record_batch({"n": pa.array([7] * 10_007, pa.int64())}))
    at = data.rindex(struct.pack("<q", 8 * 10_007))
    with pytest.raises(Rejected, match="negative length"):
        declared_bytes(data[:at] + struct.pack("<q", claim) + data[at + 8 :])


def test_buffers_without_values_count() -> None:
    """A stream of thousands of empty buffers is refused, and one empty buffer takes no bytes."""
    assert declared_bytes(_stream(pa.record_batch({"n": pa.array([], pa.int64())}))) == 0
    empty = pa.record_batch([pa.array([], pa.int64())] * 3_000, names=[str(n) for n in range(3_000)])
    with pytest.raises(Rejected, match="buffers"):
        declared_bytes(_stream(empty))


def test_damage_is_refused_wherever_it_is() -> None:
    """A cut or a changed byte gives a size or a rejection, never another error."""
    data = _stream(_batch(101))
    for at in range(0, len(data), 3):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]):
            try:
                assert declared_bytes(damaged) >= 0
            except Rejected as rejected:
                assert rejected.code in ("corrupt", "too_large")


def test_a_stream_of_many_messages_is_not_gone_through() -> None:
    """A stream of 300 messages is refused: an agent's has a schema, some dictionaries and a batch."""
    assert declared_bytes(_stream(pa.record_batch({"n": [1]}), times=100)) > 0
    with pytest.raises(Rejected, match="messages") as rejected:
        declared_bytes(_stream(pa.record_batch({"n": [1]}), times=300))
    assert rejected.value.code == "too_large"


def test_a_stream_of_many_buffers_is_not_gone_through() -> None:
    """A stream of thousands of columns is refused."""
    with pytest.raises(Rejected, match="buffers"):
        declared_bytes(_stream(pa.record_batch([pa.array([1])] * 3_000, names=[str(n) for n in range(3_000)])))


def test_a_batch_of_an_earlier_version_is_refused() -> None:
    """Before 1.0, a batch could tell in another place that it is compressed; then its claims would not be seen."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"n": pa.array([7] * 10_007, pa.int64())})
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    with pytest.raises(Rejected, match="version before"):
        declared_bytes(sink.getvalue().to_pybytes())


def test_what_is_no_stream_is_refused() -> None:
    """Bytes that are no Arrow stream are refused."""
    for nonsense in (b"x", b"nonsense" * 100, b"\xff\xff\xff\xff" * 10):
        with pytest.raises(Rejected):
            declared_bytes(nonsense)
