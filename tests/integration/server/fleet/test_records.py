"""Records through Redis: stored exactly once, and acknowledged after the commit, whatever ends between."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from tests.integration.server.fleet.waiting import until
from tests.integration.server.records import STORED, Line, Run, make_machine, rows
from tests.integration.server.redis_forms import FORMS, Form, Several
from tests.integration.server.redis_server import RedisServer
from tests.integration.server.tables import TABLES

from scope_proto.scope.v1.record_pb2 import Record
from scope_server.fleet import Fleet
from scope_server.ingest.backlog import Backlog
from scope_server.ingest.writers import Writers
from scope_server.redis import keys, scripts
from scope_server.redis.fleet import Records, joined

RUNS, BATCHES, ROWS = 13, 17, 7


class Server:
    """The part of a server that brings records to Redis, or takes them from there."""

    def __init__(self, fleet: Fleet, writers: Writers | None = None) -> None:
        self.fleet, self._writers = fleet, writers
        self._work = [asyncio.create_task(run()) for run in fleet.work.values()]

    async def kill(self) -> None:
        """Ends it at once: it tells nobody anything."""
        for one in self._work:
            one.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        if self._writers:
            await self._writers.stop(0)

    async def stop(self) -> None:
        """Ends it in order."""
        ended = [one.exception() for one in self._work if one.done() and not one.cancelled()]
        await self.kill()
        await self.fleet.close()
        assert ended == []


class Apart:
    """A receiver, and writers that come and go, over a Redis and a database."""

    def __init__(self, redis: Form, conninfo: str) -> None:
        self.redis, self._conninfo = redis, conninfo
        self.servers: list[Server] = []
        self._names = 0

    def receiver(self, most_bytes: int = 64 << 20) -> Line:
        """A receiver, as a line that an agent sends to."""
        received = Backlog(256 << 20, 1)
        self._begin(Records(received, None, most_bytes))
        nobody = Writers(Backlog(1, 0), self._conninfo, TABLES)
        return Line(self._conninfo, received, nobody, make_machine(self._conninfo), TABLES)

    def writer(self) -> Server:
        """Another writer."""
        written = Backlog(256 << 20, 2)
        return self._begin(Records(written=written), Writers(written, self._conninfo, TABLES))

    def _begin(self, records: Records, writers: Writers | None = None) -> Server:
        self._names += 1
        self.servers.append(Server(joined(f"server {self._names}", self.redis.at, records), writers))
        return self.servers[-1]

    def left(self) -> tuple[int, int]:
        """Entries and bytes in Redis."""
        with self.redis.client as client:
            entries = sum(int(client.xlen(key)) for key in client.keys("{scope}:records:*"))
            return entries, sum(map(int, client.hvals("{scope}:bytes")))


@pytest.fixture
async def apart(
    request: pytest.FixtureRequest,
    forms: Callable[[str], Form],
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Apart]:
    """Servers of the test, which end with it. Its parameter is the form of their Redis."""
    monkeypatch.setattr(scripts, "LEASE_S", 3)
    made = Apart(forms(getattr(request, "param", "one")), database)
    try:
        yield made
    finally:
        for server in made.servers:
            await server.stop()


def _batches(pid: int, run: Run) -> list[Record]:
    return [run.batch(n, rows(ROWS, ROWS * n, pid), emitted=ROWS * n) for n in range(1, BATCHES + 1)]


def _sent(line: Line, runs: list[Run]) -> list["asyncio.Task[Any]"]:
    async def send(pid: int, run: Run) -> Any:
        await line.send(run.start())
        batches = _batches(pid, run)
        return [await line.send(*batches[first : first + 5]) for first in range(0, BATCHES, 5)]

    return [asyncio.create_task(send(pid, run)) for pid, run in enumerate(runs, 1000)]


async def _all_are_stored(line: Line, sent: list["asyncio.Task[Any]"]) -> None:
    async with asyncio.timeout(120):
        found = await asyncio.gather(*sent)
    verdicts = [answer.verdict for run in found for answers in run for answer in answers]
    assert verdicts == [STORED] * (RUNS * BATCHES)
    numbers = await asyncio.to_thread(line.query, "SELECT pid, arg0 FROM scope.syscall")
    assert len(numbers) == len(set(numbers)) == RUNS * BATCHES * ROWS
    whole = BATCHES * ROWS
    assert await asyncio.to_thread(line.books) == [(whole, whole, 0, 0, False)] * RUNS


@pytest.mark.parametrize("apart", FORMS, indirect=True)
async def test_records_are_stored_and_leave_nothing_behind(apart: Apart) -> None:
    """An answer comes after the commit; then neither entry nor bytes are left in Redis."""
    line = apart.receiver()
    apart.writer()
    await _all_are_stored(line, _sent(line, [Run() for _ in range(RUNS)]))
    await until(lambda: apart.left() == (0, 0))


async def test_a_runs_records_stay_in_order(apart: Apart) -> None:
    """With two writers, each run's batches are committed in the order of their sequences."""
    line = apart.receiver()
    for _ in range(2):
        apart.writer()
    await _all_are_stored(line, _sent(line, [Run() for _ in range(RUNS)]))
    found = await asyncio.to_thread(
        line.query, "SELECT array_agg(sequence ORDER BY id) FROM store.batches GROUP BY run"
    )
    assert found == [(list(range(1, BATCHES + 1)),)] * RUNS
    with apart.redis.client as client:
        owners = list(client.hvals("{scope}:owners"))
    assert sorted(map(owners.count, set(owners))) == [8, 8]


async def test_what_waits_goes_together(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that wait go to Redis with few questions, as many as fit in each, and so do their outcomes back."""
    asked = {"add": [0], "finish": [0]}  # how many at once, for each question
    go_on = {name: asyncio.Event() for name in asked}

    def counted(name: str) -> Callable[..., Any]:
        question = getattr(scripts, name)

        async def ask(client: Any, *given: Any, **named: Any) -> Any:
            await go_on[name].wait()
            asked[name].append(len([*given, *named.values()][0]))
            return await question(client, *given, **named)

        return ask

    for name in asked:
        monkeypatch.setattr(scripts, name, counted(name))
    line, runs = apart.receiver(), [Run() for _ in range(RUNS)]
    apart.writer()
    sent = [asyncio.create_task(line.send(run.start(), *_batches(pid, run))) for pid, run in enumerate(runs, 1000)]
    records = RUNS * (BATCHES + 1)
    await until(lambda: len(line.backlog._arrivals) == records)
    go_on["add"].set()
    await until(lambda: line.query("SELECT count(*) FROM scope.syscall") == [(RUNS * BATCHES * ROWS,)])
    go_on["finish"].set()
    await asyncio.gather(*sent)
    for counts in asked.values():
        assert sum(counts) == records
        assert len(counts) < records / 10


async def _flushed(apart: Apart) -> None:
    apart.redis.flush()


async def _restarted(apart: Apart) -> None:
    redis = _only(apart)
    redis.kill()
    await asyncio.sleep(0.3)
    redis.start()


async def _paused(apart: Apart) -> None:
    redis = _only(apart)
    redis.pause()
    await asyncio.sleep(4)  # longer than anybody waits for an answer
    redis.resume()


def _only(apart: Apart) -> RedisServer:
    assert isinstance(apart.redis, RedisServer)
    return apart.redis


async def _killed(apart: Apart) -> None:
    await apart.servers[-1].kill()
    apart.writer()


@pytest.mark.parametrize("trouble", [_flushed, _restarted, _paused, _killed])
async def test_trouble_loses_and_repeats_nothing(
    apart: Apart, trouble: Callable[[Apart], Coroutine[None, None, None]]
) -> None:
    """Redis loses its data, is killed, or hangs, or a writer is killed, twice while records are under way."""
    line = apart.receiver()
    apart.writer()
    sent = _sent(line, [Run() for _ in range(RUNS)])
    for stored in (1, RUNS * BATCHES * ROWS // 3):
        await until(lambda: line.query("SELECT count(*) FROM scope.syscall") >= [(stored,)])  # noqa: B023
        await trouble(apart)
    await _all_are_stored(line, sent)
    await until(lambda: apart.left() == (0, 0))


@pytest.mark.parametrize("apart", ["sentinel", "cluster"], indirect=True)
async def test_another_node_takes_over(apart: Apart) -> None:
    """The node that has the keys is killed while records are under way; the servers find the one that takes over."""
    line = apart.receiver()
    apart.writer()
    sent = _sent(line, [Run() for _ in range(RUNS)])
    await until(lambda: line.query("SELECT count(*) FROM scope.syscall") >= [(1,)])
    assert isinstance(apart.redis, Several)
    apart.redis.lose()
    await _all_are_stored(line, sent)
    await until(lambda: apart.left() == (0, 0))


async def test_an_answer_may_come_before_the_sending_ends(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis has a record, a writer stores it, and then the receiver learns that Redis did not answer: all goes on."""
    add, answers = scripts.add, keys.answers("server 1")
    failed: list[list[bytes]] = []

    def answered() -> bool:
        with apart.redis.client as client:
            return apart.left() == (0, 0) and client.xlen(answers) == 0

    async def added(*given: Any) -> list[bytes]:
        entries = await add(*given)
        if not failed:
            failed.append(entries)
            await until(answered)
            raise redis.TimeoutError("no answer")
        return entries

    monkeypatch.setattr(scripts, "add", added)
    line = apart.receiver()
    apart.writer()
    await _all_are_stored(line, _sent(line, [Run() for _ in range(RUNS)]))
    assert failed


@contextmanager
def _process(redis: RedisServer, conninfo: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A writer that is a process of its own."""
    anywhere = [word for name in ("http", "ingest", "enrol") for word in (f"--{name}", "127.0.0.1:0")]
    files = ["--state-dir", str(folder), "--socket", str(folder / "api.sock"), "--authority", str(folder / "authority")]
    command = [sys.executable, "-m", "scope_cli.main", "server", "--config", os.devnull, "--database", conninfo]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *files, *anywhere, "--redis", redis.url, "--role", "write"], stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _pending(redis: Form) -> int:
    """How many entries writers have taken and not finished."""
    count = 0
    with redis.client as client:
        for key in client.keys("{scope}:records:*"):
            groups: list[Any] = client.xinfo_groups(key)  # none before a writer has come
            count += sum(one["pending"] for one in groups)
    return count


async def test_a_killed_process_is_taken_over(apart: Apart, tmp_path: Path) -> None:
    """What a writer had taken when SIGKILL ended it, in the middle of a transaction, another one stores once."""
    line = apart.receiver()
    with _process(_only(apart), line.conninfo, tmp_path) as writer:
        with psycopg.connect(line.conninfo) as connection:
            connection.execute("LOCK TABLE store.accounts")  # no transaction of a writer ends
            sent = _sent(line, [Run() for _ in range(RUNS)])
            await until(lambda: writer.poll() is not None or _pending(apart.redis) > 0, 120)
            assert writer.poll() is None, (tmp_path / "log").read_text()
            writer.send_signal(signal.SIGKILL)
            writer.wait()
        assert _pending(apart.redis) > 0
        apart.writer()
        await _all_are_stored(line, sent)
    await until(lambda: apart.left() == (0, 0))


async def test_without_writers_redis_holds_a_bounded_part(apart: Apart) -> None:
    """Nothing is trimmed: the receiver waits, says so, and all is stored when a writer comes."""
    limit = 2000  # the runs' starts have more
    line = apart.receiver(limit)
    sent = _sent(line, [Run() for _ in range(RUNS)])
    await until(lambda: "Redis is full" in apart.servers[0].fleet.check())
    entries, held = apart.left()
    assert entries > 1
    assert held <= limit
    assert not any(one.done() for one in sent)
    apart.writer()
    await _all_are_stored(line, sent)
    await until(lambda: apart.left() == (0, 0))
    assert apart.servers[0].fleet.check() == ""


async def test_what_is_no_record_stops_nobody(apart: Apart) -> None:
    """Entries of others in the streams are removed, and records behind them are stored."""
    with apart.redis.client as client:
        for partition in range(16):
            client.xadd(f"{{scope}}:records:{partition}", {"size": 1, "about": "[]", "record": "?"})
            client.xadd(f"{{scope}}:records:{partition}", {"size": 1})
    line = apart.receiver()
    apart.writer()
    await _all_are_stored(line, _sent(line, [Run() for _ in range(RUNS)]))
    await until(lambda: apart.left()[0] == 0)
