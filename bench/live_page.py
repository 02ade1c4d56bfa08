"""The console's live tail, open for an hour at 10,000 rows a second: the browser's memory must not grow.

Runs only if named: `python -m bench live_page`. LIVE_MINUTES sets another duration.
"""

import asyncio
import os
import tempfile
from pathlib import Path

from bench.console import in_browser
from bench.measure import Result, at_most
from scope_cli.bench_fleet.control import start_to_run
from scope_cli.bench_fleet.fleet import Fleet
from scope_cli.bench_fleet.rows import Rows
from scope_cli.bench_fleet.server import FleetServer

AGENTS, RATE = 10, 1000  # rows a second of each
MINUTES = int(os.environ.get("LIVE_MINUTES", "60"))
_PATIENCE_S = 60.0
_BATCH_EVERY_S = 0.25


def run() -> list[Result]:
    """What the page holds at the end, against what it held when it was warm."""
    return asyncio.run(_measured())


async def _measured() -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="scope") as folder, FleetServer(Path(folder), AGENTS) as server:
        rows = Rows(RATE, _BATCH_EVERY_S)
        fleet = Fleet(AGENTS, Path(folder) / "agents", server.authority, server.ingest, rows)
        server.enrol(agent.membership.credentials.holder for agent in fleet.agents)
        async with fleet.running():
            await fleet.all_served(_PATIENCE_S)
            for agent in fleet.agents:
                await start_to_run(server.client(), agent.node.machine_id)
            told = await asyncio.to_thread(
                in_browser,
                server,
                "live",
                address="/explore/syscall?view=live",
                minutes=MINUTES,
                patience_ms=120_000 * MINUTES,
            )
    assert told[-1]["rows"], "no row was shown"
    warm = len(told) // 4
    return [
        Result("live tail: heap of the page, warm", f"{told[warm]['bytes'] / 1e6:.1f} MB"),
        at_most(f"... after {len(told)} minutes", told[-1]["bytes"] / told[warm]["bytes"], 1.1, "×"),
        at_most("... its nodes", told[-1]["nodes"] / told[warm]["nodes"], 1.1, "×"),
        Result("... what the page complained of", str(len(told[-1]["wrong"]))),
    ]
