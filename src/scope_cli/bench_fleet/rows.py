"""The rows of a running task: the same columns again and again, with the current times."""

import time
import uuid

import numpy as np
import pyarrow as pa

from scope_catalogue.stream import fingerprint
from scope_cli.bench_store.load import Load, Piece, travelling
from scope_proto.scope.v1 import control_pb2, record_pb2, task_pb2

_STREAM = "syscall"
_SHARED_NS = 10_000_000  # for so long agents share the columns: real ones have CPUs of their own to compress them


class Rows:
    """Makes records.

    Args:
        rate: rows a second.
        every_s: time between two batches.
    """

    def __init__(self, rate: int, every_s: float) -> None:
        now = time.time_ns()
        load = Load(0, machines=1, days=0.01, late=0.0, end_ns=now)
        count = max(1, round(rate * every_s))
        self._columns = load.columns(Piece(0, _STREAM, 2, count, now - 10**9, now))
        self._place = self._columns.schema.get_field_index("ktime_ns")
        self._fingerprint = fingerprint(self._columns.schema)
        self._made = record_pb2.Record()  # the newest batch, but for what belongs to a run

    def start(self, task: control_pb2.Task) -> record_pb2.Record:
        """The first record of a task's run."""
        record = _record(task)
        record.start.definition.CopyFrom(task.definition)
        record.start.origin = task_pb2.ORIGIN_SERVER
        record.start.started.CopyFrom(task.run.started)
        return record

    def batch(self, task: control_pb2.Task, sequence: int, during_s: float) -> record_pb2.Record:
        """The next batch of a run: its rows happened during the last `during_s` seconds, evenly."""
        until = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if until - self._made.batch.last_ktime_ns > _SHARED_NS:
            self._make(until, int(1e9 * during_s))
        record = _record(task)
        record.MergeFrom(self._made)
        batch = record.batch
        batch.sequence = sequence
        batch.events_before = batch.event_count * (sequence - 1)
        batch.account.emitted = batch.event_count * sequence
        return record

    def _make(self, until: int, during_ns: int) -> None:
        times = np.linspace(until - during_ns, until, self._columns.num_rows).astype(np.int64)
        field = self._columns.schema.field(self._place)
        columns = self._columns.set_column(self._place, field, pa.array(times).cast(field.type))
        batch = self._made.batch
        batch.stream, batch.event_count = _STREAM, columns.num_rows
        batch.first_ktime_ns, batch.last_ktime_ns = int(times[0]), int(times[-1])
        batch.boot_to_utc_ns = (time.time_ns() - until) // 1000 * 1000
        batch.schema_fingerprint, batch.arrow_ipc = self._fingerprint, travelling(columns)


def _record(task: control_pb2.Task) -> record_pb2.Record:
    return record_pb2.Record(run_id=uuid.UUID(task.run.run_id).bytes, task_id=uuid.UUID(task.task_id).bytes)
