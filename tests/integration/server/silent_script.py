"""Runs in a network namespace of its own, see test_silent_database.py: a server whose database, over TCP, goes silent.
Prints as JSON what the server said before, meanwhile and after, and how many seconds it took meanwhile."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.integration.server.running import Server, running

from scope_server.settings import Settings
from scope_server.store.postgres import PrivatePostgres

FOLDER = Path(sys.argv[1])


def network(state: str) -> None:
    """Network `down`: what is sent is lost, and connections stay open."""
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


def database() -> PrivatePostgres:
    """A PostgreSQL that listens on TCP."""
    postgres = PrivatePostgres(FOLDER / "pg", {"fsync": "off", "listen_addresses": "127.0.0.1"})
    postgres.start()
    with (FOLDER / "pg/data/pg_hba.conf").open("a") as rules:
        rules.write("host all all 127.0.0.1/32 trust\n")
    os.kill(postgres.pid or 0, signal.SIGHUP)
    return postgres


async def asked(server: Server) -> Any:
    """What the server says to a request that writes."""
    status, said = await server.ask("POST", "join-tokens", json={})
    return [status, said.get("detail")]


async def seen() -> dict[str, Any]:
    files: dict[str, Any] = {name: FOLDER / name for name in ("socket", "authority", "state_dir")}
    settings = Settings("host=127.0.0.1 dbname=scope user=scope", **files)
    async with running(settings) as server:
        before = await asked(server)
        network("down")
        began = time.monotonic()
        meanwhile = await asked(server)
        seconds = time.monotonic() - began
        network("up")
        after = await asked(server)
    return {"before": before, "meanwhile": meanwhile, "seconds": seconds, "after": after}


network("up")
postgres = database()
try:
    print(json.dumps(asyncio.run(seen())))
finally:
    postgres.stop(immediate=True)
