"""The measurements: an idle fleet, rows until they can be queried, and the return of all after a restart."""

import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

from scope_agentd.identity.membership import Membership
from scope_cli.bench_fleet.agent import Agent
from scope_cli.bench_fleet.control import start_to_run
from scope_cli.bench_fleet.fleet import Fleet, join
from scope_cli.bench_fleet.server import FleetServer

_LOOK_S = 0.05
_SETTLE_S = 5.0
# The batches that were committed since an earlier look.
_STORED = """
SELECT pg_current_snapshot()::text, coalesce(max(id), %(newest)s), coalesce(sum(event_count), 0)::bigint,
       coalesce(array_agg(extract(epoch FROM clock_timestamp() - first_time)::float8), '{}')
FROM store.batches WHERE id > %(newest)s - %(late)s AND NOT pg_visible_in_snapshot(xmin::text::xid8, %(seen)s)"""
_NEWEST = "SELECT pg_current_snapshot()::text, coalesce(max(id), 0) FROM store.batches"
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
    """The time from a batch's first event until its rows can be queried.

    Attributes:
        server_cpu, agents_cpu: share of a CPU of the server, and of all agents.
        others_cpu: the same of what works for the server, by name.
    """

    p50_s: float
    p99_s: float
    events_a_second: float
    server_cpu: float
    agents_cpu: float
    others_cpu: Mapping[str, float]


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
        *command, server.url, str(server.socket), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
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
    await asyncio.sleep(_SETTLE_S)
    others_s = await asyncio.to_thread(server.others_cpu_s)
    server_s, agents_s, began = server.cpu_s, time.process_time(), time.monotonic()
    waits, events = await asyncio.to_thread(_waits, server.conninfo, seconds)
    server_s, agents_s = server.cpu_s - server_s, time.process_time() - agents_s
    lasted = time.monotonic() - began
    others = {
        name: (now - others_s[name]) / lasted for name, now in (await asyncio.to_thread(server.others_cpu_s)).items()
    }
    for task_id in tasks:
        await asyncio.to_thread(client.stop_task, task_id)
    at = {share: waits[int(share * len(waits))] if waits else float("inf") for share in (0.5, 0.99)}
    return Delays(at[0.5], at[0.99], events / lasted, server_s / lasted, agents_s / lasted, others)


def _waits(conninfo: str, seconds: float) -> tuple[list[float], int]:
    """How long each batch took that was stored during so many seconds, sorted; and how many events."""
    waits, events = [], 0
    with psycopg.connect(conninfo, autocommit=True) as connection:
        seen, newest = connection.execute(_NEWEST).fetchall()[0]
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            time.sleep(_LOOK_S)
            since = {"newest": newest, "late": _LATE_IDS, "seen": seen}
            seen, newest, some, new = connection.execute(_STORED, since).fetchall()[0]
            waits += new
            events += some
    return sorted(waits), events
