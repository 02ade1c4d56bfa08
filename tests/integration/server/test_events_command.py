"""`scope events` with a real server: relative times, filters, and following new rows."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.integration.server.records import FIRST_KTIME_NS, Line, Run, rows
from tests.integration.server.running import Server
from tests.integration.server.stand_in_agent import StandInAgent
from tests.integration.server.test_app import STORED, answers, recorded, uploading

from scope_proto.scope.v1.record_pb2 import Record

StartServer = Callable[..., Any]
Store = Callable[[Record], Awaitable[None]]
SCOPE = (sys.executable, "-m", "scope_cli.main")


def _ago(seconds: float) -> int:
    """The offset from ktime to UTC that dates the first row so many seconds ago."""
    return time.time_ns() - int(seconds * 1e9) - FIRST_KTIME_NS


async def _begun(server: Server, *words: str) -> asyncio.subprocess.Process:
    its = {"SCOPE_URL": f"http://{server.http}", "SCOPE_TOKEN_FILE": str(server.token)}
    return await asyncio.create_subprocess_exec(
        *(*SCOPE, "events", *words),
        env={**os.environ, **its},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )


async def _told(server: Server, *words: str) -> tuple[int | None, str, str]:
    """Runs `scope events`; returns status, output and errors."""
    process = await _begun(server, *words)
    out, said = await process.communicate()
    return process.returncode, out.decode(), said.decode()


async def _numbers(process: asyncio.subprocess.Process, count: int) -> list[int]:
    """`arg0` of the next rows that it prints; fails if they take more than 60 s."""
    assert process.stdout
    async with asyncio.timeout(60):
        return [json.loads(await process.stdout.readline())["arg0"] for _ in range(count)]


async def test_a_time_ago_and_a_filter_narrow(line: Line, start_server: StartServer) -> None:
    """Relative `--since` and `--until`, with `--where`, select exactly the rows between."""
    run = Run()
    await line.send(
        run.batch(1, rows(11), boot_to_utc_ns=_ago(3000)), run.batch(2, rows(13, 100), boot_to_utc_ns=_ago(120))
    )
    async with start_server() as server:
        for words, expected in (
            (("--since", "-5m"), list(range(100, 113))),
            (("--since", "-1m"), []),
            (("--since", "-1h", "--until", "-5m"), list(range(11))),
            (("--since", "-1d", "--where", "arg0 in (3, 107) or arg0 > 110"), [3, 107, 111, 112]),
        ):
            status, out, said = await _told(server, "syscall", "--json", "--order", "asc", *words)
            assert (status, [json.loads(row)["arg0"] for row in out.splitlines()]) == (0, expected), (words, said)
        status, out, said = await _told(server, "syscall", "--columns", "arg0,ret", "--where", "arg0 = 107")
        assert (status, [row.split() for row in out.splitlines()], said) == (
            0,
            [["arg0", "ret"], ["0x6b", "-7", "E2BIG"]],
            "",
        )


@asynccontextmanager
async def _agent(server: Server) -> AsyncIterator[tuple[Run, Store]]:
    """A run of an agent of this server, and what stores a record of it."""
    agent = StandInAgent()
    async with agent.attending(server) as channel, uploading(agent, channel) as call:

        async def store(record: Record) -> None:
            assert await answers(call, record) == [STORED]

        yield await recorded(server, agent), store


async def test_rows_are_followed(start_server: StartServer) -> None:
    """`--follow --since` prints stored rows since a time, then each new row, also late ones; Ctrl-C exits with 0."""
    async with start_server() as server, _agent(server) as (run, store):
        await store(run.batch(1, rows(11), boot_to_utc_ns=_ago(3000)))
        await store(run.batch(2, rows(13, 100), boot_to_utc_ns=_ago(120)))
        process = await _begun(server, "syscall", "--json", "--follow", "--since", "-5m", "--where", "comm = one")
        assert await _numbers(process, 7) == list(range(100, 113, 2))
        await store(run.batch(3, rows(10, 200), boot_to_utc_ns=_ago(0)))
        assert await _numbers(process, 5) == list(range(200, 210, 2))
        await store(run.batch(4, rows(10, 300), boot_to_utc_ns=_ago(240)))
        assert await _numbers(process, 5) == list(range(300, 310, 2))
        process.send_signal(signal.SIGINT)
        out, said = await process.communicate()
        assert (process.returncode, out, said) == (0, b"", b"")


async def test_what_was_there_before_is_left_out(start_server: StartServer) -> None:
    """`--follow` without `--since` prints all rows stored after its first request, and no earlier ones."""
    async with start_server() as server, _agent(server) as (run, store), asyncio.TaskGroup() as tasks:
        await store(run.batch(1, rows(11)))

        async def go_on() -> None:
            for number in range(2, 10_000):
                await store(run.batch(number, rows(1, 100 + number)))
                await asyncio.sleep(0.05)

        storing = tasks.create_task(go_on())
        process = await _begun(server, "syscall", "--follow", "--json", "--limit", "17")
        found = await _numbers(process, 17)
        assert await process.wait() == 0
        storing.cancel()
    assert found == list(range(found[0], found[0] + 17))
    assert found[0] > 100


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("sycall",), 1, "no stream 'sycall' (did you mean 'syscall'"),
        (("syscall", "--where", "retr < 0"), 2, "where, character 1: no column 'retr' (did you mean 'ret'"),
        (("syscall", "--where", "ret < "), 2, "where, at its end: a value is missing"),
        (("syscall", "--follow", "--where", "comm < 5"), 2, "'<' is for numbers, and comm is a text"),
    ],
)
async def test_a_wrong_question_is_answered_in_a_line(
    start_server: StartServer, words: tuple[str, ...], status: int, said: str
) -> None:
    """A wrong stream or filter gets one line, with a similar name or the place of the error. A filter is usage: 2."""
    async with start_server() as server:
        ended, out, error = await _told(server, *words)
        assert (ended, out, error.count("\n")) == (status, "", 1)
        assert said in error
