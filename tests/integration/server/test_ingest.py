"""Ingest: exactly once, or rejected and counted, or not at all and told so."""

import asyncio
import contextlib
import re
from collections.abc import Callable
from typing import Any

import grpc
import psycopg
import pyarrow as pa
import pytest
from tests.integration.server.conftest import BOOT_TO_UTC_NS, MACHINE, SCHEMA, batch, rows

from scope_cli.errors import CommandError
from scope_proto.scope.v1 import batch_pb2, ingest_pb2
from scope_proto.scope.v1.ingest_pb2_grpc import IngestStub
from scope_server.errors import AddressTaken, InvalidSettings, StoreUnavailable
from scope_server.settings import Settings
from scope_server.store.postgres import PrivatePostgres

StartServer = Callable[..., Any]
STORED, REJECTED, RETRY = ingest_pb2.VERDICT_STORED, ingest_pb2.VERDICT_REJECTED, ingest_pb2.VERDICT_RETRY


def query(conninfo: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(conninfo) as connection:
        return connection.execute(statement.encode()).fetchall()


async def test_rows_are_stored_as_they_were_sent(start_server: StartServer, task_id: str) -> None:
    """Every value comes back: signs, 64 unsigned bits, absent ones, names, nanoseconds."""
    async with start_server() as server:
        (reply,) = await server.send(batch(rows(101), task_id, 1, emitted=101))
        assert reply.verdict == STORED
        page = await server.get("events", "syscall", limit=1000, order="asc")
    events = page["events"]
    assert [event["arg0"] for event in events] == list(range(101))
    first = events[0]
    assert (first["duration_ns"], first["uid"], first["arg5"]) == ((1 << 64) - 1, (1 << 32) - 1, -5)
    assert (first["pid"], first["start_ns"], first["comm"], first["name"]) == (4711, 500, "one", "read")
    assert (events[4]["name"], events[6]["ret"]) == (None, None)
    assert (first["machine_id"], first["hostname"], first["task_id"]) == (MACHINE, "stand-in", task_id)
    assert first["ktime_ns"] == 10**9
    assert first["time"].endswith(".000000000Z")
    assert events[1]["time"].endswith(".000001000Z")
    assert page["next"] is None


async def test_a_batch_delivered_again_is_stored_once(start_server: StartServer, task_id: str) -> None:
    """Redelivery, also at the same time and over several connections, is acknowledged and changes nothing."""
    one, two = batch(rows(103), task_id, 1, 103), batch(rows(107, 103), task_id, 2, 210)
    async with start_server() as server:
        together = await asyncio.gather(server.send(one, two), server.send(two, one, one), server.send(two))
        assert {reply.verdict for replies in together for reply in replies} == {STORED}
        assert {reply.verdict for reply in await server.send(one, two)} == {STORED}
        assert query(server.conninfo, "SELECT count(*), count(DISTINCT arg0) FROM events.syscall") == [(210, 210)]
        books = query(server.conninfo, "SELECT emitted, stored, lost, balance FROM scope.books")
        assert books == [(210, 210, 0, 0)]


def _damaged(sound: batch_pb2.Batch) -> batch_pb2.Batch:
    damaged = batch_pb2.Batch()
    damaged.CopyFrom(sound)
    damaged.arrow_ipc = sound.arrow_ipc[: len(sound.arrow_ipc) // 2]
    return damaged


async def test_bad_batches_are_rejected_and_counted(start_server: StartServer, task_id: str) -> None:
    """A batch that can never be stored is rejected with a reason and booked as lost; its neighbours are stored."""
    newer = rows(13).append_column("invented", pa.array([1] * 13))
    other = pa.RecordBatch.from_arrays(
        [
            column.cast(pa.string()) if name == "arg1" else column
            for name, column in zip(SCHEMA.names, rows(17), strict=True)
        ],
        names=SCHEMA.names,
    )
    nul = rows(19).set_column(
        SCHEMA.get_field_index("comm"), SCHEMA.field("comm"), pa.array(["a\0b"] * 19).dictionary_encode()
    )
    unknown, miscounted, liar = (batch(rows(count), task_id, 0) for count in (23, 29, 31))
    unknown.stream = "from_the_future"
    miscounted.event_count = 1009
    liar.schema_fingerprint = "0" * 16
    bad = [
        _damaged(batch(rows(11), task_id, 2)),
        batch(newer, task_id, 3),
        batch(other, task_id, 4),
        batch(nul, task_id, 5),
        unknown,
        miscounted,
        liar,
    ]
    for sequence, one in enumerate(bad, 2):
        one.sequence = sequence
    lost = sum(one.event_count for one in bad)
    async with start_server() as server:
        sound = [batch(rows(101), task_id, 1), batch(rows(103, 101), task_id, 99, emitted=204 + lost - 23)]
        replies = await server.send(sound[0], *bad, sound[1])
        assert [reply.verdict for reply in replies] == [STORED, *[REJECTED] * 7, STORED]
        reasons = " | ".join(reply.reason for reply in replies)
        for said in (
            "not an Arrow stream",
            "no column 'invented'",
            "is string, here it is int64",
            "NUL",
            "no stream",
        ):
            assert said in reasons
        assert query(server.conninfo, "SELECT count(*) FROM events.syscall") == [(204,)]
        again = await server.send(*bad)
        assert {reply.verdict for reply in again} == {REJECTED}
        books = query(
            server.conninfo, "SELECT emitted, stored, lost, balance FROM scope.books WHERE stream = 'syscall'"
        )
        assert books == [(204 + lost - 23, 204, lost - 23, 0)]


async def test_an_older_agents_columns_are_filled_up(start_server: StartServer, task_id: str) -> None:
    """A column that an agent does not know yet is absent in its rows."""
    older = rows(7).drop_columns(["duration_ns"])
    async with start_server() as server:
        (reply,) = await server.send(batch(older, task_id, 1))
        assert reply.verdict == STORED
        page = await server.get("events", "syscall")
    assert {event["duration_ns"] for event in page["events"]} == {None}


async def test_a_database_that_goes_away_loses_nothing(start_server: StartServer, task_id: str) -> None:
    """While the database is gone batches are to be repeated; when it is back they are stored, once."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        postgres = PrivatePostgres(Path(folder) / "pg")
        postgres.start()
        try:
            async with start_server(database=postgres.conninfo()) as server:
                assert [reply.verdict for reply in await server.send(batch(rows(101), task_id, 1))] == [STORED]
                waiting = batch(rows(103, 101), task_id, 2, emitted=204)
                postgres.stop(immediate=True)
                with contextlib.suppress(grpc.aio.AioRpcError):  # it may refuse the connection, for the same reason
                    replies = await server.send(waiting)
                    assert [reply.verdict for reply in replies] == [RETRY]
                with pytest.raises(CommandError, match="503"):
                    await server.get("health")
                await asyncio.to_thread(postgres.start)
                for _ in range(100):
                    try:
                        if [reply.verdict for reply in await server.send(waiting)] == [STORED]:
                            break
                    except grpc.aio.AioRpcError:
                        pass
                    await asyncio.sleep(0.1)
                assert query(server.conninfo, "SELECT count(*) FROM events.syscall") == [(204,)]
                assert query(server.conninfo, "SELECT balance FROM scope.books") == [(0,)]
        finally:
            postgres.stop(immediate=True)


async def test_a_slow_database_makes_agents_wait(start_server: StartServer, task_id: str) -> None:
    """The server holds a bounded number of bytes and reads no more; nothing is answered early, nothing is lost."""
    batches = [batch(rows(997, 997 * n), task_id, n + 1, 997 * (n + 1)) for n in range(40)]
    limit = 3 * batches[0].ByteSize()
    async with start_server(queue_bytes=limit, writers=1) as server:
        assert [reply.verdict for reply in await server.send(batches[0])] == [STORED]
        with psycopg.connect(server.conninfo) as blocker:
            blocker.execute("LOCK TABLE scope.ledger IN ACCESS EXCLUSIVE MODE")
            sending = asyncio.create_task(server.send(*batches[1:]))
            await asyncio.sleep(0.5)
            health = await asyncio.to_thread(server.problem, "health")
            held = int(re.findall(r"(\d+) bytes wait", health["ingest"])[0])
            assert 0 < held < limit + max(each.ByteSize() for each in batches)
            assert not sending.done()
        replies = await sending
        assert {reply.verdict for reply in replies} == {STORED}
        assert query(server.conninfo, "SELECT count(*), count(DISTINCT arg0) FROM events.syscall") == [(39880, 39880)]
        assert query(server.conninfo, "SELECT emitted, stored, balance FROM scope.books") == [(39880, 39880, 0)]


async def test_a_database_that_is_not_there_is_told(start_server: StartServer) -> None:
    """A start waits for the database, and then says that it cannot be reached."""
    with pytest.raises(StoreUnavailable, match=r"the database cannot be reached after 0\.3 s"):
        async with start_server(database="host=/nonsense dbname=none", database_wait_s=0.3):
            pass


async def test_who_shows_no_token_or_no_hello_is_refused(start_server: StartServer, task_id: str) -> None:
    """A wrong token is refused before anything is read."""
    requests = [ingest_pb2.UploadRequest(batch=batch(rows(3), task_id, 1))]

    def refusal(address: str) -> grpc.StatusCode:
        # Not by grpc.aio, which tells INTERNAL if the call is refused while it still sends.
        with grpc.insecure_channel(address) as channel:
            call = IngestStub(channel).Upload(iter(requests), metadata=[("authorization", "Bearer guess")])
            with pytest.raises(grpc.RpcError):
                list(call)
            return call.code()

    async with start_server() as server:
        assert await asyncio.to_thread(refusal, server.ingest) is grpc.StatusCode.UNAUTHENTICATED
        assert query(server.conninfo, "SELECT count(*) FROM scope.machines") == [(0,)]


async def test_batches_of_another_machine_are_rejected(start_server: StartServer, task_id: str) -> None:
    """An agent speaks for the machine of its Hello alone."""
    foreign = batch(rows(3), task_id, 1)
    foreign.machine_id = "f" * 32
    async with start_server() as server:
        (reply,) = await server.send(foreign)
    assert (reply.verdict, "machine_id" in reply.reason) == (REJECTED, True)


async def test_ports_that_are_taken_are_named(start_server: StartServer) -> None:
    """A second server on the same ports says which is taken."""
    async with start_server() as server:
        with pytest.raises(AddressTaken, match=f"cannot listen on {server.http} for the API"):
            async with start_server(http=server.http):
                pass
        with pytest.raises(AddressTaken, match=f"cannot listen on {server.ingest} for ingest"):
            async with start_server(ingest=server.ingest):
                pass


@pytest.mark.parametrize("address", ["0.0.0.0:1", "127.0.0.1", "example.org:80", "127.0.0.1:x"])
def test_only_loopback_is_listened_on(address: str, tmp_path: Any) -> None:
    """Until there is mutual TLS, an address that others could reach is refused."""
    with pytest.raises(InvalidSettings, match="http: "):
        Settings(database="", token_file=tmp_path / "token", http=address)


async def test_times_are_utc_by_the_agents_offset(start_server: StartServer, task_id: str) -> None:
    """A row's time is its ktime and the offset that came with its batch."""
    async with start_server() as server:
        await server.send(batch(rows(1), task_id, 1))
        expected = (BOOT_TO_UTC_NS + 10**9) / 1e9
        assert query(server.conninfo, "SELECT extract(epoch FROM time)::float8 FROM events.syscall") == [(expected,)]
