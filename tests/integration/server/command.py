"""The command line against a test's server."""

import asyncio
import os
import sys

from tests.integration.server.running import Server


async def told(server: Server, *words: str) -> tuple[int | None, str, str]:
    """Runs `scope`; returns status, output and errors."""
    its = {"SCOPE_URL": f"http://{server.http}", "SCOPE_TOKEN_FILE": str(server.token)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scope_cli.main", *words),
        env={**os.environ, **its},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await process.communicate()
    return process.returncode, out.decode(), said.decode()
