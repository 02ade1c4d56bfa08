"""Tasks started on the machine itself through AgentControl, on the real kernel."""

import asyncio
import errno
import logging
import os
import shutil
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.fleet import of_person, to_agent
from tests.integration.agentd.conftest import control_of
from tests.integration.agentd.driving import (
    Caller,
    Failure,
    agent_process,
    held_calls,
    request,
    run_to_end,
    start,
    stop,
    tasks_of,
    until,
)
from tests.integration.agentd.stand_in_server import StandInServer
from tests.left_behind import left_behind, unheld

from scope_agentd.pipeline.batch import Batcher
from scope_agentd.starts import AT_ONCE
from scope_bpf.capture.account import Account
from scope_bpf.capture.batch import Batch
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.errors import KernelError
from scope_bpf.probes import probe_named, probes
from scope_catalogue.options import parse_options, trial
from scope_catalogue.stream import fingerprint
from scope_proto.scope.v1 import control_pb2, task_pb2

StartAgent = Callable[..., Any]


async def test_a_task_starts_without_the_folder_of_pins(start_agent: StartAgent) -> None:
    """If somebody has deleted the agent's folder in the BPF file system, the next task makes it anew."""
    command = held_calls(1009)
    async with start_agent() as agent:
        node = await agent.control.GetNode(control_pb2.GetNodeRequest())
        folder = Path("/sys/fs/bpf/scope") / node.installation_id
        folder.rmdir()
        task = await start(agent, request(pid=command.pid, names="getppid"))
        assert [pin.name for pin in folder.iterdir()] == [task.run.run_id.replace("-", "")]
        await run_to_end(command)
        await stop(agent, task.task_id)
    assert not folder.exists()


async def test_a_task_is_recorded_sent_and_accounted_for(start_agent: StartAgent, server: StandInServer) -> None:
    """Every call of a workload of known count reaches the server exactly once. The books balance and close."""
    command = held_calls(100_003)
    async with start_agent() as agent:
        task = await start(agent, request(pid=command.pid, names="getppid"))
        assert (task.run.state, task.origin) == (task_pb2.TASK_STATE_RUNNING, task_pb2.ORIGIN_AGENT)
        assert task.run.attach_point
        await run_to_end(command)
        ended = await stop(agent, task.task_id)
    assert (ended.run.state, ended.run.end) == (task_pb2.TASK_STATE_STOPPED, task_pb2.TASK_END_REQUEST)
    run = server.of(task.task_id)
    rows = run.rows("syscall")
    assert len(rows) == 100_003
    assert {(row["name"], row["pid"]) for row in rows} == {("getppid", command.pid)}
    stream = run.stream("syscall")
    assert (stream.account.emitted, stream.lost, stream.balance, stream.repeats) == (100_003, {}, 0, 0)
    assert run.start and run.end and run.closed
    assert run.start.definition.probe == "syscalls"
    assert sorted(stream.batches) == list(range(1, len(stream.batches) + 1))
    before = 0
    for _, batch in sorted(stream.batches.items()):
        assert batch.events_before == before
        before += batch.event_count
    probe = probe_named("syscalls")
    assert {batch.schema_fingerprint for batch in stream.batches.values()} == {
        fingerprint(probe.schema(probe.streams[0]))
    }
    assert server.callers == {f"scope:machine/{server.hellos[0].node.machine_id}"}


async def test_a_filter_leaves_rows_out(start_agent: StartAgent, server: StandInServer) -> None:
    """Of a workload of known counts, exactly the calls that meet the task's filter are sent, also after a restart of
    the agent; the others are counted as left out. A filter by name alone is the kernel's: it leaves out nothing."""
    calls = "import os\nfor _ in range(10_007): os.getppid(), os.getpgid(0)\n"
    commands = [HeldCommand([sys.executable, "-S", "-c", calls]) for _ in range(2)]
    wanted = [request(pid=command.pid, names="getppid,getpgid", where="name = getpgid") for command in commands]
    async with start_agent() as agent:
        with pytest.raises(grpc.aio.AioRpcError, match="no column 'nam'"):
            await start(agent, request(where="nam = getpgid"))
        kernels = await start(agent, request(pid=commands[0].pid, where="name = getpgid"))
        tasks = [await start(agent, one) for one in wanted]
        await run_to_end(commands[0])
        await stop(agent, kernels.task_id)
        await stop(agent, tasks[0].task_id)
    stream = server.of(tasks[0].task_id).stream("syscall")
    assert (stream.account.emitted, stream.stored, stream.account.left_out, stream.lost) == (20_014, 10_007, 10_007, {})
    assert {row["name"] for row in server.of(tasks[0].task_id).rows("syscall")} == {"getpgid"}
    stream = server.of(kernels.task_id).stream("syscall")
    assert (stream.account.emitted, stream.stored, stream.account.left_out) == (10_007, 10_007, 0)
    async with start_agent() as agent:
        async with asyncio.timeout(60):
            while (await tasks_of(agent))[tasks[1].task_id].run.state != task_pb2.TASK_STATE_RUNNING:
                await asyncio.sleep(0.05)
        await run_to_end(commands[1])
        ended = await stop(agent, tasks[1].task_id)
    assert ended.definition.where == "name = getpgid"
    stream = next(run for run in server.of_all(tasks[1].task_id) if run.stream("syscall").stored).stream("syscall")
    assert (stream.account.emitted, stream.stored, stream.account.left_out, stream.lost) == (20_014, 10_007, 10_007, {})


async def test_who_did_it_is_told_and_sent(start_agent: StartAgent, server: StandInServer) -> None:
    """Tasks and records have the names of the persons who started and stopped them, also after a restart of the agent;
    only the first stop counts."""
    ada, bob = (of_person(server.authority, name=name) for name in ("ada", "bob"))
    async with start_agent() as agent, to_agent(agent.address, ada) as channel:
        task = await control_of(channel).StartTask(request("process"))
        assert (task.started_by, task.run.stopped_by) == ("ada", "")
    async with start_agent() as agent, to_agent(agent.address, bob) as channel:
        async with asyncio.timeout(60):
            while (await tasks_of(agent))[task.task_id].run.state != task_pb2.TASK_STATE_RUNNING:
                await asyncio.sleep(0.05)
        ended = await control_of(channel).StopTask(control_pb2.StopTaskRequest(task_id=task.task_id))
        assert (ended.started_by, ended.run.stopped_by) == ("ada", "bob")
        again = await stop(agent, task.task_id)
        assert again.run.stopped_by == "bob"
    runs = [run for run in server.runs.values() if run.task_id == task.task_id]
    assert [run.start and run.start.started_by for run in runs] == ["ada", "ada"]
    assert [run.end and run.end.stopped_by for run in runs] == ["", "bob"]
    assert {told.started_by for told in server.tasks.values()} == {"ada"}


async def test_the_agent_answers_while_a_task_detaches(
    start_agent: StartAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent answers calls while a task detaches, which takes seconds with many files."""
    answered, waited = threading.Event(), []
    detach = Tracer._detach

    def detach_once_answered(tracer: Tracer) -> None:
        with tracer._lock:
            waited.append(answered.wait(20))
            detach(tracer)

    async with start_agent() as agent:
        task = await start(agent, request(pid=os.getpid(), names="getppid"))
        monkeypatch.setattr(Tracer, "_detach", detach_once_answered)
        stopping = asyncio.create_task(stop(agent, task.task_id))
        for _ in range(3):  # meanwhile the agent makes its own reports, too
            await tasks_of(agent)
            await asyncio.sleep(1)
        answered.set()
        assert (await stopping).run.state == task_pb2.TASK_STATE_STOPPED
    assert waited[0]


async def test_the_processes_of_rows_are_described(start_agent: StartAgent, server: StandInServer) -> None:
    """The agent reports executable, command line and parent of a live process from /proc."""
    async with start_agent() as agent:
        with Caller() as caller:
            calls = await start(agent, request(pid=caller.pid, names="getppid"))
            caller.call(101)
            await until(lambda: server.runs and server.of(calls.task_id).processes)
        await stop(agent, calls.task_id)
    ((pid, _), described), *others = server.of(calls.task_id).processes.items()
    assert (pid, described.parent_pid, others) == (caller.pid, os.getpid(), [])
    assert described.exe == os.path.realpath(sys.executable)
    assert list(described.cmdline) == [sys.executable, "-S", "-c", Caller.CALLS]


@pytest.mark.parametrize("last", [0, -1])
async def test_processes_that_are_gone_are_described(
    start_agent: StartAgent, server: StandInServer, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    """The agent reports executable, command line and parent of a process that has left /proc from its last exec event,
    on whatever CPU the one before was."""
    monkeypatch.setattr("scope_agentd.pipeline.describe.described_in_proc", lambda *_: None)
    cpus = sorted(map(str, os.sched_getaffinity(0)), key=int)
    command = HeldCommand(["taskset", "-c", cpus[-1 - last], "taskset", "-c", cpus[last], "true", "once"])
    async with start_agent() as agent:
        task = await start(agent, request("process", pid=command.pid))
        await run_to_end(command)
        await stop(agent, task.task_id)
    (described,) = server.of(task.task_id).processes.values()
    assert (described.pid, described.parent_pid) == (command.pid, os.getpid())
    assert described.exe == shutil.which("true")
    assert list(described.cmdline) == ["true", "once"]


async def test_a_task_goes_on_after_a_restart_with_another_run(start_agent: StartAgent, server: StandInServer) -> None:
    """After a restart, the task continues with its id in a new run. The old run has ended and its books are closed."""
    async with start_agent() as agent:
        task = await start(agent, request("process"))
    async with start_agent() as agent:
        await until(lambda: len([run for run in server.runs.values() if run.task_id == task.task_id]) == 2)
        again = (await tasks_of(agent))[task.task_id]
        assert again.run.run_id != task.run.run_id
        await stop(agent, task.task_id)
    first, second = (run for run in server.runs.values() if run.task_id == task.task_id)
    assert first.end and second.end
    assert (first.end.end, second.end.end) == (task_pb2.TASK_END_SHUTDOWN, task_pb2.TASK_END_REQUEST)
    assert first.closed and second.closed
    async with start_agent() as agent:
        assert not await tasks_of(agent)


async def test_a_lease_ends_by_itself_also_over_a_restart(start_agent: StartAgent) -> None:
    """A task with a duration stops when the duration is over, even if the agent restarts in between."""
    async with start_agent() as agent:
        task = await start(agent, request("process", duration_s=3))
    async with start_agent() as agent:
        states = set()
        async with asyncio.timeout(60):
            async for change in agent.control.WatchTasks(control_pb2.WatchTasksRequest()):
                states.add(change.run.state)
                if change.run.state == task_pb2.TASK_STATE_STOPPED:
                    assert change.run.end == task_pb2.TASK_END_LEASE
                    assert change.deadline == (await tasks_of(agent))[task.task_id].deadline
                    break
    async with start_agent() as agent:
        assert not await tasks_of(agent)


@pytest.mark.parametrize(("owner", "method"), [(Tracer, "poll"), (Batcher, "build")])
async def test_a_recording_that_fails_closes_its_books(
    start_agent: StartAgent, server: StandInServer, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    """If a recording fails, unread events are counted as lost, the run's end names the error, and a new run records."""
    monkeypatch.setattr("scope_agentd.task.FIRST_PAUSE_S", 0.1)
    failure = Failure(monkeypatch, owner, method)
    async with start_agent() as agent:
        with Caller() as caller:
            task = await start(agent, request(pid=caller.pid, names="getppid"))
            caller.call(1009)
            await until(lambda: server.runs and server.of(task.task_id).stream("syscall").stored == 1009)
            failure.begin()
            caller.call(1)
            await failure.end(meanwhile=lambda: caller.call(50_021))
            await until(lambda: len(server.of_all(task.task_id)) == 2)
            caller.call(2003)
            await stop(agent, task.task_id)
        await until(lambda: server.of(task.task_id).closed)
    first, second = server.of_all(task.task_id)
    assert first.end and first.closed
    assert (first.end.end, first.end.error) == (task_pb2.TASK_END_FAILURE, "made up")
    failed = first.stream("syscall")
    assert (failed.account.emitted, failed.balance) == (1009 + 1 + 50_021, 0)
    assert failed.lost["agent/unread"] > 0
    assert set(failed.lost) <= {"agent/unread", "ring/ring_full"}
    assert second.end and second.end.end == task_pb2.TASK_END_REQUEST
    assert (second.stream("syscall").stored, second.stream("syscall").balance) == (2003, 0)


async def test_a_recording_whose_kernel_books_cannot_be_read_closes_them(
    start_agent: StartAgent, server: StandInServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's books close with the counts last read from the kernel. The next run has books of its own."""
    monkeypatch.setattr("scope_agentd.task.FIRST_PAUSE_S", 0.1)
    accounts, broken = Tracer.accounts, list[Tracer]()

    def accounts_unless_broken(tracer: Tracer) -> dict[str, Account]:
        if tracer in broken:
            raise KernelError("cannot read the books", errno.EIO)
        return accounts(tracer)

    def break_now(tracer: Tracer, timeout_ms: int) -> Sequence[Batch]:
        monkeypatch.setattr(Tracer, "poll", poll)
        broken.append(tracer)
        return poll(tracer, timeout_ms)

    poll = Tracer.poll
    monkeypatch.setattr(Tracer, "accounts", accounts_unless_broken)
    async with start_agent() as agent:
        with Caller() as caller:
            task = await start(agent, request(pid=caller.pid, names="getppid"))
            caller.call(1009)
            await until(lambda: server.runs and server.of(task.task_id).stream("syscall").stored == 1009)
            monkeypatch.setattr(Tracer, "poll", break_now)
            await until(lambda: broken)
            caller.call(1)
            await until(lambda: len(server.of_all(task.task_id)) == 2)
            caller.call(2003)
            await stop(agent, task.task_id)
        await until(lambda: server.of(task.task_id).closed)
    first, second = server.of_all(task.task_id)
    assert first.end and first.closed
    assert "cannot read the books" in first.end.error
    assert first.stream("syscall").balance == 0
    assert (second.stream("syscall").stored, second.stream("syscall").balance) == (2003, 0)


async def test_starting_the_same_task_again_changes_nothing(start_agent: StartAgent) -> None:
    """A start with the id and definition of an existing task returns it; with another definition, it is refused."""
    wanted = request("process", task_id="6f1c0d7e-0000-4000-8000-000000000001")
    async with start_agent() as agent:
        first = await start(agent, wanted)
        again = await start(agent, wanted)
        assert (again.task_id, again.run.run_id) == (first.task_id, first.run.run_id)
        wanted.definition.probe = "sched"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await start(agent, wanted)
        assert refused.value.code() is grpc.StatusCode.ALREADY_EXISTS


@pytest.mark.parametrize(
    ("wanted", "code", "said"),
    [
        (request(""), "INVALID_ARGUMENT", "probe: missing; give a name"),
        (request("nonsense"), "INVALID_ARGUMENT", "no probe named 'nonsense'"),
        (request(pid=4194303), "FAILED_PRECONDITION", "no process has pid 4194303"),
        (request(pid=-1), "INVALID_ARGUMENT", "target.pid: -1 is no process"),
        (request(pid=0), "INVALID_ARGUMENT", "target.pid: 0 is no process; leave it out to watch the whole machine"),
        (request(names=[]), "INVALID_ARGUMENT", "option 'names': [] names nothing; leave the option out"),
        (request(names=""), "INVALID_ARGUMENT", "option 'names': '' names nothing; leave the option out"),
        (request(mode="both"), "INVALID_ARGUMENT", "'both' is not one of events, summary"),
        (request(ring_bytes=1.5), "INVALID_ARGUMENT", "1.5 is not a whole number"),
        (request(nonsense=1), "INVALID_ARGUMENT", "no option named 'nonsense'"),
        (request(task_id="mine"), "INVALID_ARGUMENT", "task_id: 'mine' is not a UUID"),
        (request(duration_s=0), "INVALID_ARGUMENT", "duration: give more than 0"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else None,
)
async def test_what_cannot_run_is_refused(
    start_agent: StartAgent, wanted: control_pb2.StartTaskRequest, code: str, said: str
) -> None:
    """A bad definition is refused with a status and a reason, and leaves no task."""
    async with start_agent() as agent:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await start(agent, wanted)
        assert refused.value.code().name == code
        assert said in (refused.value.details() or "")
        assert not await tasks_of(agent)


async def test_a_task_beyond_the_memory_for_tasks_is_refused(
    start_agent: StartAgent, caplog: pytest.LogCaptureFixture
) -> None:
    """A task whose rings and maps would need more memory than is left is refused with the numbers, and a line in the
    log; the others record, and after they are stopped there is room."""
    large, probe = request("process", pid=os.getpid(), ring_bytes=1 << 20), probe_named("process")
    with Tracer(probe, parse_options(probe.options, {"ring_bytes": 1 << 20})) as tracer:
        tracer.start()
        own = tracer.memory_bytes()
    assert own > 1 << 20
    async with start_agent(task_bytes=3 * own // 2) as agent:
        first = await start(agent, large)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await start(agent, large)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        said = f"running tasks (1) have {own / 1e6:.1f} MB, and all may have {1.5 * own / 1e6:.1f} MB: stop tasks"
        assert said in (refused.value.details() or "")
        assert [record.exc_info for record in caplog.records if record.levelno >= logging.WARNING] == [None]
        tasks = await tasks_of(agent)
        assert [(task.task_id, task.run.state) for task in tasks.values() if not task.run.error] == [
            (first.task_id, task_pb2.TASK_STATE_RUNNING)
        ]
        await stop(agent, first.task_id)
        assert (await start(agent, large)).run.state == task_pb2.TASK_STATE_RUNNING


async def test_starts_queue(start_agent: StartAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few tasks start at the same time; a task whose turn has not come can be stopped at once; in the end all run."""
    starting: list[Tracer] = []
    goes_on = threading.Event()
    real = Tracer.start

    def waits(tracer: Tracer) -> None:
        starting.append(tracer)
        goes_on.wait(60)
        real(tracer)

    monkeypatch.setattr(Tracer, "start", waits)
    ids = [str(uuid.uuid4()) for _ in range(5)]
    async with start_agent() as agent:
        wanted = [request("process", task_id, pid=os.getpid()) for task_id in ids]
        calls = [asyncio.create_task(start(agent, one)) for one in wanted[:AT_ONCE]]
        await until(lambda: len(starting) == AT_ONCE)
        calls += [asyncio.create_task(start(agent, one)) for one in wanted[AT_ONCE:]]
        while len(await tasks_of(agent)) < len(ids):
            await asyncio.sleep(0.02)
        stopped = await stop(agent, ids[-1])
        assert (stopped.run.state, len(starting)) == (task_pb2.TASK_STATE_STOPPED, AT_ONCE)
        goes_on.set()
        tasks = await asyncio.gather(*calls)
        running = {task.task_id for task in tasks if task.run.state == task_pb2.TASK_STATE_RUNNING}
        assert running == set(ids[:-1])


async def test_an_unknown_task_is_not_found(start_agent: StartAgent) -> None:
    """StopTask with an unknown id answers NOT_FOUND."""
    async with start_agent() as agent:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stop(agent, "none")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_an_agent_can_be_stopped_while_tasks_start(start_agent: StartAgent) -> None:
    """An agent stopped while tasks start ends cleanly; nothing stays attached."""
    before = unheld()
    for pause_s in (0.0, 0.02, 0.1, 0.3):
        async with start_agent() as agent:
            calls = [asyncio.create_task(start(agent, request(name))) for name in ("process", "sched", "files")]
            await asyncio.sleep(pause_s)
        await asyncio.gather(*calls, return_exceptions=True)
    assert not await asyncio.to_thread(left_behind, before)


async def test_an_agent_that_is_told_to_end_while_tasks_start_exits_well(tmp_path: Path, server: StandInServer) -> None:
    """An agent that gets SIGTERM while tasks start exits with status 0; nothing stays attached."""
    before = unheld()
    process, control = await agent_process(tmp_path, server)
    try:
        async with to_agent(control, of_person(server.authority)) as channel:
            stub = control_of(channel)
            calls = [stub.StartTask(request(name)) for name in ("process", "sched", "files")]
            await until(lambda: server.tasks)
            process.terminate()
            assert await asyncio.to_thread(process.wait, 60) == 0
            await asyncio.gather(*calls, return_exceptions=True)
    finally:
        process.kill()
        process.wait()
    assert not await asyncio.to_thread(left_behind, before)


async def test_a_stopped_agent_leaves_nothing_in_the_kernel(start_agent: StartAgent) -> None:
    """Stopping the agent stops its tasks, detaches every program, frees every map and removes every pin."""
    before = unheld()
    with closing(HeldCommand([sys.executable, "-c", ""])) as command:
        async with start_agent() as agent:
            for probe in (probe for probe in probes().values() if not probe.sampler):
                await start(agent, request(probe.name, pid=command.pid, **trial(probe.options)))
            assert unheld() - before
    assert not await asyncio.to_thread(left_behind, before)
