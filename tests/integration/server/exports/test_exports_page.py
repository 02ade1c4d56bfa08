"""The commands on the page docs/exports.md start servers that push, and show what they do."""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.integration.server.exports.collector import Collector, collecting, eventually
from tests.integration.server.exports.conftest import Tls
from tests.integration.server.exports.influxdb_server import PASSWORD, USER, InfluxServer
from tests.integration.server.running import until

PAGE = Path(__file__).parents[4] / "docs" / "exports.md"
COMMANDS = dict(re.findall(r"^```sh (\w+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))


@asynccontextmanager
async def page_server(block: str, database: str, folder: Path, there: str, here: str) -> AsyncIterator[None]:
    """Runs the server of a block; only the address of the target and paths are replaced."""
    command = shlex.split(COMMANDS[block].replace("/etc/scope", str(folder)).replace(there, here))
    environment = dict(os.environ, SCOPE_SERVER_DATABASE=database, SCOPE_STATE=str(folder))
    environment |= {f"SCOPE_SERVER_{name}": "127.0.0.1:0" for name in ("HTTP", "INGEST", "ENROL")}
    program = str(Path(sys.executable).with_name(command[0]))
    with (folder / "log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(program, *command[1:], env=environment, stdout=log, stderr=log)
    try:
        yield
        assert server.returncode is None, (folder / "log").read_text()
    finally:
        if server.returncode is None:
            server.terminate()
        await server.wait()


def state(folder: Path) -> str:
    """What the page's command prints of the server."""
    told = COMMANDS["state"].replace("/var/lib/scope", str(folder))
    return subprocess.run(["sh", "-c", told], capture_output=True, text=True).stdout


async def test_a_collector_gets_metrics(database: str, tls: Tls, tmp_path: Path, port: int) -> None:
    """Over TLS, by the page's command: the server's own metrics come, and the exports are shown."""
    shutil.copy(tls.certificate, tmp_path / "collector-ca.pem")
    (tmp_path / "otlp-headers").write_text("Authorization: Bearer SECRET\n")
    there, here = "collector.example.org:4317", f"127.0.0.1:{port}"
    async with (
        collecting(port, Collector(), tls.of_server()) as collector,
        page_server("otlp", database, tmp_path, there, here),
    ):
        await eventually(lambda: any(True for _ in collector.points("scope_server_sessions")))

        async def told() -> str:
            return await asyncio.to_thread(state, tmp_path)

        shown = await until(told, lambda text: 'behind_seconds{export="otlp.minutes"}' in text, 240)
    assert 'scope_server_export_refused_items_total{export="otlp.metrics"} 0.0' in shown
    assert collector.headers[0]["authorization"] == "Bearer SECRET"


async def test_influxdb_gets_metrics(database: str, tmp_path: Path, port: int) -> None:
    """By the page's command, with the user and password of the file."""
    (tmp_path / "influxdb-token").write_text(f"{USER}:{PASSWORD}\n")
    (tmp_path / "influxdb").mkdir()
    there, here = "influxdb.example.org:8086", f"127.0.0.1:{port}"
    with InfluxServer(tmp_path / "influxdb", port) as influxdb:
        async with page_server("influxdb", database, tmp_path, there, here):
            asked = "SELECT last(value) FROM scope_server_sessions"
            found = await until(lambda: asyncio.to_thread(influxdb.rows, asked), bool, 240)
    assert found[0]["last"] == 0
