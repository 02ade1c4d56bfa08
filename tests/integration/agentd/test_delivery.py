"""From the spool to the server: in all failures between them, each event is stored once or counted as lost."""

import asyncio
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.proxy import Proxy
from tests.fleet import of_person, to_agent
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
    tasks_of,
    until,
)
from tests.integration.agentd.stand_in_server import LATER, REFUSED, STORED, StandInServer

from scope_proto.scope.v1 import control_pb2, task_pb2

StartAgent = Callable[..., Any]


@pytest.fixture
def small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent stops sending after a few unanswered bytes."""
    monkeypatch.setattr("scope_agentd.session.upload.WINDOW_BYTES", 64 << 10)


@pytest.mark.usefixtures("small_window")
async def test_a_server_that_goes_and_comes_back_misses_nothing(start_agent: StartAgent, server: StandInServer) -> None:
    """Records made while the server was away are sent when it is back; unanswered records are resent."""
    command = held_calls(300_007)
    async with start_agent() as agent:
        task = await start(agent, request(pid=command.pid, names="getppid"))
        server.answers = False
        await run_to_end(command)
        await until(lambda: server.runs and server.of(task.task_id).stream("syscall").batches)
        await server.stop()
        server.answers = True
        await server.start()
        await stop(agent, task.task_id)
        await until(lambda: server.of_all(task.task_id) and server.of(task.task_id).closed)
    stream = server.of(task.task_id).stream("syscall")
    assert stream.repeats
    assert (stream.stored, stream.account.emitted, stream.balance) == (300_007, 300_007, 0)


@pytest.mark.usefixtures("small_window")
async def test_what_was_acknowledged_is_told_at_the_next_session(
    start_agent: StartAgent, server: StandInServer
) -> None:
    """The first report of a session tells which sequence numbers were answered, with their events, so that a server
    whose database was restored can compare."""
    command = held_calls(10_007)
    async with start_agent() as agent:
        task = await start(agent, request(pid=command.pid, names="getppid"))
        await run_to_end(command)
        await stop(agent, task.task_id)
        await until(lambda: server.of_all(task.task_id) and server.of(task.task_id).closed)
        await server.stop()
        before = len(server.reports)
        await server.start()
        await until(lambda: len(server.reports) > before)
        (told,) = (one for one in server.reports[before].acknowledged if one.stream == "syscall")
    batches = server.of(task.task_id).stream("syscall").batches
    ((first, last, events),) = ((span.first, span.last, span.events) for span in told.spans)
    assert (first, events) == (1, sum(batches[sequence].event_count for sequence in range(1, last + 1)))
    assert told.last_ktime_ns == batches[last].last_ktime_ns


@pytest.mark.usefixtures("small_window")
async def test_a_silent_server_is_left(start_agent: StartAgent, server: StandInServer, port: int) -> None:
    """The agent ends a silently dead connection within its timeout, and delivers over a new one."""
    command = held_calls(10_007)
    with closing(Proxy(server.port)) as proxy:
        async with start_agent(server=f"127.0.0.1:{proxy.port}", metrics=f"127.0.0.1:{port}") as agent:
            task = await start(agent, request(pid=command.pid, names="getppid"))
            await until(lambda: server.runs and server.of(task.task_id).start)
            assert (await scraped(port))["scope_agent_connected"] == 1
            proxy.stall(True)
            await run_to_end(command)
            async with asyncio.timeout(20):
                while (await scraped(port))["scope_agent_connected"]:
                    await asyncio.sleep(0.1)
            proxy.stall(False)
            await stop(agent, task.task_id)
            await until(lambda: server.of_all(task.task_id) and server.of(task.task_id).closed)
            assert (await scraped(port))["scope_agent_connections_total"] > 1
    stream = server.of(task.task_id).stream("syscall")
    assert (stream.stored, stream.balance) == (10_007, 0)


@pytest.mark.usefixtures("small_window")
async def test_what_is_to_come_later_does_not_hold_up_the_rest(start_agent: StartAgent, server: StandInServer) -> None:
    """Records answered with LATER are resent. They do not block other records, even if they exceed the send window."""
    first, second = held_calls(300_007), held_calls(10_007)
    async with start_agent() as agent:
        task = await start(agent, request(pid=first.pid, names="getppid"))
        server.verdict = LATER
        await run_to_end(first)
        await until(lambda: server.deliveries > 3)
        server.verdict = STORED
        other = await start(agent, request(pid=second.pid, names="getppid"))
        await run_to_end(second)
        await stop(agent, other.task_id)
        await stop(agent, task.task_id)
        await until(lambda: server.of_all(other.task_id) and server.of(other.task_id).closed)
        await until(lambda: server.of_all(task.task_id) and server.of(task.task_id).closed)
    assert server.of(task.task_id).stream("syscall").stored == 300_007
    assert server.of(other.task_id).stream("syscall").stored == 10_007


@pytest.mark.usefixtures("small_window")
async def test_what_is_refused_is_not_sent_again(start_agent: StartAgent, server: StandInServer) -> None:
    """The agent does not resend a refused record: the server has counted it as lost."""
    server.verdict = REFUSED
    command = held_calls(300_007)
    async with start_agent() as agent:
        task = await start(agent, request(pid=command.pid, names="getppid"))
        await run_to_end(command)
        await stop(agent, task.task_id)
        reports = len(server.reports)
        await until(lambda: any(not report.spool.records for report in server.reports[reports:]))
        delivered = server.deliveries
        await server.stop()
        await server.start()
        reports = len(server.reports)
        await until(lambda: len(server.reports) > reports)
    assert server.deliveries == delivered > 4
    assert not server.runs


async def test_a_full_spool_drops_the_oldest_and_books_it(start_agent: StartAgent, server: StandInServer) -> None:
    """If the spool fills while the server is away, dropped records become gaps, and the books balance and close."""
    await server.stop()
    command = held_calls(4_000_037)
    async with start_agent(spool_bytes=16 << 20) as agent:
        task = await start(agent, request(pid=command.pid))
        await run_to_end(command)
        await stop(agent, task.task_id)
        await server.start()
        await until(lambda: server.runs and server.of(task.task_id).closed)
    stream = server.of(task.task_id).stream("syscall")
    assert stream.given_up
    assert stream.account.emitted >= 4_000_037
    assert stream.balance == 0


async def test_an_agent_that_ends_with_its_server_gone_delivers_later(
    start_agent: StartAgent, server: StandInServer
) -> None:
    """Unsent records, including the run's end, stay on disk, and the restarted agent delivers them."""
    await server.stop()
    command = held_calls(124_213)
    async with start_agent(stop_deadline_s=0.2) as agent:
        task = await start(agent, request(pid=command.pid, names="getppid"))
        await run_to_end(command)
        await stop(agent, task.task_id)
    await server.start()
    async with start_agent():
        await until(lambda: server.runs and server.of(task.task_id).closed)
    stream = server.of(task.task_id).stream("syscall")
    assert (stream.stored, stream.balance) == (124_213, 0)


async def test_a_copy_of_a_running_agent_leaves_its_runs_alone(
    start_agent: StartAgent, server: StandInServer, tmp_path: Path
) -> None:
    """An agent that starts in a copy of a running agent's directory is another installation, and ends none of its runs:
    their events are stored, and none is counted as lost."""

    def sockets(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if (Path(folder) / name).is_socket()]

    state, copy = tmp_path / "state", tmp_path / "copy"
    with Caller() as caller:
        async with start_agent(state_dir=state) as agent:
            task = await start(agent, request(pid=caller.pid, names="getppid"))
            caller.call(5003)
            await until(lambda: server.runs and server.of(task.task_id).stream("syscall").stored == 5003)
            shutil.copytree(state, copy, ignore=sockets)
            async with start_agent(state_dir=copy) as second:
                assert not await tasks_of(second)
                await until(lambda: len({hello.node.installation_id for hello in server.hellos}) == 2)
            caller.call(4001)
            await stop(agent, task.task_id)
            await until(lambda: server.of(task.task_id).closed)
    run = server.of(task.task_id)
    assert run.end and run.end.end == task_pb2.TASK_END_REQUEST
    assert (run.stream("syscall").stored, run.stream("syscall").lost) == (9004, {})


async def test_the_books_of_a_killed_agent_close(tmp_path: Path, server: StandInServer) -> None:
    """After kill -9 during a load, the next agent counts as lost exactly the events that never reached the server,
    and says that the run ended when it last was alive: there is no recording from then on."""
    with Caller() as caller:
        first, control = await agent_process(tmp_path, server)
        async with to_agent(control, of_person(server.authority)) as channel:
            stub = control_of(channel)
            task = await stub.StartTask(request(pid=caller.pid, names="getppid"))
        caller.call(50_021)
        await until(lambda: server.runs and server.of(task.task_id).stream("syscall").stored == 50_021)
        first.send_signal(signal.SIGSTOP)
        caller.call(49_982)
        stopped_ns = time.time_ns()
        first.send_signal(signal.SIGKILL)
        first.wait()
    second, _ = await agent_process(tmp_path, server)
    try:
        killed = next(run for run in server.runs.values() if run.task_id == task.task_id)
        await until(lambda: killed.closed)
    finally:
        second.terminate()
        second.wait()
    assert killed.end and killed.end.end == task_pb2.TASK_END_KILLED
    assert killed.start and killed.start.started.ToNanoseconds() < killed.end.ended.ToNanoseconds() < stopped_ns
    stream = killed.stream("syscall")
    assert (stream.account.emitted, stream.stored, stream.balance) == (100_003, 50_021, 0)
    assert stream.lost["agent/killed"] + stream.lost.get("ring/ring_full", 0) == 49_982
    assert stream.lost["agent/killed"] > 0
    assert not list(Path("/sys/fs/bpf/scope").glob(f"*/{task.run.run_id.replace('-', '')}"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A separate file system, small enough to be filled."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


def _fill(disk: Path, agent: "subprocess.Popen[bytes]") -> Path:
    """Fills the disk, and stops the agent from using the rest of its segment's last page."""
    (segment,) = (disk / "spool").glob("*.segment")
    resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (segment.stat().st_size, -1))
    file = disk / "others"
    with suppress(OSError), file.open("wb", buffering=0) as out:
        while True:
            out.write(bytes(4096))
    return file


@pytest.mark.parametrize("stopped", [False, True], ids=["recording", "stopped"])
@pytest.mark.parametrize("again", [False, True], ids=["killed once", "killed twice"])
async def test_the_books_of_an_agent_killed_on_a_full_disk_close(
    small_disk: Path, server: StandInServer, stopped: bool, again: bool
) -> None:
    """Events that the killed agent could not write are counted as lost.

    This holds whether or not its run had ended, and also if the next agent is killed before there is space.
    """
    server.verdict = LATER  # the agent would reuse the space of stored records
    with Caller() as caller:
        agent, control = await agent_process(small_disk, server)
        async with to_agent(control, of_person(server.authority)) as channel:
            stub = control_of(channel)
            task = await stub.StartTask(request(pid=caller.pid, names="getppid"))
            caller.call(50_021)
            await until(lambda: server.deliveries > 3)
            others = _fill(small_disk, agent)
            caller.call(300_007)
            if stopped:
                await stub.StopTask(control_pb2.StopTaskRequest(task_id=task.task_id))
    _kill(agent)
    if again:
        agent, _ = await agent_process(small_disk, server)
        _kill(agent)
    others.unlink()
    server.verdict = STORED
    agent, _ = await agent_process(small_disk, server)
    try:
        await until(lambda: server.runs and server.of_all(task.task_id)[0].closed)
    finally:
        agent.terminate()
        agent.wait()
    stream = server.of_all(task.task_id)[0].stream("syscall")
    assert (stream.account.emitted, stream.balance) == (350_028, 0)
    assert not list(Path("/sys/fs/bpf/scope").glob(f"*/{task.run.run_id.replace('-', '')}"))


def _kill(agent: "subprocess.Popen[bytes]") -> None:
    agent.send_signal(signal.SIGKILL)
    agent.wait()
