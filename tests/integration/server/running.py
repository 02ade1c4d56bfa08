"""A server in this process, with helpers for requests to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import psycopg
from tests.fleet import of_machine, to_server

from scope_cli.access import Access
from scope_cli.client import Client
from scope_server.accounts.secret import digest
from scope_server.app import serve
from scope_server.identity.authority import Authority
from scope_server.settings import Settings

_TOKEN = "scope_token_of_tests"


def make_token(conninfo: str) -> str:
    """A token for scripts, of an admin; both are made in the server's database."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO store.users (email, password, role) VALUES ('admin@example.org', '', 'admin')"
            " ON CONFLICT DO NOTHING"
        )
        connection.execute(
            "INSERT INTO store.api_tokens (digest, user_id, name, role, expires)"
            " SELECT %s, id, 'tests', 'admin', now() + interval '1 hour' FROM store.users"
            " WHERE email = 'admin@example.org' ON CONFLICT DO NOTHING",
            [digest(_TOKEN)],
        )
    return _TOKEN


@dataclass(frozen=True)
class Server:
    """A running server; its addresses are host:port."""

    http: str
    ingest: str
    enrol: str
    socket: Path
    authority: Authority
    conninfo: str

    def channel(self, machine: str) -> grpc.aio.Channel:
        """A channel to the session service, with the certificate of this machine."""
        return to_server(self.ingest, of_machine(self.authority, machine))

    def local(self) -> aiohttp.UnixConnector:
        """Connections of the server's own user."""
        return aiohttp.UnixConnector(str(self.socket))

    @property
    def token(self) -> Path:
        """A file with a token for scripts, of an admin; both are made. Blocks."""
        file = self.socket.with_name("token")
        file.touch(mode=0o600)
        file.write_text(make_token(self.conninfo))
        return file

    @property
    def authorization(self) -> str:
        """The header of a request of an admin."""
        return f"Bearer {self.token.read_text()}"

    async def get(self, *path: str, **query: Any) -> Any:
        """GET from the API with the command line's client, without blocking the event loop."""
        client = Client(Access(f"http://{self.http}", socket=str(self.socket)))
        return await asyncio.to_thread(lambda: client.get(*path, **query))

    async def ask(self, method: str, path: str, **given: Any) -> tuple[int, Any]:
        """Sends a request to the API; returns status and JSON. `given` goes to aiohttp."""
        async with (
            aiohttp.ClientSession(connector=self.local()) as session,
            session.request(method, f"http://{self.http}/api/v1/{path}", **given) as answer,
        ):
            return answer.status, await answer.json(content_type=None)

    async def start(self, **body: Any) -> str:
        """Starts a task through the API; returns its id."""
        status, task = await self.ask("POST", "tasks", json={"probe": "syscalls", **body})
        assert status == 201, task
        return str(task["task_id"])

    async def stop(self, task_id: str) -> Any:
        """Stops a task through the API; returns the task."""
        status, task = await self.ask("POST", f"tasks/{task_id}/stop")
        assert status == 200, task
        return task

    async def task(self, task_id: str) -> Any:
        status, task = await self.ask("GET", f"tasks/{task_id}")
        assert status == 200, task
        return task

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Runs a statement, and returns its rows. Blocks."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []


@asynccontextmanager
async def running(settings: Settings, prepared: bool = True) -> AsyncIterator[Server]:
    """Runs a server while inside; raises the error that ended the server, if any.

    Args:
        prepared: wait until the server is healthy.
    """
    stop = asyncio.Event()
    listens: asyncio.Future[tuple[str, str, str]] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(settings, stop, lambda *addresses: listens.set_result(addresses)))
    futures: list[asyncio.Future[Any]] = [serving, listens]
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        await serving
    server = Server(*listens.result(), settings.socket, Authority(settings.authority), settings.database)
    try:
        if prepared:
            await until(lambda: _healthy(server, serving), bool)
        yield server
    finally:
        stop.set()
        await serving


async def _healthy(server: Server, serving: "asyncio.Task[None]") -> bool:
    if serving.done():
        await serving
    return (await server.ask("GET", "health"))[0] == 200


async def until(ask: Callable[[], Awaitable[Any]], true: Callable[[Any], bool], seconds: float = 60) -> Any:
    """Asks until `true` accepts the answer; returns the answer."""
    found: Any = None
    try:
        async with asyncio.timeout(seconds):
            while not true(found := await ask()):
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {found}") from None
    return found


async def node(server: Server) -> Any:
    """The only machine, as the API shows it."""
    (found,) = (await server.get("nodes"))["nodes"]
    return found
