"""GET /live: rows as server-sent events, over real connections."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from tests.integration.server.records import rows
from tests.integration.server.running import Server, until
from tests.integration.server.stand_in_agent import StandInAgent
from tests.integration.server.test_app import STORED, answers, recorded, uploading

from scope_server.api.resources import live

StartServer = Callable[..., Any]
PATIENCE_S = 60.0


class Screen:
    """What a viewer has been sent so far."""

    def __init__(self) -> None:
        self.numbers: list[int] = []  # `arg0` of the rows
        self.events: list[str] = []
        self.id = ""
        self.comments = 0

    async def read(self, content: aiohttp.StreamReader) -> None:
        """Reads until the connection ends."""
        event = ""
        async for line in content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            self.comments += not name
            if name == "event":
                event = value
                self.events.append(event)
            if name == "id":
                self.id = value
            if name == "data" and event == "rows":
                self.numbers += [row["arg0"] for row in json.loads(value)]


@asynccontextmanager
async def watching(server: Server, query: str = "", **headers: str) -> AsyncIterator[Screen]:
    """A viewer of system calls."""
    unhurried = aiohttp.ClientTimeout(total=None, sock_read=PATIENCE_S)
    async with (
        aiohttp.ClientSession(connector=server.local(), timeout=unhurried, read_bufsize=1 << 22) as session,
        session.get(f"http://{server.http}/api/v1/live/syscall{query}", headers=headers) as answer,
    ):
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        screen = Screen()
        reading = asyncio.create_task(screen.read(answer.content))
        yield screen
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def until_it(holds: Callable[[], bool]) -> None:
    """Waits until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.02)


async def test_rows_are_sent_as_they_are_stored(start_server: StartServer) -> None:
    """Each once, those that match the filter; a reconnect with the last id goes on where it ended."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server) as channel, uploading(agent, channel) as call:
        await until(lambda: server.ask("GET", "probes"), lambda answer: answer[0] == 200)
        run = await recorded(server, agent)
        assert await answers(call, run.batch(1, rows(10), 10)) == [STORED]
        async with (
            watching(server, "?since=2020-01-01") as screen,
            watching(server, "?since=2020-01-01&where=arg0%20%3E%3D%2015") as filtered,
        ):
            await until_it(lambda: screen.numbers == list(range(10)))
            assert await answers(call, run.batch(2, rows(10, 10), 20)) == [STORED]
            await until_it(lambda: screen.numbers == list(range(20)))
            await until_it(lambda: filtered.numbers == list(range(15, 20)))
        assert await answers(call, run.batch(3, rows(10, 20), 30)) == [STORED]
        async with watching(server, **{"Last-Event-ID": screen.id}) as again:
            await until_it(lambda: again.numbers == list(range(20, 30)))
        async with watching(server, f"?cursor={screen.id}") as again:
            await until_it(lambda: again.numbers == list(range(20, 30)))


async def test_rows_of_one_task(start_server: StartServer) -> None:
    """A viewer gets those of its task only, beside viewers of another one and of all; an unknown task is 404."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server) as channel, uploading(agent, channel) as call:
        await until(lambda: server.ask("GET", "probes"), lambda answer: answer[0] == 200)
        runs = [await recorded(server, agent) for _ in range(2)]
        assert await answers(call, runs[0].batch(1, rows(3), 3)) == [STORED]
        async with (
            watching(server, f"?since=2020-01-01&task={runs[0].task_id}") as first,
            watching(server, f"?since=2020-01-01&task={runs[1].task_id}") as second,
            watching(server, "?since=2020-01-01") as every,
        ):
            await until_it(lambda: every.numbers == [0, 1, 2])
            sent = runs[1].batch(1, rows(5, 10), 5), runs[0].batch(2, rows(2, 20), 5)
            assert await answers(call, *sent) == [STORED] * 2
            await until_it(lambda: sorted(every.numbers) == [0, 1, 2, 10, 11, 12, 13, 14, 20, 21])
            await until_it(lambda: (first.numbers, second.numbers) == ([0, 1, 2, 20, 21], [10, 11, 12, 13, 14]))
        assert (await server.ask("GET", f"live/syscall?task={runs[0].run_id}"))[0] == 404


@asynccontextmanager
async def connected(server: Server, query: str = "", **headers: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A viewer of system calls over a WebSocket."""
    async with (
        aiohttp.ClientSession(connector=server.local()) as session,
        session.ws_connect(f"http://{server.http}/api/v1/live/syscall{query}", headers=headers) as socket,
    ):
        yield socket


async def _numbers(socket: aiohttp.ClientWebSocketResponse, count: int) -> tuple[list[int], str]:
    """`arg0` of the next rows, and the cursor after them."""
    numbers, cursor = list[int](), ""
    async with asyncio.timeout(PATIENCE_S):
        while len(numbers) < count:
            said = await socket.receive_json()
            assert said["missed"] == 0
            numbers += [row["arg0"] for row in said["rows"]]
            cursor = said["cursor"]
    return numbers, cursor


async def test_rows_come_over_a_web_socket_too(start_server: StartServer) -> None:
    """The same rows as the server-sent events, each once; with the last cursor it goes on where it ended."""
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server) as channel, uploading(agent, channel) as call:
        await until(lambda: server.ask("GET", "probes"), lambda answer: answer[0] == 200)
        run = await recorded(server, agent)
        assert await answers(call, run.batch(1, rows(10), 10)) == [STORED]
        async with connected(server, "?since=2020-01-01&where=arg0%20%3E%3D%205") as socket:
            assert (await _numbers(socket, 5))[0] == list(range(5, 10))
            assert await answers(call, run.batch(2, rows(10, 10), 20)) == [STORED]
            numbers, cursor = await _numbers(socket, 10)
            assert numbers == list(range(10, 20))
        assert await answers(call, run.batch(3, rows(10, 20), 30)) == [STORED]
        async with connected(server, f"?cursor={cursor}") as socket:
            assert (await _numbers(socket, 10))[0] == list(range(20, 30))


async def test_a_web_socket_is_for_whom_events_are_for(start_server: StartServer) -> None:
    """Without a login, with a wrong filter, or from a page of another origin it is refused; from a page of this server
    it is not."""
    async with start_server() as server:
        for origin in ("http://evil.example", f"http://{server.http}.evil.example", "null"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                async with connected(server, Origin=origin):
                    pass
            assert refused.value.status == 403
        async with connected(server, Origin=f"http://{server.http}") as socket:
            assert not socket.closed
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with connected(server, "?where=nonsense%20%3D%201"):
                pass
        assert refused.value.status == 400
        async with aiohttp.ClientSession() as stranger:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await stranger.ws_connect(f"http://{server.http}/api/v1/live/syscall")
            assert refused.value.status == 401


async def test_a_quiet_stream_says_that_it_lives(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments come while there is nothing new; a viewer that went away is forgotten."""
    monkeypatch.setattr(live, "_QUIET_S", 0.1)
    async with start_server() as server:
        async with watching(server) as screen:
            await until_it(lambda: screen.comments > 3)
        assert (await server.ask("GET", "nodes"))[0] == 200


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("live/nonsense", 404, "nonsense"),
        ("live/syscall?where=nonsense%20%3D%201", 400, "nonsense"),
        ("live/syscall?cursor=nonsense", 400, "cursor"),
        ("live/syscall?machine=nonsense", 404, "nonsense"),
        ("live/syscall?limit=1", 400, "limit"),
    ],
)
async def test_what_cannot_be_watched_is_told(start_server: StartServer, path: str, status: int, said: str) -> None:
    """With a problem document, before anything is sent."""
    async with start_server() as server:
        found, problem = await server.ask("GET", path)
        assert found == status
        assert said in problem["detail"]


async def test_too_many_views_are_told_in_the_stream(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go on."""
    monkeypatch.setattr("scope_server.live.hub._MOST_VIEWERS", 1)
    async with start_server() as server, watching(server) as first:
        await asyncio.sleep(0)
        async with watching(server) as second, watching(server) as third:
            await until_it(lambda: any("problem" in one.events for one in (first, second, third)))


async def test_a_server_that_ends_tells_its_viewers(start_server: StartServer) -> None:
    """They do not hold it up."""
    async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as looking:
        async with start_server() as server:
            screen = await looking.enter_async_context(watching(server, "?since=2020-01-01"))
            await until_it(lambda: bool(screen.id))
        await until_it(lambda: screen.events[-1] == "problem")
