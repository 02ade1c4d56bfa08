"""From raw batches to the wire's: Arrow columns, compressed, with the books as they stand."""

from collections.abc import Iterator

import pyarrow as pa

from scope_agentd.pipeline.books import Books
from scope_bpf.clock import boot_to_utc_ns
from scope_bpf.columns import Batch, to_arrow
from scope_bpf.stream import fingerprint
from scope_proto.scope.v1 import batch_pb2

MOST_BYTES = (1 << 20) - 4096  # gRPC messages stay under 1 MiB
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Batcher:
    """Builds a task's batches and numbers them from 1. For one thread."""

    def __init__(self, machine_id: str, task_id: str, books: Books) -> None:
        self._machine_id, self._task_id, self._books = machine_id, task_id, books
        self._sequence = 0
        self._fingerprints: dict[str, str] = {}
        self._told: dict[str, batch_pb2.Account] = {}

    def build(self, raw: Batch) -> Iterator[batch_pb2.Batch]:
        """One batch, or several where even compressed it is too large for a message.

        Raises:
            KernelError, pyarrow.ArrowException: the records cannot be read as columns.
        """
        for columns, ipc in _compressed(to_arrow(raw)):
            times = columns["ktime_ns"].to_numpy()
            batch = self._empty(raw.stream.name)
            batch.event_count = columns.num_rows
            batch.first_ktime_ns, batch.last_ktime_ns = int(times.min()), int(times.max())
            batch.boot_to_utc_ns = boot_to_utc_ns()
            batch.arrow_ipc = ipc
            batch.schema_fingerprint = self._fingerprint(raw)
            yield batch

    def account_only(self, stream: str) -> batch_pb2.Batch | None:
        """A batch without rows that tells the stream's books, if they have changed since they were last told."""
        if self._books.account(stream) == self._told.get(stream, batch_pb2.Account()):
            return None
        return self._empty(stream)

    def _fingerprint(self, raw: Batch) -> str:
        name = raw.stream.name
        if name not in self._fingerprints:
            self._fingerprints[name] = fingerprint(raw.schema)
        return self._fingerprints[name]

    def _empty(self, stream: str) -> batch_pb2.Batch:
        self._sequence += 1
        account = self._told[stream] = self._books.account(stream)
        return batch_pb2.Batch(
            machine_id=self._machine_id, task_id=self._task_id, stream=stream, sequence=self._sequence, account=account
        )


def _compressed(columns: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, bytes]]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema, options=_OPTIONS) as writer:
        writer.write_batch(columns)
    ipc = sink.getvalue()
    if ipc.size <= MOST_BYTES or columns.num_rows == 1:
        yield columns, ipc.to_pybytes()
        return
    half = columns.num_rows // 2
    yield from _compressed(columns.slice(0, half))
    yield from _compressed(columns.slice(half))
