"""The local bus: what readers get, and that slow, stopped and killed ones disturb nobody."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.fleet import of_person, to_agent
from tests.integration.agentd.bus_listener import Listener
from tests.integration.agentd.conftest import control_of
from tests.integration.agentd.driving import (
    Caller,
    agent_process,
    held_calls,
    request,
    run_to_end,
    scraped,
    start,
    stop,
    until,
)
from tests.integration.agentd.stand_in_server import StandInServer

StartAgent = Callable[..., Any]

TAIL = [sys.executable, "-m", "scope_cli.main", "tail", "--local", "--json"]
EXAMPLE = Path(__file__).parents[3] / "docs" / "local_bus.py"


class Tail:
    """A `scope tail --local --json` in a process of its own; `told` are its objects so far."""

    def __init__(self, state: Path, output: Path, *words: str) -> None:
        self._output = output
        environment = {**os.environ, "SCOPE_STATE": str(state)}
        with output.open("wb") as file:
            self.process = subprocess.Popen([*TAIL, *words], stdout=file, stderr=subprocess.PIPE, env=environment)

    @property
    def told(self) -> list[dict[str, Any]]:
        text = self._output.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [one for one in self.told if one["type"] != "loss"]

    def lost(self, reason: str = "slow_reader") -> int:
        return sum(one["count"] for one in self.told if one["type"] == "loss" and one["reason"] == reason)


@contextmanager
def tailing(state: Path, output: Path, *words: str) -> Iterator[Tail]:
    tail = Tail(state, output, *words)
    with tail.process:
        try:
            yield tail
        finally:
            tail.process.kill()


async def has_topics(port: int, topics: int) -> None:
    """Waits until the agent knows of that many topics with readers."""
    async with asyncio.timeout(30):
        while (await scraped(port))["scope_agent_bus_topics"] != topics:
            await asyncio.sleep(0.05)


async def test_readers_get_what_the_server_gets(
    start_agent: StartAgent, server: StandInServer, tmp_path: Path, port: int
) -> None:
    """The rows of a task are on the bus as the server has them, numbered from 0; at the end the books are told."""
    async with start_agent(metrics=f"127.0.0.1:{port}") as agent:
        with Listener(tmp_path) as listener:
            await has_topics(port, 1)
            command = held_calls(1009)
            task = await start(agent, request("syscalls", pid=command.pid))
            await run_to_end(command)
            await stop(agent, task.task_id)
            await until(lambda: listener.ended("syscall") and server.of(task.task_id).closed)
    assert listener.rows("syscall") == server.of(task.task_id).rows("syscall")
    assert sum(row["name"] == "getppid" for row in listener.rows("syscall")) == 1009
    batches = listener.of("syscall")
    assert {batch["task"] for batch in batches} == {task.task_id}
    next_ = 0
    for batch in batches:
        assert batch["events_before"] == next_
        next_ += batch["events"]
    assert batches[-1]["emitted"] == next_ + sum(batches[-1]["lost"].values())


async def test_topics_choose_streams_and_tasks(start_agent: StartAgent, tmp_path: Path, port: int) -> None:
    """A reader gets only what it subscribed to; other streams are not even made into messages."""
    async with start_agent(metrics=f"127.0.0.1:{port}") as agent:
        command = held_calls(1)
        _, other = [await start(agent, request("process", pid=command.pid)) for _ in range(2)]
        with Listener(tmp_path, f"exec/{other.task_id[:13]}") as listener:
            await has_topics(port, 1)
            await run_to_end(command)
            await until(lambda: listener.rows("exec"))
            counted = 'scope_agent_bus_events_total{stream="exec"}'
            async with asyncio.timeout(30):
                while counted not in (measured := await scraped(port)):  # it is counted after it was sent
                    await asyncio.sleep(0.05)
    assert {(batch["stream"], batch["task"]) for batch in listener.batches} == {("exec", other.task_id)}
    assert measured[counted] >= 1
    assert not any(name.startswith("scope_agent_bus_events") and "exec" not in name for name in measured)


async def test_without_readers_nothing_is_made(start_agent: StartAgent, tmp_path: Path, port: int) -> None:
    """A task that nobody listens to makes no messages, also after a reader has left or was killed."""
    async with start_agent(metrics=f"127.0.0.1:{port}") as agent:
        with Listener(tmp_path):
            await has_topics(port, 1)
        with tailing(tmp_path, tmp_path / "out") as tail:
            await has_topics(port, 1)
            tail.process.kill()
            await has_topics(port, 0)
        command = held_calls(101)
        task = await start(agent, request("syscalls", pid=command.pid))
        await run_to_end(command)
        await stop(agent, task.task_id)
        measured = await scraped(port)
    assert not any(name.startswith("scope_agent_bus_events") for name in measured)


async def test_a_late_reader_learns_where_a_stream_stands(start_agent: StartAgent, tmp_path: Path, port: int) -> None:
    """A reader that joins a running task gets the schema and the position before any row; it has lost nothing."""
    async with start_agent(metrics=f"127.0.0.1:{port}") as agent:
        with Caller() as caller:
            task = await start(agent, request("syscalls", pid=caller.pid))
            await asyncio.to_thread(caller.call, 503)
            await until_emitted(port, 503)
            with Listener(tmp_path, "syscall/") as listener:
                await until(lambda: listener.of("syscall"))
                assert listener.batches[0]["events"] == 0
                assert listener.schemas["syscall"]["name"] == "text"
                assert listener.batches[0]["events_before"] >= 503
                await asyncio.to_thread(caller.call, 97)
                await until(lambda: sum(row["name"] == "getppid" for row in listener.rows("syscall")) == 97)
            await stop(agent, task.task_id)


async def until_emitted(port: int, events: int) -> None:
    name = 'scope_events_total{probe="syscalls",stream="syscall"}'
    async with asyncio.timeout(30):
        while (await scraped(port)).get(name, 0) < events:
            await asyncio.sleep(0.05)


async def test_a_stopped_reader_learns_exactly_what_it_lost(server: StandInServer, tmp_path: Path) -> None:
    """A reader that is stopped while a million events flow loses most of them; received + told lost = emitted.

    Another reader goes on: it gets all that comes while the queue of the stopped one is full. The agent keeps only what
    a reader's queue takes, and the server gets every event.
    """
    agent, control = await agent_process(tmp_path, server)
    calls = 1_000_003
    with (
        tailing(tmp_path, tmp_path / "out", "syscall") as tail,
        Listener(tmp_path, "syscall/") as other,
        Caller() as caller,
    ):
        async with to_agent(control, of_person(server.authority)) as channel:
            stub = type("Agent", (), {"control": control_of(channel)})
            task = await start(stub, request("syscalls", pid=caller.pid, ring_bytes=64 << 20))  # type: ignore[arg-type]
            await asyncio.to_thread(caller.call, 11)
            await until(lambda: tail.rows and other.of("syscall"))
            memory = peak(agent.pid)
            tail.process.send_signal(signal.SIGSTOP)
            await asyncio.to_thread(caller.call, calls)
            await keeps_up(caller, other)
            await stop(stub, task.task_id)  # type: ignore[arg-type]
            await until(lambda: server.of(task.task_id).closed, 240)
            grown = peak(agent.pid) - memory
            tail.process.send_signal(signal.SIGCONT)
            account = server.of(task.task_id).stream("syscall").account
            lost_before = sum(loss.count for loss in account.lost)
            await until(lambda: len(tail.rows) + tail.lost() + lost_before >= account.emitted, 120)
    agent.terminate()
    agent.wait()
    stream = server.of(task.task_id).stream("syscall")
    assert stream.stored + lost_before == account.emitted >= calls
    assert stream.balance == 0
    assert len(tail.rows) + tail.lost() + sum(tail.lost(loss.reason) for loss in account.lost) == account.emitted
    assert tail.lost() > account.emitted // 4  # 32 MiB wait for a reader; the events have more than 100 MB
    assert grown < 128 << 20


async def keeps_up(caller: Caller, reader: Listener) -> None:
    """Waits until a reader has read the newest event, then checks that it gets each of some more."""
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    async with asyncio.timeout(120):
        while reader.newest("syscall") < now:
            await asyncio.to_thread(caller.call, 1)
            await asyncio.sleep(0.1)
    begin = len(reader.batches)
    await asyncio.to_thread(caller.call, 1009)
    await until(lambda: sum(batch["events"] for batch in reader.read().batches[begin:]) >= 1009, 120)
    for before, after in pairwise(reader.batches[begin - 1 :]):
        assert after["events_before"] == before["events_before"] + before["events"]


def peak(pid: int) -> int:
    """The most bytes that a process had in memory so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


async def test_a_reader_outlives_the_agent(server: StandInServer, tmp_path: Path) -> None:
    """An agent is killed; the next one replaces its socket, and a reader goes on with the new run of the task."""
    agent, control = await agent_process(tmp_path, server)
    with tailing(tmp_path, tmp_path / "out", "exec") as tail:
        async with to_agent(control, of_person(server.authority)) as channel:
            stub = type("Agent", (), {"control": control_of(channel)})
            await start(stub, request("process"))  # type: ignore[arg-type]
        await sees_a_program(tail)
        agent.kill()
        agent.wait()
        agent, _ = await agent_process(tmp_path, server)
        await sees_a_program(tail)
        agent.terminate()
        agent.wait()
        tail.process.send_signal(signal.SIGINT)
        _, said = await asyncio.to_thread(tail.process.communicate)
    assert tail.process.returncode == 0
    assert b"the agent went away; waiting for it" in said
    assert b"none lost" in said


async def sees_a_program(tail: Tail) -> None:
    """Starts programs until one of them is told."""
    seen = len(tail.rows)
    async with asyncio.timeout(60):
        while not any(row["comm"] == "true" for row in tail.rows[seen:]):
            await asyncio.to_thread(subprocess.run, ["true"], check=True)
            await asyncio.sleep(0.1)


async def test_two_agents_have_two_buses(start_agent: StartAgent, tmp_path: Path) -> None:
    """Agents with different state directories run side by side; each offers the rows of its own tasks only."""
    other = tmp_path / "other"
    async with start_agent() as agent, start_agent(state_dir=other):
        with Listener(tmp_path) as listener, Listener(other) as others:
            command = held_calls(7)
            task = await start(agent, request("syscalls", pid=command.pid))
            await run_to_end(command)
            await stop(agent, task.task_id)
            await until(lambda: listener.ended("syscall"))
            assert others.read().batches == []


async def test_only_the_owner_may_enter(start_agent: StartAgent, tmp_path: Path) -> None:
    """The socket's directory is closed to others, also if it was open before; at the end the socket is gone."""
    (tmp_path / "bus").mkdir(mode=0o755)
    async with start_agent():
        assert stat.S_IMODE((tmp_path / "bus").stat().st_mode) == 0o700
        assert stat.S_ISSOCK((tmp_path / "bus" / "socket").stat().st_mode)
    assert list((tmp_path / "bus").iterdir()) == []


async def test_the_example_prints_programs(start_agent: StartAgent, tmp_path: Path, port: int) -> None:
    """The example of docs/local-bus.md prints programs as they start; it has about twenty lines."""
    async with start_agent(metrics=f"127.0.0.1:{port}") as agent:
        command = held_calls(1)
        await start(agent, request("process", pid=command.pid))
        words: list[str | Path] = [sys.executable, EXAMPLE, tmp_path / "bus" / "socket"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as example:
            await has_topics(port, 1)
            await run_to_end(command)
            assert example.stdout
            line = await asyncio.to_thread(example.stdout.readline)
            example.kill()
    assert line.split()[0] == str(command.pid)
    code = EXAMPLE.read_text().partition("import zmq\n")[2]
    assert len([line for line in code.splitlines() if line]) <= 20
