"""The agent describes the streams of its batches to each server, also those of an earlier version of the agent."""

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fleet import of_person, to_agent
from tests.integration.agentd.conftest import control_of
from tests.integration.agentd.driving import agent_process, held_calls, request, run_to_end, start, stop, until
from tests.integration.agentd.stand_in_server import LATER, STORED, StandInServer

from scope_catalogue.catalogue import streams
from scope_catalogue.description import read

StartAgent = Callable[..., Any]
NEWER = Path(__file__).parents[2] / "chaos" / "newer"


async def test_each_stream_is_described_once_a_connection(start_agent: StartAgent, server: StandInServer) -> None:
    """The description of a stream comes before its first batch, once, and again after the server was away."""
    command = held_calls(10_007)
    async with start_agent() as agent:
        server.answers = False
        task = await start(agent, request(pid=command.pid, names="getppid"))
        await run_to_end(command)
        await until(lambda: server.runs and server.of(task.task_id).stream("syscall").batches)
        first = list(server.descriptions)
        await server.stop()
        server.descriptions.clear()
        server.answers = True
        await server.start()
        await stop(agent, task.task_id)
        await until(lambda: server.of_all(task.task_id) and server.of(task.task_id).closed)
    assert [told.stream for told in first] == ["syscall"]
    assert read(first[0].description) == streams()["syscall"]
    assert server.descriptions == first
    (fingerprint,) = {one.schema_fingerprint for one in server.of(task.task_id).stream("syscall").batches.values()}
    assert fingerprint == first[0].schema_fingerprint == streams()["syscall"].fingerprint


async def test_an_agent_describes_what_another_version_recorded(
    tmp_path: Path, server: StandInServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that wait in the spool keep their description, when the agent's version no longer has their column."""
    server.verdict = LATER
    command = held_calls(10_007)
    with monkeypatch.context() as newer_version:
        newer_version.setenv("PYTHONPATH", str(NEWER))
        agent, control = await agent_process(tmp_path, server)
        async with to_agent(control, of_person(server.authority)) as channel:
            task = await control_of(channel).StartTask(request(pid=command.pid, names="getppid"))
            await run_to_end(command)
            await until(lambda: server.descriptions)
    await _end(agent)
    server.descriptions.clear()
    server.verdict = STORED
    agent, _ = await agent_process(tmp_path, server)
    await until(lambda: server.of_all(task.task_id) and server.of_all(task.task_id)[0].closed)
    await _end(agent)
    told = read(server.descriptions[0].description)
    assert [one.name for one in told.columns if one.name not in streams()["syscall"].by_name] == ["failed"]
    batches = server.of_all(task.task_id)[0].stream("syscall").batches.values()
    assert {one.schema_fingerprint for one in batches} == {told.fingerprint}
    assert sum(one.event_count for one in batches) == 10_007


async def test_descriptions_go_with_the_last_batch(start_agent: StartAgent, tmp_path: Path) -> None:
    """An agent that starts with an empty spool deletes the descriptions that it no longer needs."""
    old = tmp_path / "descriptions" / "old-0123456789abcdef.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    async with start_agent():
        assert not old.exists()


async def _end(agent: "subprocess.Popen[bytes]") -> None:
    agent.terminate()
    assert await asyncio.to_thread(agent.wait, 60) == 0
