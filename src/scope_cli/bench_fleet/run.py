"""All measurements, one after the other, and their goals."""

import asyncio
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scope_cli.bench_fleet.control import start_to_run
from scope_cli.bench_fleet.fleet import Fleet
from scope_cli.bench_fleet.measure import Idle, Returned, delays, idle, returned
from scope_cli.bench_fleet.rows import Rows
from scope_cli.bench_fleet.server import FleetServer
from scope_cli.bench_fleet.tls import costs

_PATIENCE_S = 300.0
_SETTLE_S = 5.0
_RECORDING = 200  # agents
_BATCH_EVERY_S = 0.25


@dataclass(frozen=True)
class Line:
    """A measured value; `goal` is its highest value, None: there is none."""

    what: str
    value: float
    unit: str
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached."""
        return None if self.goal is None else self.value <= self.goal


async def measured(
    folder: Path,
    agents: int,
    rate: int | None,
    *,
    idle_s: float,
    tell: Callable[[str], None],
    redis: str = "",
    writers: int = 2,
) -> list[Line]:
    """Measures a fleet.

    Args:
        folder: an empty folder, for database and server.
        rate: events a second of each recording agent; None: none records.
        idle_s: how long the idle fleet is measured, and then the recording one.
        tell: is told what is measured now.
        redis, writers: see `FleetServer`.

    Raises:
        CommandError: the server does not start.
        TimeoutError: the agents are not all served.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # also of the server, which inherits it
    tell("starting the server")
    with FleetServer(folder, agents + 1, redis, writers) as server:
        empty_bytes = server.resident_bytes
        tell("making certificates")
        rows = Rows(rate, _BATCH_EVERY_S) if rate else None
        fleet = Fleet(agents, folder / "agents", server.authority, server.ingest, rows)
        server.enrol(agent.membership.credentials.holder for agent in fleet.agents)
        async with fleet.running():
            tell("connecting")
            cpu_s = server.cpu_s
            connected_s = await fleet.all_served(_PATIENCE_S)
            cpu_s = server.cpu_s - cpu_s
            tell("idle")
            await asyncio.sleep(_SETTLE_S)
            lines = [
                Line("all connected and served for the first time", connected_s, "s"),
                Line("... CPU of the server, an agent", 1000 * cpu_s / agents, "ms"),
                *_idle_lines(await idle(server, agents, empty_bytes, idle_s)),
                Line(
                    "idle: a start to a running task",
                    (await start_to_run(server.client(), fleet.agents[0].node.machine_id))[1],
                    "s",
                ),
            ]
            if rate:
                tell("recording")
                some = fleet.agents[1 : 1 + _RECORDING]
                found = await delays(server, some, idle_s)
                lines += [
                    Line(f"{len(some)} agents at {rate:,} events/s: stored events/s", found.events_a_second, ""),
                    Line("... CPU of the server, share of a core", 100 * found.server_cpu, "%"),
                    Line("... CPU of the agents, share of a core", 100 * found.agents_cpu, "%"),
                    *(
                        Line(f"... CPU of {name}, share of a core", 100 * share, "%")
                        for name, share in found.others_cpu.items()
                    ),
                    Line("... event to queryable: median", found.p50_s, "s"),
                    Line("... event to queryable: p99", found.p99_s, "s", 2.0),
                ]
            tell("restarting the server")
            lines += _returned_lines(await returned(server, fleet, folder / "agents" / "one-more", _PATIENCE_S))
            agents_told = (await asyncio.to_thread(server.client().get_server))["agents"]
            lines.append(Line("agents that the server has after its restart", agents_told, ""))
        tell("TLS")
        found_tls = await costs(server.authority)
        lines += [
            Line("a connection with TLS 1.3, CPU of both sides", 1000 * found_tls.connection_s, "ms"),
            Line("... in plain text", 1000 * found_tls.plain_connection_s, "ms"),
            Line("an upload with TLS 1.3", found_tls.upload / 1e6, "MB/s"),
            Line("... in plain text", found_tls.plain_upload / 1e6, "MB/s"),
        ]
    return lines


def _idle_lines(found: Idle) -> list[Line]:
    return [
        Line("idle: memory of the server, an agent", found.bytes_an_agent / 1024, "KiB", 200),
        Line("idle: CPU of the server, share of a core", 100 * found.cpu_share, "%", 5),
        Line("idle: statements of the server", found.statements_a_second, "/s", 5),
    ]


def _returned_lines(found: Returned) -> list[Line]:
    return [
        Line("restart: the server is away", found.down_s, "s"),
        Line("restart: all connected and served again, once it is healthy", found.served_s, "s"),
        Line(f"restart: worst of {found.starts} starts to a running task", found.worst_start_s, "s", 5),
    ]


def as_json(lines: list[Line]) -> dict[str, Any]:
    """For --json."""
    return {"time": time.time(), "measured": [asdict(line) | {"met": line.met} for line in lines]}
