"""The tasks that the server wants: each message lists all; the agent keeps them over restarts and retries failures."""

import asyncio
import errno
import threading
import uuid
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from tests.integration.agentd.conftest import Agent
from tests.integration.agentd.driving import definition, held_calls, request, start, stop, tasks_of, until
from tests.integration.agentd.stand_in_server import StandInServer, wanted

from scope_agentd.definition import Definition, check_definition
from scope_agentd.pins import Pins
from scope_agentd.session import attend
from scope_proto.scope.v1 import control_pb2, task_pb2

StartAgent = Callable[..., Any]
RUNNING, STOPPED, FAILED = task_pb2.TASK_STATE_RUNNING, task_pb2.TASK_STATE_STOPPED, task_pb2.TASK_STATE_FAILED


def state(server: StandInServer, task_id: str) -> int:
    """The last reported state of a task; 0 if the task was never reported."""
    return server.tasks[task_id].run.state if task_id in server.tasks else 0


async def test_what_is_wanted_runs_and_what_is_not_ends(start_agent: StartAgent, server: StandInServer) -> None:
    """Each message lists all wanted tasks: the agent stops a task that the next message does not list."""
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    server.want(wanted(first, definition("process")))
    async with start_agent():
        await until(lambda: state(server, first) == RUNNING)
        server.want(wanted(second, definition("sched")))
        await until(lambda: state(server, first) == STOPPED and state(server, second) == RUNNING)
        assert server.reports[-1].wanted_number > 0
        server.want()
        await until(lambda: state(server, second) == STOPPED)
    assert server.tasks[second].run.end == task_pb2.TASK_END_REQUEST


async def test_a_task_of_the_machine_is_not_the_servers_to_stop(start_agent: StartAgent, server: StandInServer) -> None:
    """The server cannot stop a local task, and a local caller cannot stop a task of the server."""
    mine = str(uuid.uuid4())
    async with start_agent() as agent:
        own = await start(agent, request("process"))
        server.want(wanted(mine, definition("sched")))
        await until(lambda: state(server, mine) == RUNNING)
        await server.stop()
        await server.start()
        await until(lambda: len(server.hellos) > 1)
        server.want()
        await until(lambda: state(server, mine) == STOPPED)
        assert (await tasks_of(agent))[own.task_id].run.state == RUNNING
        server.want(wanted(mine, definition("sched")))
        await until(lambda: state(server, mine) == RUNNING)
        with pytest.raises(grpc.aio.AioRpcError, match="belongs to the server"):
            await stop(agent, mine)


async def test_an_agent_that_starts_without_its_server_goes_on(start_agent: StartAgent, server: StandInServer) -> None:
    """The agent at once resumes the tasks that the server wanted last, and delivers when the server is back."""
    task_id = str(uuid.uuid4())
    server.want(wanted(task_id, definition("process")))
    async with start_agent():
        await until(lambda: state(server, task_id) == RUNNING)
    await server.stop()
    async with start_agent(stop_deadline_s=0.2) as agent:
        async with asyncio.timeout(60):
            while (await tasks_of(agent))[task_id].run.state != RUNNING:
                await asyncio.sleep(0.05)
        runs = len(server.runs)
        await server.start()
        await until(lambda: len(server.runs) > runs)


async def test_a_start_that_fails_is_tried_again(start_agent: StartAgent, server: StandInServer) -> None:
    """A failed start shows its reason and its next try, does not block other tasks, and is retried until it works."""
    cgroup = "scope-test-" + uuid.uuid4().hex[:8]
    late, other = str(uuid.uuid4()), str(uuid.uuid4())
    described = definition("process")
    described.target.cgroup = cgroup
    server.want(wanted(late, described), wanted(other, definition("sched")))
    async with start_agent():
        await until(lambda: state(server, late) == FAILED and state(server, other) == RUNNING)
        assert "there is no cgroup" in server.tasks[late].run.error
        await until(lambda: server.tasks[late].HasField("next_try"))
        from scope_bpf.host import cgroup_root

        root = cgroup_root()
        assert root
        (root / cgroup).mkdir()
        try:
            await until(lambda: state(server, late) == RUNNING)
        finally:
            server.want()
            await until(lambda: state(server, late) == STOPPED)
            (root / cgroup).rmdir()


async def test_a_passing_want_of_descriptors_drops_no_task(
    start_agent: StartAgent, server: StandInServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the first start fails, for any reason, the task stays wanted and is retried; the agent continues."""
    task_id = str(uuid.uuid4())
    failures = iter([OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread")])

    def fails_twice(wanted: task_pb2.Definition) -> Definition:
        if error := next(failures, None):
            raise error
        return check_definition(wanted)

    monkeypatch.setattr("scope_agentd.task.check_definition", fails_twice)
    server.want(wanted(task_id, definition("process")))
    async with start_agent():
        await until(lambda: state(server, task_id) == FAILED)
        assert "Too many open files" in server.tasks[task_id].run.error
        await until(lambda: state(server, task_id) == RUNNING)


async def test_a_run_that_cannot_be_written_down_closes_its_books(
    start_agent: StartAgent, server: StandInServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If something fails between a run's start and its first row, the run ends with the reason. A new run follows."""
    monkeypatch.setattr("scope_agentd.task.FIRST_PAUSE_S", 0.1)
    recording, full = Pins.recording, threading.Event()

    def fails_when_full(pins: Pins, run_id: bytes) -> None:
        if not full.is_set():
            full.set()
            raise OSError(errno.ENOSPC, "No space left on device")
        recording(pins, run_id)

    monkeypatch.setattr(Pins, "recording", fails_when_full)
    task_id = str(uuid.uuid4())
    server.want(wanted(task_id, definition("process")))
    async with start_agent():
        await until(lambda: state(server, task_id) == RUNNING)
        server.want()
        await until(lambda: state(server, task_id) == STOPPED and all(run.closed for run in server.of_all(task_id)))
    first, _second = server.of_all(task_id)
    assert first.end
    assert first.end.end == task_pb2.TASK_END_FAILURE
    assert "No space left on device" in first.end.error


async def test_a_first_start_that_fails_after_a_restart_drops_no_task(
    start_agent: StartAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local task whose first start after a restart fails is kept, over another restart too, and retried."""
    async with start_agent() as agent:
        task = await start(agent, request("process"))
    failed = threading.Event()

    def fails_until_seen(wanted: task_pb2.Definition) -> Definition:
        if not failed.is_set():
            raise OSError(errno.EMFILE, "Too many open files")
        return check_definition(wanted)

    monkeypatch.setattr("scope_agentd.task.check_definition", fails_until_seen)
    async with start_agent() as agent:
        assert "Too many open files" in (await _in_state(agent, task.task_id, FAILED)).error
    async with start_agent() as agent:
        await _in_state(agent, task.task_id, FAILED)
        failed.set()
        await _in_state(agent, task.task_id, RUNNING)
        await stop(agent, task.task_id)


async def _in_state(agent: Agent, task_id: str, state: int) -> control_pb2.Run:
    async with asyncio.timeout(60):
        while (run := (await tasks_of(agent))[task_id].run).state != state:
            await asyncio.sleep(0.05)
    return run


async def test_another_process_with_the_pid_is_not_meant(start_agent: StartAgent, server: StandInServer) -> None:
    """After an agent restart, a task does not record another process that got the pid of its ended target."""
    task_id = str(uuid.uuid4())
    command = held_calls(1)
    server.want(wanted(task_id, definition("process", pid=command.pid)))
    async with start_agent() as agent:
        await until(lambda: state(server, task_id) == RUNNING)
        file = agent.settings.state_dir / "tasks.json"
    text = file.read_text()
    start_ticks = next(line for line in text.splitlines() if "target_start" in line)
    file.write_text(text.replace(start_ticks, '  "target_start": 1,'))  # as if that process were an earlier one
    server.tasks.clear()
    async with start_agent():
        await until(lambda: state(server, task_id) == FAILED)
    assert "another process has its pid now" in server.tasks[task_id].run.error
    command.close()


async def test_a_damaged_list_of_tasks_is_put_aside(start_agent: StartAgent) -> None:
    """The agent starts with no tasks, and keeps the damaged file under another name."""
    async with start_agent() as agent:
        file = agent.settings.state_dir / "tasks.json"
    file.write_text('[{"task_id": ')
    async with start_agent() as agent:
        assert not await tasks_of(agent)
    assert file.with_suffix(".damaged").exists()


async def test_runs_that_may_still_send_are_told(start_agent: StartAgent, server: StandInServer) -> None:
    """The first report names the runs that may still send, so that the server can close the books of all other runs."""
    async with start_agent() as agent:
        task = await start(agent, request("process"))
        await server.stop()
        await server.start()
        reports = len(server.reports)
        await until(lambda: len(server.reports) > reports)
        told = {run.hex() for report in server.reports[reports:] for run in report.open_runs}
        assert uuid.UUID(task.run.run_id).hex in told


async def test_reports_come_while_nothing_happens(
    start_agent: StartAgent, server: StandInServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle agent continues to send reports, and says when the next one comes, so that the server knows it is alive;
    they come sooner if it has a task."""
    monkeypatch.setattr(attend, "IDLE_REPORT_EVERY_S", 0.7)
    monkeypatch.setattr(attend, "REPORT_EVERY_S", 0.5)
    async with start_agent():
        await until(lambda: len(server.reports) >= 3)
    times = [report.ktime_ns for report in server.reports]
    assert times == sorted(times)
    assert {report.next_ms for report in server.reports} == {700}
    server.reports.clear()
    mine = str(uuid.uuid4())
    server.want(wanted(mine, definition("sched")))
    async with start_agent():
        await until(lambda: state(server, mine) == RUNNING and server.reports[-1].next_ms == 500)
        server.want()
        await until(lambda: state(server, mine) == STOPPED and server.reports[-1].next_ms == 700)
