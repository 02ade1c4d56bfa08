"""Records that grow huge when decompressed: they are refused before that, or memory stays bounded."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.integration.server.records import REFUSED, SCHEMA, STORED, Line, Run, envelope, ipc, rows

from scope_catalogue.stream import fingerprint
from scope_proto.scope.v1.session_pb2 import UploadRequest
from scope_server.ingest.upload import upload

_PAGE = 4096


class _Watch:
    """Measures the most memory that this process adds while inside, in bytes."""

    def __enter__(self) -> "_Watch":
        self._before = self.most = _resident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stop.wait(0.005):
            self.most = max(self.most, _resident())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.most -= self._before


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def _with(**columns: pa.Array) -> pa.RecordBatch:
    """One row of `syscall` with other arrays for some columns."""
    batch = rows(1)
    for name, column in columns.items():
        batch = batch.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), column)
    return batch


def _huge_dictionary(entries: int) -> pa.Array:
    # Offsets of zero, which compress 250-fold; one row uses one entry.
    nothing = pa.StringArray.from_buffers(entries, pa.py_buffer(np.zeros(entries + 1, np.int32)), pa.py_buffer(b""))
    return pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), nothing)


async def test_dictionaries_that_nothing_uses_cost_little(line: Line) -> None:
    """Small records with dictionaries of millions of unused entries are stored, with bounded memory."""
    run = Run()
    batches = [run.batch(n + 1, _with(comm=_huge_dictionary(15_000_000), arg0=pa.array([n]))) for n in range(14)]
    assert max(batch.ByteSize() for batch in batches) < 300_000
    with _Watch() as watch:
        answers = await line.send(*batches)
    assert [answer.verdict for answer in answers] == [STORED] * 14
    assert watch.most < 600 << 20
    assert line.query("SELECT count(*) FROM store.names") == [(2,)]


async def test_more_than_64_mib_is_not_decompressed(line: Line) -> None:
    """A record that declares more than 64 MiB is refused without decompression, and counted as lost."""
    run = Run()
    batches = [run.batch(n + 1, _with(comm=_huge_dictionary(60_000_000))) for n in range(3)]
    with _Watch() as watch:
        answers = await line.send(*batches)
    assert {answer.verdict for answer in answers} == {REFUSED}
    assert all("bytes when decompressed" in answer.reason for answer in answers)
    assert watch.most < 64 << 20
    assert line.losses() == {"ingest/too_large": 3}


async def test_streams_of_many_parts_are_refused(line: Line) -> None:
    """A record with too many dictionaries, columns, nested lists or declared events is refused."""
    run = Run()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        for n in range(300):
            writer.write_batch(rows(1, comm=[str(n)]))
    many = run.batch(1, rows(300), arrow_ipc=sink.getvalue().to_pybytes())
    wide_columns = pa.record_batch([pa.array([1])] * 3000, names=[str(n) for n in range(3000)])
    wide = run.batch(2, rows(1), arrow_ipc=ipc(wide_columns), schema_fingerprint=fingerprint(wide_columns.schema))
    nested = pa.int8()
    for _ in range(60):
        nested = pa.list_(nested)
    deep_columns = pa.record_batch([pa.array([None], nested)], names=["arg0"])
    deep = run.batch(3, rows(1), arrow_ipc=ipc(deep_columns), schema_fingerprint=fingerprint(deep_columns.schema))
    crowd = run.batch(4, rows(1), event_count=(1 << 32) - 1)
    answers = await line.send(many, wide, deep, crowd, run.batch(5, rows(101)))
    assert [answer.verdict for answer in answers] == [*[REFUSED] * 4, STORED]
    assert line.backlog.counts.refused == {"too_large": 3, "other_schema": 1}


async def test_an_agent_that_takes_no_answers_is_not_read(line: Line) -> None:
    """If an agent does not read answers, the server stops reading its stream, so answers do not pile up."""
    read = 0

    async def endless() -> AsyncIterator[UploadRequest]:
        nonlocal read
        while True:
            read += 1
            yield envelope(b"nonsense", read)
            await asyncio.sleep(0)

    replies = upload(endless(), line.machine, line.backlog, line.tables)
    await anext(replies)
    stalled = -1
    while stalled != read:
        stalled = read
        await asyncio.sleep(0.2)
    assert read < 20_000
    await replies.aclose()
