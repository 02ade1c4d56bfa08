"""Agents and their wanted tasks are reconciled, even if one side sends nothing."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.integration.server.running import node, until
from tests.integration.server.stand_in_agent import StandInAgent

from scope_server.session import desired, reconcile, seen, session
from scope_server.session.changes import Changes
from scope_server.store.reading.database import Share

StartServer = Callable[..., Any]


@pytest.fixture
def silent() -> StandInAgent:
    """An agent that reports only changes."""
    agent = StandInAgent()
    agent.every_s = None
    return agent


@pytest.mark.parametrize("deaf", [False, True])
async def test_what_is_wanted_is_looked_at_again(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, silent: StandInAgent, deaf: bool
) -> None:
    """A change of wanted tasks in the database, such as another server's, reaches the agent without a report: at once,
    or, if the database's notification is lost, at the next look."""
    monkeypatch.setattr(reconcile, "EVERY_S", 0.3 if deaf else 3600)
    if deaf:
        monkeypatch.setattr(Changes, "listen", lambda _: asyncio.Event().wait())

    async def wish() -> list[str]:
        return [task.task_id for task in silent.wishes[-1].tasks]

    async with start_server() as server, silent.attending(server):
        task_id = await server.start()
        monkeypatch.setattr(silent, "_obey", lambda _: None)  # so it has no change to report
        for wanted in (False, True, False):
            server.query("UPDATE store.tasks SET wanted = %s", wanted)
            await until(wish, lambda ids, wanted=wanted: ids == [task_id] * wanted, 12)


async def test_agents_that_do_nothing_cost_no_statements(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many agents are connected, the database is asked for changes once a second, and is told every 5 s which
    agents were heard; nothing is asked about one agent."""
    asked: Counter[str] = Counter()
    for method in ("fetch", "run"):
        monkeypatch.setattr(Share, method, _counting(getattr(Share, method), asked))
    agents = [StandInAgent(f"node-{number}", f"{number:032x}") for number in range(13)]
    async with AsyncExitStack() as attending:
        server = await attending.enter_async_context(start_server())
        for agent in agents:
            await attending.enter_async_context(agent.attending(server))
        await until(lambda: server.get("server"), lambda found: found["agents"] == 13)
        asked.clear()
        began = time.monotonic()
        await asyncio.sleep(11)
        lasted = time.monotonic() - began
    assert not any(wish.tasks for agent in agents for wish in agent.wishes)
    assert 0 < asked.pop("changed_wishes") <= lasted / reconcile.EVERY_S + 1
    assert 0 < asked.pop("seen") <= lasted / seen.EVERY_S + 1
    assert asked.pop("told_probes", 0) <= 2  # once they have connected; agents tell their probes only then
    assert set(asked) <= {"history"}


def _counting(method: Callable[..., Any], asked: Counter[str]) -> Callable[..., Any]:
    def counting(share: Share, name: str, *arguments: Any) -> Any:
        asked[name] += 1
        return method(share, name, *arguments)

    return counting


async def test_an_agent_that_does_nothing_is_asked_again(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, silent: StandInAgent
) -> None:
    """If an agent does not react, its session ends, but its task stays wanted, and starts when the agent reconnects."""
    monkeypatch.setattr(desired, "ANSWER_S", 0.5)
    monkeypatch.setattr(session, "REPORT_EVERY_S", 1.0)
    monkeypatch.setattr(session, "LATE_S", 1.0)
    obey = silent._obey
    async with start_server() as server:
        async with silent.attending(server):
            monkeypatch.setattr(silent, "_obey", lambda _: None)
            status, task = await server.ask("POST", "tasks", json={"probe": "syscalls"})
            assert (status, task["state"], task["wanted"]) == (201, "pending", True)
            await until(lambda: node(server), lambda found: not found["connected"])
            task = await server.task(task["task_id"])
            assert (task["state"], task["wanted"]) == ("pending", True)
            assert task["reason"] == "the agent is not connected"
        monkeypatch.setattr(silent, "_obey", obey)
        async with silent.attending(server):
            await until(lambda: server.task(task["task_id"]), lambda found: found["state"] == "running")
