"""The example probe in CONTRIBUTING.md builds and runs exactly as printed."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest
from tests.e2e.conftest import run_up, until

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """src/ of a copy of the tree. The example adds three files; no existing file changes."""
    copy = tmp_path_factory.mktemp("copy")
    text = (ROOT / "CONTRIBUTING.md").read_text()
    header, program = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    (module,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for part in ("bpf", "src", "Makefile"):
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, copy / part)
    folder = copy / "bpf" / "probes" / "reaps"
    folder.mkdir()
    (folder / "reaps.h").write_text(_dedented(header))
    (folder / "reaps.bpf.c").write_text(_dedented(program))
    (copy / "src" / "scope_bpf" / "probes" / "reaps.py").write_text(_dedented(module))
    make = ["make", "objects", "catalogue", f"BIN={Path(sys.executable).parent}"]
    subprocess.run(make, cwd=copy, check=True, capture_output=True)
    return copy / "src"


def test_scope_trace_finds_the_example(source: Path) -> None:
    """`scope trace` finds the example probe and prints its rows."""
    traced = subprocess.run(
        [sys.executable, "-m", "scope_cli.main", "trace", "reaps", "--json", "--", "sh", "-c", "true & ls /; wait"],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in traced.stdout.splitlines() if line.startswith("{")]
    assert rows
    assert {row["type"] for row in rows} == {"reap"}
    assert {row["comm"] for row in rows} == {"sh"}


def test_table_api_and_books_find_the_example(source: Path) -> None:
    """The agent runs the example probe. The API and SQL return all its events, and its event counts balance."""
    script = "read go; for n in 1 2 3 4 5; do (exit 7); done"
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        up = run_up(Path(folder) / "state", PYTHONPATH=str(source))
        try:
            command = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE)
            body = {"probe": "reaps", "target": {"pid": command.pid}}
            task_id = up.client.post("tasks", body=body)["task_id"]
            command.communicate(b"go\n")
            up.client.post("tasks", task_id, "stop")
            until(lambda: [each["under_way"] for each in up.client.get("tasks", task_id)["streams"]] == [0])
            (books,) = up.client.get("tasks", task_id)["streams"]
            events = up.client.get("events", "reap", where=f"pid = {command.pid}")["events"]
            with psycopg.connect(host=str(up.state / "postgres"), user="scope", dbname="scope") as connection:
                view = connection.execute("SELECT child_pid FROM scope.reap WHERE pid = %s", [command.pid]).fetchall()
            paths = up.client.get("openapi.json")["paths"]
        finally:
            up.stop()
    assert books["emitted"] == books["stored"] == len(events) == len(view) >= 5
    assert sorted(event["child_pid"] for event in events) == sorted(child for (child,) in view)
    assert {event["pid"] for event in events} == {command.pid}
    assert "/api/v1/events/reap" in paths


def _dedented(block: str) -> str:
    return re.sub(r"(?m)^   ", "", block)
