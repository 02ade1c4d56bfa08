"""Helpers: records like an agent's, and a server's ingest path from the stream to the table."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import psycopg
import pyarrow as pa

from scope_bpf.probes import probe_named
from scope_catalogue.catalogue import streams
from scope_catalogue.description import written
from scope_catalogue.stream import DescribedStream, fingerprint
from scope_proto.scope.v1 import session_pb2, task_pb2
from scope_proto.scope.v1.record_pb2 import Account, Accounts, Batch, Gap, Loss, Record, RunEnd, RunStart, Span
from scope_server.ingest.backlog import Backlog
from scope_server.ingest.upload import upload
from scope_server.ingest.writers import Writers
from scope_server.machine import Machine
from scope_server.store.schema.migrate import migrate
from scope_server.store.schema.tables import Tables
from scope_wire.frame import checksum

STORED, LATER, REFUSED = session_pb2.VERDICT_STORED, session_pb2.VERDICT_LATER, session_pb2.VERDICT_REFUSED

SYSCALLS = probe_named("syscalls")
SCHEMA = SYSCALLS.schema(SYSCALLS.streams[0])
FIRST_KTIME_NS = 10**9
_NOW_NS, _HOUR_NS, _DAY_NS = time.time_ns(), 3600 * 10**9, 86_400 * 10**9
# The machine booted at the beginning of the previous hour, so events of its first hour are on one day; but not
# yesterday, which is packed soon after midnight.
BOOT_TO_UTC_NS = max((_NOW_NS // _HOUR_NS - 1) * _HOUR_NS, _NOW_NS // _DAY_NS * _DAY_NS)


def rows(count: int, first: int = 0, pid: int = 4711, **changed: Any) -> pa.RecordBatch:
    """Rows of `syscall`, one per microsecond, numbered by `arg0`; `changed` replaces columns."""
    values = {
        "ktime_ns": [FIRST_KTIME_NS + 1000 * (first + n) for n in range(count)],
        "start_ns": [500] * count,
        "cgroup_id": [1] * count,
        "pid": [pid] * count,
        "tid": [pid + n % 3 for n in range(count)],
        "uid": [(1 << 32) - 1] * count,
        "cpu": [n % 2 for n in range(count)],
        "comm": [("one", "two\\xff")[n % 2] for n in range(count)],
        "name": [("read", None)[n % 5 == 4] for n in range(count)],
        **dict.fromkeys(("error", "args", "result", "path"), [None] * count),
        "nr": [0] * count,
        "arg0": [first + n for n in range(count)],
        **{f"arg{n}": [-n] * count for n in range(1, 6)},
        "ret": [None if n % 7 == 6 else -n for n in range(count)],
        "waited": [n % 2 for n in range(count)],
        "duration_ns": [(1 << 64) - 1 if n == 0 else n for n in range(count)],
    }
    return pa.RecordBatch.from_pydict(values | changed, schema=SCHEMA)


def stacks(texts: Iterable[str | None], first: int = 0, **changed: Any) -> pa.RecordBatch:
    """Rows of `cuda_live`, one for each stack."""
    probe = probe_named("cuda")
    (stream,) = (stream for stream in probe.streams if stream.name == "cuda_live")
    schema, texts = probe.schema(stream), list(texts)
    values = {field.name: [None if pa.types.is_dictionary(field.type) else 0] * len(texts) for field in schema} | {
        "ktime_ns": [FIRST_KTIME_NS + first + n for n in range(len(texts))],
        "stack_id": list(range(len(texts))),
        "stack": texts,
        "pid": [4711] * len(texts),
        "start_ns": [500] * len(texts),
    }
    return pa.RecordBatch.from_pydict(values | changed, schema=schema)


def ipc(columns: pa.RecordBatch) -> bytes:
    """The columns as a compressed Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(columns)
    return bytes(sink.getvalue().to_pybytes())


class Run:
    """Makes the records of one run, like an agent."""

    def __init__(self, task_id: uuid.UUID | None = None) -> None:
        self.run_id, self.task_id = uuid.uuid4(), task_id or uuid.uuid4()

    def record(self, **content: Any) -> Record:
        """A record of the run, with this content."""
        return Record(run_id=self.run_id.bytes, task_id=self.task_id.bytes, **content)

    def start(self, origin: "task_pb2.Origin.ValueType" = task_pb2.ORIGIN_SERVER, **changed: Any) -> Record:
        """The record of the run's start."""
        start = RunStart(definition=task_pb2.Definition(probe="syscalls"), origin=origin, attach_point="tp_btf")
        start.started.FromNanoseconds(BOOT_TO_UTC_NS)
        for name, value in changed.items():
            setattr(start, name, value)
        return self.record(start=start)

    def batch(
        self,
        sequence: int,
        columns: pa.RecordBatch,
        emitted: int = 0,
        lost: Mapping[tuple[str, str], int] | None = None,
        stream: str = "syscall",
        **changed: Any,
    ) -> Record:
        """A batch with rows of a stream."""
        ktime = columns.column(columns.schema.get_field_index("ktime_ns")).to_pylist()
        batch = Batch(
            stream=stream,
            sequence=sequence,
            event_count=columns.num_rows,
            first_ktime_ns=min(ktime, default=0),
            last_ktime_ns=max(ktime, default=0),
            boot_to_utc_ns=BOOT_TO_UTC_NS,
            schema_fingerprint=fingerprint(columns.schema),
            arrow_ipc=ipc(columns),
            account=account(emitted, lost),
        )
        for name, value in changed.items():
            setattr(batch, name, value)
        return self.record(batch=batch)

    def gap(
        self, *spans: tuple[int, int, int], reason: str = "full", stream: str = "syscall", **changed: Any
    ) -> Record:
        """A gap: spans of lost sequences, each as (first, last, events)."""
        gap = Gap(
            stream=stream,
            place="spool",
            reason=reason,
            spans=[Span(first=first, last=last, events=events) for first, last, events in spans],
            first_ktime_ns=FIRST_KTIME_NS,
            last_ktime_ns=FIRST_KTIME_NS,
            boot_to_utc_ns=BOOT_TO_UTC_NS,
        )
        for name, value in changed.items():
            setattr(gap, name, value)
        return self.record(gap=gap)

    def accounts(self, ktime_ns: int = FIRST_KTIME_NS, **streams: Account) -> Record:
        """The accounts of some streams at a time."""
        return self.record(accounts=Accounts(streams=streams, ktime_ns=ktime_ns, boot_to_utc_ns=BOOT_TO_UTC_NS))

    def end(
        self,
        last_sequences: Mapping[str, int],
        streams: Mapping[str, Account] | None = None,
        end: "task_pb2.TaskEnd.ValueType" = task_pb2.TASK_END_REQUEST,
    ) -> Record:
        """The record of the run's end."""
        told = Accounts(streams=streams or {}, ktime_ns=2 * FIRST_KTIME_NS, boot_to_utc_ns=BOOT_TO_UTC_NS)
        return self.record(end=RunEnd(end=end, accounts=told, last_sequences=last_sequences))


def account(emitted: int, lost: Mapping[tuple[str, str], int] | None = None) -> Account:
    """A stream's account; `lost` is by place and reason."""
    losses = [Loss(place=place, reason=reason, count=count) for (place, reason), count in (lost or {}).items()]
    return Account(emitted=emitted, lost=losses)


def envelope(record: Record | bytes, position: int) -> session_pb2.UploadRequest:
    """The request that uploads the record."""
    data = record if isinstance(record, bytes) else record.SerializeToString()
    return session_pb2.UploadRequest(
        envelope=session_pb2.Envelope(position=position, record=data, crc32=checksum(data))
    )


def description(stream: DescribedStream, **changed: Any) -> session_pb2.UploadRequest:
    """The request that describes a stream."""
    told = {"stream": stream.name, "schema_fingerprint": stream.fingerprint, "description": written(stream)}
    return session_pb2.UploadRequest(description=session_pb2.StreamDescription(**told | changed))


class Line:
    """A server's ingest path, from an upload stream to the tables of a database.

    Attributes:
        machine: the machine whose agent sends, unless another is given.
    """

    def __init__(self, conninfo: str, backlog: Backlog, writers: Writers, machine: Machine, tables: Tables) -> None:
        self.conninfo, self.backlog, self.writers, self.machine = conninfo, backlog, writers, machine
        self.tables = tables

    async def send(self, *records: Record | bytes, machine: Machine | None = None) -> list[session_pb2.Answer]:
        """Sends records over one stream; returns their answers in the order of the records."""
        return await self.upload((envelope(record, number) for number, record in enumerate(records)), machine)

    async def upload(
        self, requests: Iterable[session_pb2.UploadRequest], machine: Machine | None = None
    ) -> list[session_pb2.Answer]:
        """Sends requests over one stream; returns their answers in the order of their positions."""

        async def stream() -> AsyncIterator[session_pb2.UploadRequest]:
            for request in requests:
                yield request

        async with aclosing(upload(stream(), machine or self.machine, self.backlog, self.tables)) as replies:
            answers = [answer async for reply in replies for answer in reply.answers]
        return sorted(answers, key=lambda answer: answer.position)

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Runs a statement, and returns its rows. Blocks."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def books(self, stream: str = "syscall") -> list[tuple[int, int, int, int, bool]]:
        """(emitted, stored, lost, under way, closed) of this stream, for each run."""
        asked = "SELECT emitted, stored, lost, under_way, closed FROM scope.books WHERE stream = %s ORDER BY run_id"
        return self.query(asked, stream)

    def losses(self) -> dict[str, int]:
        """Lost events by place/reason."""
        return dict(self.query("SELECT place || '/' || reason, sum(count)::bigint FROM scope.losses GROUP BY 1"))


@asynccontextmanager
async def lined(
    conninfo: str,
    *,
    limit: int = 256 << 20,
    lanes: int = 2,
    tables: Tables | None = None,
    **settings: Any,
) -> AsyncIterator[Line]:
    """A `Line` to a migrated database."""
    known = tables or Tables(streams().values())
    await asyncio.to_thread(_migrate, conninfo, known)
    backlog = Backlog(limit, lanes)
    writers = Writers(backlog, conninfo, known, **settings)
    try:
        yield Line(conninfo, backlog, writers, await asyncio.to_thread(make_machine, conninfo), known)
    finally:
        await writers.stop(30)


def make_machine(conninfo: str, machine_id: str = "0123456789abcdef0123456789abcdef") -> Machine:
    """Registers a machine that booted at the beginning of the previous hour by the server's clock."""
    installation = str(uuid.uuid4())
    with psycopg.connect(conninfo) as connection:
        key = connection.execute(
            "INSERT INTO store.machines (machine_id, installation, hostname, kernel, architecture, cpus, memory_bytes,"
            " agent_version) VALUES (%s, %s, 'stand-in', '6.1', 'x86_64', 2, 0, '')"
            " ON CONFLICT (machine_id) DO UPDATE SET last_seen = now() RETURNING id",
            [machine_id, installation],
        ).fetchone()
    assert key
    return Machine(key[0], machine_id, installation, BOOT_TO_UTC_NS)


def _migrate(conninfo: str, tables: Tables) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        migrate(connection, tables)
