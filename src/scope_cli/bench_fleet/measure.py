"""The measurements: an idle fleet, rows until they can be queried, and the return of all after a restart."""

import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

from scope_agentd.identity.membership import Membership
from scope_cli.bench_fleet.agent import Agent
from scope_cli.bench_fleet.control import start_to_run
from scope_cli.bench_fleet.fleet import Fleet, join
from scope_cli.bench_fleet.server import FleetServer

_LOOK_S = 0.05
_STORED = """
SELECT id, extract(epoch FROM clock_timestamp() - first_time)::float8, event_count
FROM store.batches WHERE id > %s"""
_LATE_IDS = 5_000  # ids are drawn before the commit, so a lower one may come later


@dataclass(frozen=True)
class Idle:
    """What connected agents that do nothing cost.

    Attributes:
        bytes_an_agent: resident memory of the server.
        cpu_share: share of a CPU of the server.
        statements_a_second: of the server.
    """

    bytes_an_agent: float
    cpu_share: float
    statements_a_second: float


@dataclass(frozen=True)
class Delays:
    """The time from a batch's first event until its rows can be queried, in s, and how many events a second."""

    p50_s: float
    p99_s: float
    events_a_second: float


@dataclass(frozen=True)
class Returned:
    """The return of a fleet after a restart of the server.

    Attributes:
        down_s: from the end of the server until it is healthy again.
        served_s: from then until all are connected and served.
        starts: how often a task was started meanwhile, on an agent that had returned.
        worst_start_s: the longest time until such a task ran.
    """

    down_s: float
    served_s: float
    starts: int
    worst_start_s: float


async def idle(server: FleetServer, agents: int, empty_bytes: int, seconds: float) -> Idle:
    """Measures a fleet that is connected, for so many seconds.

    Args:
        empty_bytes: resident memory of the server before they connected.
    """
    transactions, cpu_s, began = await asyncio.to_thread(server.transactions), server.cpu_s, time.monotonic()
    await asyncio.sleep(seconds)
    cpu_s, lasted = server.cpu_s - cpu_s, time.monotonic() - began
    transactions = await asyncio.to_thread(server.transactions) - transactions
    return Idle((server.resident_bytes - empty_bytes) / agents, cpu_s / lasted, transactions / lasted)


async def returned(server: FleetServer, fleet: Fleet, folder: Path, within_s: float) -> Returned:
    """Restarts the server, and starts tasks on one more agent while the fleet returns.

    Args:
        folder: for what this agent keeps of its membership.

    Raises:
        TimeoutError: not all are served in time.
    """
    number = len(fleet.agents)
    join(number, folder, server.authority, server.ingest)
    server.enrol([Membership(folder).credentials.holder])
    began = time.monotonic()
    await asyncio.to_thread(server.stop)
    command = [sys.executable, "-m", "scope_cli.bench_fleet.control", str(number), str(folder)]
    starting = await asyncio.create_subprocess_exec(
        *command, server.url, str(server.token), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await asyncio.to_thread(server.start)
        down_s = time.monotonic() - began
        served_s = await fleet.all_served(within_s)
        assert starting.stdout
        async with asyncio.timeout(within_s):
            first = await starting.stdout.readline()
    finally:
        starting.terminate()
    waits = [float(line) for line in (first + await starting.stdout.read()).split()]
    await starting.wait()
    return Returned(down_s, served_s, len(waits), max(waits))


async def delays(server: FleetServer, agents: list[Agent], seconds: float) -> Delays:
    """Has these agents record, for so many seconds."""
    client = server.client()
    tasks = [(await start_to_run(client, agent.node.machine_id))[0] for agent in agents]
    found = await asyncio.to_thread(_delays, server.conninfo, seconds)
    for task_id in tasks:
        await asyncio.to_thread(client.stop_task, task_id)
    return found


def _delays(conninfo: str, seconds: float) -> Delays:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        known = {row[0] for row in connection.execute(_STORED, [0]).fetchall()}
        newest, events = max(known, default=0), 0
        waits: list[float] = []
        began = time.monotonic()
        while (lasted := time.monotonic() - began) < seconds:
            for number, wait_s, count in connection.execute(_STORED, [newest - _LATE_IDS]).fetchall():
                if number not in known:
                    known.add(number)
                    waits.append(wait_s)
                    newest, events = max(newest, number), events + count
            time.sleep(_LOOK_S)
    waits.sort()
    if not waits:
        return Delays(float("inf"), float("inf"), 0.0)
    return Delays(waits[len(waits) // 2], waits[int(len(waits) * 0.99)], events / lasted)
