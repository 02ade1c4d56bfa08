"""From the spool to the server: whatever happens between them, each event is stored once or booked as lost."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from tests.integration.agentd.conftest import TOKEN, call_metadata
from tests.integration.agentd.driving import held_calls, request, run_to_end, start, stop, until
from tests.integration.agentd.stand_in_server import LATER, REFUSED, STORED, StandInServer

from scope_proto.scope.v1 import task_pb2
from scope_proto.scope.v1.control_pb2_grpc import AgentControlStub

StartAgent = Callable[..., Any]


async def test_a_server_that_goes_and_comes_back_misses_nothing(start_agent: StartAgent, server: StandInServer) -> None:
    """What was recorded while the server was gone, or sent and not answered, is sent when it is back."""
    command = held_calls(50_021)
    async with start_agent() as agent:
        task = await start(agent, request(pid=command.pid, names="getppid"))
        server.verdict = None
        await run_to_end(command)
        await until(lambda: server.deliveries > 1)
        await server.stop()
        server.verdict = STORED
        await server.start()
        await stop(agent, task.task_id)
        await until(lambda: server.runs and server.of(task.task_id).closed)
    stream = server.of(task.task_id).stream("syscall")
    assert (stream.stored, stream.account.emitted, stream.balance) == (50_021, 50_021, 0)


async def test_what_is_to_come_later_does_not_hold_up_the_rest(start_agent: StartAgent, server: StandInServer) -> None:
    """Answers of LATER, however many bytes they are, leave the stream open for everything else, and are asked again."""
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
        await until(lambda: server.of(other.task_id).closed)
        await until(lambda: server.of(task.task_id).closed)
    assert server.of(task.task_id).stream("syscall").stored == 300_007
    assert server.of(other.task_id).stream("syscall").stored == 10_007


async def test_what_is_refused_is_not_sent_again(start_agent: StartAgent, server: StandInServer) -> None:
    """A refused record is done with: the server has booked it."""
    server.verdict = REFUSED
    async with start_agent() as agent:
        task = await start(agent, request("process"))
        subprocess.run(["true"], check=True)
        await stop(agent, task.task_id)
        await until(lambda: server.deliveries >= 2)
    assert not server.runs


async def test_a_full_spool_drops_the_oldest_and_books_it(start_agent: StartAgent, server: StandInServer) -> None:
    """With the server gone and the spool full, what is dropped becomes gaps: emitted = stored + lost, and closed."""
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
    """What waits stays on disk, the end of the run too; the next life of the agent delivers it."""
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


async def test_a_token_file_that_is_away_for_a_while_does_no_harm(
    start_agent: StartAgent, server: StandInServer
) -> None:
    """The agent comes back by itself when it can show its token again."""
    async with start_agent() as agent:
        task = await start(agent, request("process"))
        token = agent.settings.token_file
        token.unlink()
        await server.stop()
        await server.start()
        await asyncio.sleep(1)
        token.write_text(TOKEN)
        token.chmod(0o600)
        await stop(agent, task.task_id)
        await until(lambda: server.runs and server.of(task.task_id).closed)


async def test_the_books_of_a_killed_agent_close(tmp_path: Path, server: StandInServer) -> None:
    """kill -9 in the middle of a load: its successor books exactly what never arrived."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    load = subprocess.Popen([sys.executable, "-S", "-c", "import os\nwhile True: os.getppid()"])
    try:
        first, control = await _agent(tmp_path, server)
        async with grpc.aio.insecure_channel(control) as channel:
            stub: Any = AgentControlStub(channel)  # type: ignore[no-untyped-call]
            task = await stub.StartTask(request(pid=load.pid, names="getppid"), metadata=call_metadata())
        await until(lambda: server.runs and server.of(task.task_id).stream("syscall").stored > 100_000)
        first.send_signal(signal.SIGKILL)
        first.wait()
    finally:
        load.kill()
        load.wait()
    second, _ = await _agent(tmp_path, server)
    try:
        killed = next(run for run in server.runs.values() if run.task_id == task.task_id)
        await until(lambda: killed.closed)
    finally:
        second.terminate()
        second.wait()
    assert killed.end and killed.end.end == task_pb2.TASK_END_KILLED
    stream = killed.stream("syscall")
    assert stream.balance == 0
    assert stream.account.emitted >= stream.stored
    assert set(stream.lost) <= {"agent/killed", "ring/ring_full"}
    assert not list(Path("/sys/fs/bpf/scope").glob(f"*/{task.run.run_id.replace('-', '')}"))


async def _agent(state: Path, server: StandInServer) -> tuple[subprocess.Popen[bytes], str]:
    """An agent in a process of its own, and its control address."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        control, metrics = (f"127.0.0.1:{free.getsockname()[1]}" for free in (one, two))
    words = ["--state-dir", str(state), "--server", f"127.0.0.1:{server.port}", "--control", control]
    process = subprocess.Popen([sys.executable, "-m", "scope_cli.main", "agentd", *words, "--metrics", metrics])
    hellos = len(server.hellos)
    await until(lambda: len(server.hellos) > hellos or process.poll() is not None)
    assert process.poll() is None
    return process, control
