"""Ingest: a record is stored exactly once, or refused and counted, or answered with LATER."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from tests.integration.server.records import (
    REFUSED,
    SCHEMA,
    STORED,
    Line,
    Run,
    account,
    envelope,
    lined,
    make_machine,
    rows,
)
from tests.integration.server.running import until
from tests.integration.server.standby import primary

from scope_proto.scope.v1 import task_pb2
from scope_proto.scope.v1.record_pb2 import Record
from scope_proto.scope.v1.session_pb2 import UploadRequest
from scope_server.ingest.backlog import SHARE
from scope_server.ingest.upload import upload
from scope_server.store.postgres import PrivatePostgres

COUNTED = "SELECT count(*), count(DISTINCT arg0) FROM scope.syscall"


async def test_a_record_delivered_again_is_stored_once(line: Line) -> None:
    """A resent record is answered as stored and changes nothing, also if several streams send it at the same time."""
    run = Run()
    one, two = run.batch(1, rows(103), 103), run.batch(2, rows(107, 103), 210)
    together = await asyncio.gather(line.send(one, two), line.send(two, one, one), line.send(two))
    assert {answer.verdict for answers in together for answer in answers} == {STORED}
    assert {answer.verdict for answer in await line.send(one, two)} == {STORED}
    assert line.query(COUNTED) == [(210, 210)]
    assert line.books() == [(210, 210, 0, 0, False)]


async def test_who_started_and_stopped_a_local_task_is_stored(line: Line) -> None:
    """The persons in a run's first and last records are in the views, also if a batch has made the task before."""
    run = Run()
    await line.send(run.batch(1, rows(1), 1))
    assert line.query("SELECT started_by FROM scope.tasks") == [(None,)]
    end = run.end({"syscall": 1}, {"syscall": account(1)})
    end.end.stopped_by = "bob"
    await line.send(run.start(task_pb2.ORIGIN_AGENT, started_by="ada"), end)
    assert line.query("SELECT started_by FROM scope.tasks") == [("ada",)]
    assert line.query("SELECT stopped_by FROM scope.runs") == [("bob",)]
    other = Run()
    await line.send(other.start(task_pb2.ORIGIN_AGENT, started_by=1000 * "x" + "\0"))
    assert {len(text) for (text,) in line.query("SELECT started_by FROM scope.tasks")} == {3, 64}


async def test_each_record_is_answered_by_its_position(line: Line) -> None:
    """Each record gets one answer, which names the position that the agent gave it."""
    run = Run()
    requests = [envelope(run.batch(n + 1, rows(3, 3 * n)), 1000 - n) for n in range(300)]
    answers = await line.upload(requests)
    assert [answer.position for answer in answers] == list(range(701, 1001))
    assert {answer.verdict for answer in answers} == {STORED}


async def test_what_an_agent_sent_before_it_went_is_stored(line: Line) -> None:
    """Records of an interrupted stream are stored; if resent, they are answered as stored."""
    run = Run()
    cut = asyncio.Event()

    async def stream() -> AsyncIterator[UploadRequest]:
        for number in range(7):
            yield envelope(run.batch(number + 1, rows(101, 101 * number)), number)
        cut.set()
        await asyncio.Event().wait()

    async with aclosing(upload(stream(), line.machine, line.backlog, line.tables)) as replies:
        listening = asyncio.create_task(anext(replies))
        await cut.wait()
        listening.cancel()
        await asyncio.wait([listening])
    await until(lambda: asyncio.to_thread(line.query, COUNTED), lambda found: found == [(707, 707)])
    again = await line.send(*[run.batch(number + 1, rows(101, 101 * number)) for number in range(7)])
    assert {answer.verdict for answer in again} == {STORED}
    assert line.query(COUNTED) == [(707, 707)]


def _bad(run: Run) -> list[tuple[Record, str]]:
    """Batches of sequences 2 to 8 that can never be stored, each with a part of the reason."""
    damaged, unread = run.batch(2, rows(11)), run.batch(3, rows(13))
    damaged.batch.arrow_ipc = damaged.batch.arrow_ipc[: len(damaged.batch.arrow_ipc) // 2]
    unread.batch.arrow_ipc = b"nonsense"
    other = pa.RecordBatch.from_arrays(
        [
            column.cast(pa.string()) if name == "arg1" else column
            for name, column in zip(SCHEMA.names, rows(17), strict=True)
        ],
        names=SCHEMA.names,
    )
    liar = run.batch(7, rows(31))
    liar.batch.schema_fingerprint = "0" * 16
    twice = rows(37).append_column("pid", pa.array([1] * 37, pa.int32()))
    return [
        (damaged, "not an Arrow stream"),
        (unread, "not an Arrow stream"),
        (run.batch(4, other), "is string, here it is int64"),
        (run.batch(5, rows(19, comm=["a\0b"] * 19)), "NUL"),
        (run.batch(6, rows(29), event_count=1009), "1009 events declared, but 29 rows found"),
        (liar, "fingerprint"),
        (run.batch(8, twice), "two columns have the same name"),
    ]


async def test_bad_batches_are_refused_and_booked(line: Line) -> None:
    """A batch that can never be stored is refused with a reason and booked as lost; its neighbours are stored."""
    run = Run()
    bad = _bad(run)
    lost = sum(record.batch.event_count for record, _ in bad)
    sound = [run.batch(1, rows(101)), run.batch(9, rows(103, 101), emitted=204 + lost)]
    answers = await line.send(sound[0], *[record for record, _ in bad], sound[1])
    assert [answer.verdict for answer in answers] == [STORED, *[REFUSED] * len(bad), STORED]
    for answer, (_, said) in zip(answers[1:-1], bad, strict=True):
        assert said in answer.reason
    assert line.query(COUNTED) == [(204, 204)]
    assert line.books() == [(204 + lost, 204, lost, 0, False)]
    assert line.losses() == {
        "ingest/corrupt": lost - 17 - 19,
        "ingest/other_schema": 17,
        "ingest/nul_in_text": 19,
    }
    await line.send(*[record for record, _ in bad])
    assert line.books() == [(204 + lost, 204, lost, 0, False)]
    assert line.backlog.counts.refused == {"corrupt": 5, "other_schema": 1, "nul_in_text": 1}


async def test_what_cannot_be_identified_is_refused_and_counted(line: Line) -> None:
    """A damaged record, or one without a valid run, task, stream or sequence, is refused and counted by code."""
    run = Run()
    no_run, short, no_task = (run.batch(1, rows(3)) for _ in range(3))
    no_run.run_id, short.run_id, no_task.task_id = b"", b"x" * 15, b"x" * 17
    odd = [run.batch(1, rows(3), stream=name) for name in ("", "A", "a\0b", "x" * 64, "sys call", 'a";--')]
    far = [run.batch(0, rows(3)), run.batch((1 << 62) + 1, rows(3))]
    empty = Record(run_id=run.run_id.bytes, task_id=run.task_id.bytes)
    bad = [no_run, short, no_task, *odd, *far, empty]
    requests = [envelope(record, number) for number, record in enumerate([*bad, run.batch(1, rows(101))])]
    damaged, cut = envelope(run.batch(2, rows(3)), 100), envelope(b"\xff" * 30, 101)
    damaged.envelope.crc32 ^= 1
    answers = await line.upload([*requests, damaged, cut])
    assert [answer.verdict for answer in answers] == [*[REFUSED] * len(bad), STORED, REFUSED, REFUSED]
    assert "checksum" in answers[-2].reason
    assert line.backlog.counts.refused == {"unidentified": len(bad), "damaged": 2}
    assert line.query(COUNTED) == [(101, 101)]


async def test_runs_of_another_machine_are_refused(line: Line, database: str) -> None:
    """Records for a run or task of another machine are refused; so are records that move a run to another task."""
    run = Run()
    assert [answer.verdict for answer in await line.send(run.start(), run.batch(1, rows(101)))] == [STORED, STORED]
    other = make_machine(database, "f" * 32)
    stolen = Run(run.task_id)
    moved = run.batch(2, rows(3))
    moved.task_id = b"x" * 16
    answers = await line.send(run.batch(2, rows(3)), stolen.batch(1, rows(3)), run.end({"syscall": 1}), machine=other)
    assert [(answer.verdict, answer.reason) for answer in answers] == [
        (REFUSED, "the run or its task belongs to another machine")
    ] * 3
    assert [answer.verdict for answer in await line.send(moved, run.batch(2, rows(103, 101)))] == [REFUSED, STORED]
    assert line.query(COUNTED) == [(204, 204)]
    assert line.backlog.counts.refused == {"another_machine": 4}


async def test_an_older_agents_columns_are_filled_up(line: Line) -> None:
    """Rows of an older agent are stored; a column that it does not send is absent."""
    (answer,) = await line.send(Run().batch(1, rows(7).drop_columns(["duration_ns"])))
    assert answer.verdict == STORED
    assert line.query("SELECT count(*), count(duration_ns) FROM scope.syscall") == [(7, 0)]


@pytest.fixture
def mortal_postgres() -> Iterator[PrivatePostgres]:
    """A PostgreSQL that a test may kill."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder, PrivatePostgres(Path(folder) / "pg") as running:
        yield running


async def test_a_database_that_is_killed_under_load_loses_nothing(mortal_postgres: PrivatePostgres) -> None:
    """If the database is killed, streams wait and health says since when; once it is back, each row is stored once."""
    runs = [Run() for _ in range(3)]
    count, size = 40, 499
    async with lined(mortal_postgres.conninfo()) as line:
        await line.send(*[run.start() for run in runs])
        reached = asyncio.Event()

        async def stream(run: Run) -> AsyncIterator[UploadRequest]:
            for n in range(count):
                if n == count // 2:
                    reached.set()
                if n > count // 2:
                    await asyncio.sleep(0.02)
                yield envelope(run.batch(n + 1, rows(size, size * n), emitted=size * (n + 1)), n)

        async def send(run: Run) -> list[int]:
            async with aclosing(upload(stream(run), line.machine, line.backlog, line.tables)) as replies:
                return [answer.verdict async for reply in replies for answer in reply.answers]

        sending = [asyncio.create_task(send(run)) for run in runs]
        await reached.wait()
        await asyncio.to_thread(mortal_postgres.stop, immediate=True)
        said = await until(lambda: line.writers.check(1), lambda found: "records since" in found)
        assert "holds" in said
        assert not any(task.done() for task in sending)
        await asyncio.to_thread(mortal_postgres.start)
        verdicts = [verdict for found in await asyncio.gather(*sending) for verdict in found]
        assert verdicts == [STORED] * (len(runs) * count)
        assert await until(lambda: line.writers.check(3), lambda found: not found) == ""
        assert line.query("SELECT count(*) FROM scope.syscall") == [(len(runs) * count * size,)]
        assert line.query(
            "SELECT count(*) FROM (SELECT batch, ordinal FROM scope.syscall GROUP BY 1, 2) AS places"
        ) == [(len(runs) * count * size,)]
        assert line.books() == [(count * size, count * size, 0, 0, False)] * len(runs)


async def test_a_commit_that_its_replica_has_not_confirmed_is_not_answered(tmp_path: Path) -> None:
    """A server that ends while a commit waits for a synchronous replica does not answer it: a failover may lose it."""
    run = Run()
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with primary(tmp_path / "pg") as postgres:
        async with lined(postgres.conninfo(), lanes=1) as line:
            await line.send(run.batch(1, rows(101), 101))
            line.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            line.query("SELECT pg_reload_conf()")
            sending = asyncio.create_task(line.send(run.batch(2, rows(103, 101), 204)))
            await until(lambda: asyncio.to_thread(line.query, waits), lambda found: found == [(1,)])
            await line.writers.stop(0.1)
            assert line.query(COUNTED) == [(204, 204)]  # PostgreSQL says that it is committed
            done, _ = await asyncio.wait([sending], timeout=0.5)
            assert not done
            sending.cancel()


async def test_a_slow_database_makes_agents_wait(database: str) -> None:
    """If the database is slow, the server stops reading at a machine's share of bytes, and answers no record early."""
    run = Run()
    records = [run.batch(n + 1, rows(997, 997 * n), 997 * (n + 1)) for n in range(40)]
    read = 0

    async def stream() -> AsyncIterator[UploadRequest]:
        nonlocal read
        for number, record in enumerate(records):
            read += 1
            yield envelope(record, number)

    limit = 1 << 20
    async with lined(database, limit=limit, lanes=1) as line:
        assert [answer.verdict for answer in await line.send(run.start())] == [STORED]
        with psycopg.connect(database) as blocker:
            blocker.execute("LOCK TABLE store.accounts IN ACCESS EXCLUSIVE MODE")
            replies = upload(stream(), line.machine, line.backlog, line.tables)
            first = asyncio.create_task(anext(replies))
            held = await until(lambda: _held(line), lambda found: found > limit // SHARE // 2)
            assert held <= limit // SHARE
            assert read < len(records)
            assert not first.done()
        answers = list((await first).answers) + [answer async for reply in replies for answer in reply.answers]
        assert [answer.verdict for answer in answers] == [STORED] * 40
        assert line.query(COUNTED) == [(39880, 39880)]
        assert line.books() == [(39880, 39880, 0, 0, False)]


async def _held(line: Line) -> int:
    return line.backlog.held_bytes


async def test_a_lock_that_is_held_long_is_waited_for(database: str) -> None:
    """A lock timeout is temporary: the group is kept and stored later, not refused."""
    run = Run()
    async with lined(database, lanes=1) as line:
        with psycopg.connect(database) as blocker:
            blocker.execute("LOCK TABLE store.accounts IN ACCESS EXCLUSIVE MODE")
            sending = asyncio.create_task(line.send(run.batch(1, rows(101))))
            said = await until(lambda: line.writers.check(1), lambda found: "lock timeout" in found)
            assert "writer 0 holds 1 records since" in said
        assert [answer.verdict for answer in await sending] == [STORED]
        assert await until(lambda: line.writers.check(3), lambda found: not found) == ""
