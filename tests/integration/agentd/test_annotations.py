"""Programs annotate on the agent's socket; the server gets each once, also if one of the three was away."""

import asyncio
import json
import runpy
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing, suppress
from pathlib import Path

import pytest
from tests.integration.agentd.conftest import Agent
from tests.integration.agentd.driving import until
from tests.integration.agentd.stand_in_server import StandInServer

from scope_agentd.annotations import delivery
from scope_agentd.annotations import socket as module

StartAgent = Callable[..., AbstractAsyncContextManager[Agent]]


def say(state: Path, *lines: str) -> list[str]:
    """Says each line, and returns the answers. Blocks."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(state / module.NAME))
        answers = []
        with connection.makefile("r") as file:
            for line in lines:
                with suppress(BrokenPipeError):  # there are too many; the answer says so
                    connection.sendall(line.encode() + b"\n")
                answers.append(file.readline().rstrip())
        return answers


async def test_each_reaches_the_server(start_agent: StartAgent, server: StandInServer) -> None:
    """What a program says reaches the server, with its pid; the socket is its user's only. Nonsense is answered with
    what is wrong, and the next line counts again."""
    async with start_agent() as agent:
        state = agent.settings.state_dir
        assert (state / module.NAME).stat().st_mode & 0o777 == 0o600
        lines = ["step 1", json.dumps({"text": "step 2", "labels": {"epoch": 3}}), '{"tex": 1}', "step 3"]
        answers = await asyncio.to_thread(say, state, *lines)
        assert answers[:2] + answers[3:] == ["ok"] * 3
        assert answers[2] == "error: unknown field 'tex'; there are: text, labels"
        await until(lambda: sorted(server.annotations.values()) == ["step 1", "step 2", "step 3"])


async def test_they_wait_for_the_server(
    start_agent: StartAgent, server: StandInServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said while the server is away, or too old, is sent later, also by the next agent."""
    monkeypatch.setattr(delivery, "_PAUSE_S", 0.1)
    server.annotates = False
    async with start_agent() as agent:
        assert await asyncio.to_thread(say, agent.settings.state_dir, *(f"step {n}" for n in range(7))) == ["ok"] * 7
    assert server.annotations == {}
    server.annotates = True
    async with start_agent():
        await until(lambda: len(server.annotations) == 7)


async def test_the_rate_is_bounded(start_agent: StartAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that says too much is told so; what was answered with ok is kept."""
    monkeypatch.setattr(module, "_BURST", 11.0)
    monkeypatch.setattr(module, "_PER_S", 0.001)
    async with start_agent() as agent:
        answers = await asyncio.to_thread(say, agent.settings.state_dir, *(f"step {n}" for n in range(13)))
        assert [answer == "ok" for answer in answers] == [True] * 11 + [False] * 2
        assert "annotations a second" in answers[-1]


async def test_a_line_without_an_end(start_agent: StartAgent) -> None:
    """A program that sends no newline is cut off; others go on, and so many at once that it may not hold the agent."""
    async with start_agent() as agent:
        state = agent.settings.state_dir

        def endless() -> bytes:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(state / module.NAME))
                connection.sendall(b"x" * (module._LONGEST_LINE + 1))
                return connection.recv(1000)

        assert b"error: a line has at most" in await asyncio.to_thread(endless)
        idle = [socket.socket(socket.AF_UNIX) for _ in range(module.MOST_CONNECTIONS)]
        for one in idle:
            one.connect(str(state / module.NAME))
        await asyncio.sleep(0.1)
        assert "programs are connected" in (await asyncio.to_thread(say, state, "step 1"))[0]
        for one in idle:
            one.close()
        for _ in range(100):
            if await asyncio.to_thread(say, state, "step 1") == ["ok"]:
                return
            await asyncio.sleep(0.1)
        raise AssertionError("closed connections still count")


async def test_the_example_of_the_docs(start_agent: StartAgent, server: StandInServer) -> None:
    """docs/annotate.py says what docs/annotations.md says."""
    example = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "annotate.py"))
    async with start_agent() as agent:
        path = str(agent.settings.state_dir / module.NAME)

        def run() -> str:
            with closing(example["Annotator"](path)) as annotate:
                return str(annotate("step 1200", epoch=3))

        assert await asyncio.to_thread(run) == "ok"
        await until(lambda: list(server.annotations.values()) == ["step 1200"])
