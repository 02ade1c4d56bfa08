"""Whole servers of a fleet: whichever a person asks, the one that holds the agent's session acts."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.integration.server.redis_server import RedisServer
from tests.integration.server.running import Server, until
from tests.integration.server.stand_in_agent import StandInAgent

Start = Callable[..., AbstractAsyncContextManager[Server]]


async def test_a_stop_reaches_the_agent_through_another_server(
    redis: RedisServer, start_server: Start, tmp_path: Path
) -> None:
    """An agent attends at one server; a task is started and stopped at another, which waits until it has ended."""
    (tmp_path / "other").mkdir()
    receives = start_server(redis=redis.url, role="receive")
    asked = start_server(redis=redis.url, role="api", socket=tmp_path / "other" / "api.sock")
    async with receives as one, asked as other:
        assert other.ingest == other.enrol == ""
        agent = StandInAgent()
        async with agent.attending(one):
            task_id = await other.start(node=agent.machine_id)
            assert (await other.task(task_id))["state"] == "running"
            assert (await other.stop(task_id))["state"] == "stopped"


@pytest.fixture(params=["memory", "redis"])
async def both(
    request: pytest.FixtureRequest, redis: RedisServer, start_server: Start, tmp_path: Path
) -> AsyncIterator[tuple[Server, Server]]:
    """The server that agents attend at, and the one that people ask: another one, where there is Redis."""
    if request.param == "memory":
        async with start_server() as alone:
            yield alone, alone
        return
    (tmp_path / "other").mkdir()
    async with (
        start_server(redis=redis.url, role="receive") as one,
        start_server(redis=redis.url, role="api", socket=tmp_path / "other" / "api.sock") as other,
    ):
        yield one, other


async def test_any_server_answers_for_the_fleet(both: tuple[Server, Server]) -> None:
    """Machines, their spools and probes, and what tasks wait for, are told by a server that holds no session."""
    holds, asked = both
    agent = StandInAgent()

    async def told() -> tuple[bool, int | None]:
        (node,) = (await asked.get("nodes"))["nodes"]
        return node["connected"], node["spool"] and node["spool"]["records"]

    async with agent.attending(holds):
        await until(told, lambda found: found == (True, 3))
        _, answer = await until(lambda: asked.ask("GET", "probes"), lambda found: found[0] == 200)
        assert [probe["name"] for probe in answer["probes"]] == ["syscalls"]
        task = await asked.task(await asked.start())  # the only connected machine
        assert (task["node"], task["state"]) == (agent.machine_id, "running")
    await until(told, lambda found: found == (False, None))
    _, later = await until(lambda: asked.ask("GET", "probes"), lambda found: found[0] == 200)
    assert later == answer | {"connected": False, "current": False}


async def test_a_revoked_machine_is_gone_at_once(redis: RedisServer, start_server: Start, tmp_path: Path) -> None:
    """What one server revokes, the other ends within seconds."""
    (tmp_path / "other").mkdir()
    async with (
        start_server(redis=redis.url) as one,
        start_server(redis=redis.url, role="api", socket=tmp_path / "other" / "api.sock") as other,
    ):
        agent = StandInAgent()
        async with agent.attending(one):

            async def agents() -> int:
                return int((await one.get("server"))["agents"])

            await until(agents, lambda count: count == 1)
            status, answer = await other.ask("POST", f"nodes/{agent.machine_id}/revoke")
            assert status == 200, answer
            await until(agents, lambda count: count == 0, 20)


async def test_health_says_that_redis_is_away(redis: RedisServer, start_server: Start, tmp_path: Path) -> None:
    """A server whose agents wait is not healthy; one that only answers the API goes on, and says what is away."""
    (tmp_path / "other").mkdir()
    async with (
        start_server(redis=redis.url) as one,
        start_server(redis=redis.url, role="api", socket=tmp_path / "other" / "api.sock") as other,
    ):
        redis.pause()
        try:

            async def told() -> tuple[str, bool, int]:
                state = await other.get("server")
                return state["redis"], state["healthy"], (await one.ask("GET", "health"))[0]

            await until(told, lambda found: "Redis is away" in found[0] and found[1] and found[2] == 503)
            assert (await other.ask("GET", "nodes"))[0] == 200
        finally:
            redis.resume()
        await until(told, lambda found: found[0] == "ok" and found[2] == 200)
