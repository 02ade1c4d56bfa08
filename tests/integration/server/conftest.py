"""A server in this process over a real PostgreSQL, and batches as an agent would send them."""

import asyncio
import itertools
import json
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import grpc
import pyarrow as pa
import pytest

from scope_bpf.catalogue import probe_named
from scope_bpf.stream import fingerprint
from scope_cli.client import Client
from scope_proto.scope.v1 import batch_pb2, control_pb2, ingest_pb2
from scope_proto.scope.v1.ingest_pb2_grpc import IngestStub
from scope_server.app import serve
from scope_server.settings import Settings
from scope_server.store.postgres import PrivatePostgres

MACHINE = "0123456789abcdef0123456789abcdef"
BOOT_TO_UTC_NS = 1_790_000_000_000_000_000
NOBODY = "127.0.0.1:1"  # the control service of an agent that is not there

SYSCALL = probe_named("syscalls").streams[0]
SCHEMA = probe_named("syscalls").schema(SYSCALL)


def rows(count: int, first: int = 0, pid: int = 4711) -> pa.RecordBatch:
    """So many rows of `syscall`: one every microsecond, `arg0` numbers them."""
    values = {
        "ktime_ns": [10**9 + 1000 * (first + n) for n in range(count)],
        "start_ns": [500] * count,
        "cgroup_id": [1] * count,
        "pid": [pid] * count,
        "tid": [pid + n % 3 for n in range(count)],
        "uid": [(1 << 32) - 1] * count,
        "cpu": [n % 2 for n in range(count)],
        "comm": [("one", "two\\xff")[n % 2] for n in range(count)],
        "name": [("read", None)[n % 5 == 4] for n in range(count)],
        "nr": [0] * count,
        "arg0": [first + n for n in range(count)],
        **{f"arg{n}": [-n] * count for n in range(1, 6)},
        "ret": [None if n % 7 == 6 else -n for n in range(count)],
        "duration_ns": [(1 << 64) - 1 if n == 0 else n for n in range(count)],
    }
    return pa.RecordBatch.from_pydict(values, schema=SCHEMA)


def batch(columns: pa.RecordBatch, task_id: str, sequence: int, emitted: int = 0) -> batch_pb2.Batch:
    """The batch that an agent makes of the columns."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(columns)
    return batch_pb2.Batch(
        machine_id=MACHINE,
        task_id=task_id,
        stream="syscall",
        sequence=sequence,
        event_count=columns.num_rows,
        boot_to_utc_ns=BOOT_TO_UTC_NS,
        schema_fingerprint=fingerprint(columns.schema),
        arrow_ipc=sink.getvalue().to_pybytes(),
        account=batch_pb2.Account(emitted=emitted),
    )


class Server:
    """A running server, and an agent's end of its ingest service."""

    def __init__(self, http: str, ingest: str, token: Path, conninfo: str) -> None:
        self.http, self.ingest, self.token, self.conninfo = http, ingest, token, conninfo
        self.client = Client(f"http://{http}", token)

    async def get(self, *path: str, **query: Any) -> Any:
        """GET from the API, without blocking the loop that serves it."""
        return await asyncio.to_thread(lambda: self.client.get(*path, **query))

    def problem(self, path: str) -> Any:
        """The body of an answer that is an error. Blocks."""
        headers = {"Authorization": f"Bearer {self.token.read_text().strip()}"}
        try:
            urlopen(Request(f"http://{self.http}/api/v1/{path}", headers=headers), timeout=10).close()
        except HTTPError as error:
            return json.load(error)
        raise AssertionError(f"{path} is no error")

    async def send(self, *batches: batch_pb2.Batch) -> list[ingest_pb2.UploadReply]:
        """Sends batches over one connection; their replies in the order of their sequences."""
        hello = ingest_pb2.Hello(
            node=control_pb2.Node(machine_id=MACHINE, hostname="stand-in", kernel="6.1", cpus=2), control_address=NOBODY
        )
        requests = [ingest_pb2.UploadRequest(hello=hello), *(ingest_pb2.UploadRequest(batch=one) for one in batches)]
        metadata = (("authorization", f"Bearer {self.token.read_text().strip()}"),)
        async with grpc.aio.insecure_channel(self.ingest) as channel:
            replies = [reply async for reply in IngestStub(channel).Upload(iter(requests), metadata=metadata)]
        return sorted(replies, key=lambda reply: reply.sequence)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PrivatePostgres]:
    """One PostgreSQL for all tests; the socket's path has to be short."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder, PrivatePostgres(Path(folder) / "pg") as running:
        yield running


_numbers = itertools.count()


@pytest.fixture
def start_server(postgres: PrivatePostgres, tmp_path: Path) -> Callable[..., Any]:
    """Runs a server over a database of its own for an `async with` block."""
    name = f"test_{next(_numbers)}"
    postgres.ensure_database(name)

    @asynccontextmanager
    async def start(**changes: Any) -> AsyncIterator[Server]:
        given = {"database": postgres.conninfo(name), "http": "127.0.0.1:0", "ingest": "127.0.0.1:0", **changes}
        settings = Settings(token_file=tmp_path / "token", **given)
        stop: asyncio.Event = asyncio.Event()
        ready: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(serve(settings, stop, lambda http, ingest: ready.set_result((http, ingest))))
        done, _ = await asyncio.wait([running, ready], return_when=asyncio.FIRST_COMPLETED)
        if running in done:
            await running
        try:
            yield Server(*ready.result(), settings.token_file, settings.database)
        finally:
            stop.set()
            await running

    return start


@pytest.fixture
def task_id() -> str:
    """The id of a task."""
    return str(uuid.uuid4())
