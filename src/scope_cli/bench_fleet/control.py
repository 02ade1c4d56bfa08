"""One agent in a process of its own, on which tasks are started again and again: how long each takes until it runs.

`python -m scope_cli.bench_fleet.control NUMBER STATE URL TOKEN_FILE` writes a line for each start, in s.
"""

import asyncio
import logging
import sys
import time
from pathlib import Path

from scope_cli.access import Access
from scope_cli.bench_fleet.fleet import agent_of
from scope_cli.client import Client
from scope_cli.errors import CommandError
from scope_wire.background import background

_LOOK_S = 0.05


async def start_to_run(client: Client, machine_id: str) -> tuple[str, float]:
    """Starts a task through the API; returns its id, and how many seconds it took until it ran."""
    began = time.monotonic()
    task = await asyncio.to_thread(client.start_task, {"node": machine_id, "probe": "syscalls"})
    while task["state"] != "running":
        await asyncio.sleep(_LOOK_S)
        task = await asyncio.to_thread(client.get_task, task["task_id"])
    return task["task_id"], time.monotonic() - began


async def _start_again_and_again(number: int, state: Path, client: Client) -> None:
    agent = agent_of(number, state, None)
    async with background(agent=agent.run()):
        while True:
            await asyncio.sleep(_LOOK_S)
            if not agent.served:
                continue
            try:
                task_id, wait_s = await start_to_run(client, agent.node.machine_id)
                sys.stdout.write(f"{wait_s:.3f}\n")
                sys.stdout.flush()
                await asyncio.to_thread(client.stop_task, task_id)
            except CommandError as error:  # the server is away
                logging.getLogger(__name__).warning("a start failed: %s", error)


if __name__ == "__main__":
    logging.getLogger("scope_agentd").setLevel(logging.ERROR)
    which, directory, url, socket = sys.argv[1:]
    asyncio.run(_start_again_and_again(int(which), Path(directory), Client(Access(url, socket=socket))))
