"""Live viewers of one stream: what a hundred cost the server and its database, compared with one."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from bench.measure import Result, at_least, at_most
from scope_cli.bench_fleet.control import start_to_run
from scope_cli.bench_fleet.fleet import Fleet
from scope_cli.bench_fleet.rows import Rows
from scope_cli.bench_fleet.server import FleetServer

VIEWERS, RATE, SECONDS = 100, 1000, 20.0  # RATE: rows a second of the stream
_BATCH_EVERY_S = 0.25
_PATIENCE_S = 60.0
_SETTLE_S = 5.0
_ADDRESS = "/api/v1/live/syscall"


def run() -> list[Result]:
    """Transactions of the database, CPU of the server, and what the slowest viewer got."""
    return asyncio.run(_measured())


async def _measured() -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="scope") as folder, FleetServer(Path(folder), 1) as server:
        fleet = Fleet(1, Path(folder) / "agents", server.authority, server.ingest, Rows(RATE, _BATCH_EVERY_S))
        server.enrol(agent.membership.credentials.holder for agent in fleet.agents)
        async with fleet.running():
            await fleet.all_served(_PATIENCE_S)
            await start_to_run(server.client(), fleet.agents[0].node.machine_id)
            one, of_one, _ = await _cost(server, 1)
            many, of_many, pieces = await _cost(server, VIEWERS)
    return [
        at_most(
            f"live: {VIEWERS} viewers, transactions of the database, compared with one viewer", many / one, 1.1, "×"
        ),
        Result("... CPU of the server", f"{of_many:.0%} of a core (one viewer: {of_one:.0%})"),
        at_least("... what the slowest viewer got, compared with the quickest", min(pieces) / max(pieces), 0.95),
    ]


async def _cost(server: FleetServer, viewers: int) -> tuple[float, float, list[int]]:
    """Transactions a second, share of a CPU, and how many pieces each viewer got."""
    got: Counter[int] = Counter()
    async with _watching(server, viewers, got):
        await asyncio.sleep(_SETTLE_S)
        got.clear()
        transactions, cpu_s = await asyncio.to_thread(server.transactions), server.cpu_s
        await asyncio.sleep(SECONDS)
        transactions, cpu_s = await asyncio.to_thread(server.transactions) - transactions, server.cpu_s - cpu_s
        return transactions / SECONDS, cpu_s / SECONDS, [got[number] for number in range(viewers)]


@asynccontextmanager
async def _watching(server: FleetServer, viewers: int, got: Counter[int]) -> AsyncIterator[None]:
    """So many viewers, each counting the pieces that it gets."""

    async def watch(number: int) -> None:
        async with session.get(f"http://localhost{_ADDRESS}") as answer:
            answer.raise_for_status()
            async for line in answer.content:
                got[number] += line.startswith(b"data: [")

    connector = aiohttp.UnixConnector(str(server.socket), limit=0)
    limits = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=limits, read_bufsize=2**22) as session:
        tasks = [asyncio.create_task(watch(number)) for number in range(viewers)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
