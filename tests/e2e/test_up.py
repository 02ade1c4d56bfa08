"""`scope up` and what a user does beside it."""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import psycopg
import pytest
from tests.e2e.conftest import SCOPE, Up, run_up, until


def test_what_happens_is_found_by_every_way(up: Up) -> None:
    """An exec on this machine is in `scope events`, in the API and in PostgreSQL, the same."""
    word = f"mark-{os.getpid()}"
    process = subprocess.Popen(["/bin/echo", word, "two words"], stdout=subprocess.DEVNULL)
    process.wait()

    def listed() -> list[dict[str, object]]:
        said = up.scope("events", "exec", f"pid={process.pid}", "--json")
        return [json.loads(line) for line in said.stdout.splitlines()]

    until(lambda: bool(listed()))
    (event,) = listed()
    assert event["args"] == ["/bin/echo", word, "two words"]
    assert event["comm"] == "echo"
    with psycopg.connect(host=str(up.state / "postgres"), user="scope", dbname="scope") as connection:
        rows = connection.execute("SELECT pid, comm, args, ktime_ns FROM scope.exec WHERE pid = %s", [process.pid])
        assert rows.fetchall() == [(event["pid"], event["comm"], event["args"], event["ktime_ns"])]


def test_a_task_from_start_to_stop(up: Up) -> None:
    """A task that is started records; stopped, its books balance."""
    workload = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, sys; sys.stdin.read(1)\nfor _ in range(10007): os.getppid()\nsys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
    )
    assert workload.stdin
    started = up.scope("start", "local", "syscalls", "--pid", str(workload.pid), "-o", "names=getppid")
    assert started.returncode == 0, started.stderr
    task_id = started.stdout.strip()
    workload.stdin.write(b"x")
    workload.stdin.close()
    workload.wait()
    assert up.scope("stop", task_id[:13]).stdout.strip() == task_id

    def books() -> dict[str, int]:
        task = up.client.get("tasks", task_id)
        return next((stream for stream in task["streams"] if stream["stream"] == "syscall"), {"emitted": 0})

    until(lambda: books()["emitted"] == 10007 and books()["balance"] == 0)
    assert books()["stored"] == 10007
    rows, cursor = 0, None
    while True:
        page = up.client.get("events", "syscall", pid=workload.pid, limit=1000, cursor=cursor)
        rows += len(page["events"])
        cursor = page["next"]
        if not cursor:
            break
    assert rows == 10007
    assert up.client.get("tasks", task_id)["state"] == "stopped"


def test_nodes_tasks_and_health(up: Up) -> None:
    """What runs is listed with its state."""
    assert up.client.get("health") == {"healthy": True, "database": "ok", "ingest": "ok", "agents": 1}
    nodes = up.scope("nodes", "--json")
    assert [node["connected"] for node in json.loads(nodes.stdout)] == [True]
    until(lambda: "syscall_summary" in up.scope("tasks").stdout)  # a stream is listed from its first rows on
    assert "process" in up.scope("tasks").stdout
    assert [probe["name"] for probe in up.client.get("probes")["probes"]] == [
        *("cuda", "files", "gpu", "process", "sched", "syscalls")
    ]


def test_scope_leaves_itself_out(up: Up) -> None:
    """Neither the server's nor PostgreSQL's nor the agent's calls are recorded."""
    time.sleep(2)
    rows = up.client.get("events", "syscall_summary", limit=1000)["events"]
    postmaster = int((up.state / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = dict(map(int, line.split()) for line in listed.splitlines())
    roots = {up.process.pid, postmaster}
    own = roots | {pid for pid, parent in parents.items() if parent in roots}
    assert len(own) > 6
    assert rows
    assert not own & {row["pid"] for row in rows}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["start", "local", "nonsense"], 1, "no probe named 'nonsense'"),
        (["start", "elsewhere", "files"], 1, "no machine has the hostname or id 'elsewhere'"),
        (["start", "local", "files", "--pid", "4194303"], 1, "no process has pid 4194303"),
        (["start", "local", "files", "-o", "mode=both"], 1, "'both' is not one of events, summary"),
        (["stop", "nonsense"], 2, "no active task's id begins with 'nonsense'"),
        (["events", "nonsense"], 1, "there is no stream 'nonsense'; there are: "),
        (["events", "exec", "nonsense=1"], 1, "stream 'exec' has no column 'nonsense'"),
        (["events", "exec", "pid=x"], 1, "pid: 'x' is not a whole number"),
        (["events", "exec", "pid"], 2, "'pid' is no filter; write COLUMN=VALUE"),
        (["events", "exec", "--since", "yesterday"], 1, "since: 'yesterday' is no time"),
        (["events", "exec", "ret.near=1"], 1, "'near' is not one of eq, ne, gte, lte"),
    ],
)
def test_bad_input_is_told(up: Up, arguments: list[str], status: int, said: str) -> None:
    """What cannot be is refused in one line that names it."""
    called = up.scope(*arguments)
    assert (called.returncode, len(called.stderr.splitlines())) == (status, 1), called.stderr
    assert said in called.stderr


def test_without_the_token_the_api_is_closed(up: Up) -> None:
    """Every path asks for the token; the file is readable by its owner alone."""
    for path in ("health", "tasks", "events/exec", "openapi.json", "nonsense"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{up.http}/api/v1/{path}")
        assert refused.value.code == 401
        refused.value.close()
    assert (up.state / "token").stat().st_mode & 0o777 == 0o600
    assert up.state.stat().st_mode & 0o777 == 0o700


def test_the_api_describes_itself(up: Up) -> None:
    """The OpenAPI document is valid and has a path for every stream."""
    openapi = pytest.importorskip("openapi_spec_validator")
    document = up.client.get("openapi.json")
    openapi.validate(document)
    assert {"/tasks", "/events/syscall", "/events/exec", "/events/file_summary"} <= set(document["paths"])


def test_it_ends_cleanly_and_comes_back_with_its_data() -> None:
    """Ctrl-C ends all processes; the next start finds what was recorded and goes on with the wanted tasks."""
    accounts = Path("/etc/passwd").read_text()
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        modes = Path(folder).stat().st_mode
        first = run_up(Path(folder) / "state")
        first.scope("start", "local", "files", "-o", "mode=summary")
        until(lambda: bool(first.client.get("events", "syscall_summary", limit=1)["events"]))
        before = first.client.get("events", "syscall_summary", limit=1, order="asc")["events"]
        assert first.stop() == 0
        assert not _processes_of(folder)
        began = time.monotonic()
        second = run_up(Path(folder) / "state")
        assert time.monotonic() - began < 20
        assert second.client.get("events", "syscall_summary", limit=1, order="asc")["events"] == before

        def probes() -> list[str]:
            return sorted(task["probe"] for task in second.client.get("tasks", state="running")["tasks"])

        until(lambda: probes() == ["files", "process", "syscalls"])
        assert second.stop() == 0
        assert Path(folder).stat().st_mode == modes
    assert Path("/etc/passwd").read_text() == accounts


def test_killed_it_leaves_no_daemon_behind() -> None:
    """When `scope up` is killed, server and agent end by themselves; the next start ends the PostgreSQL left behind."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        first = run_up(Path(folder) / "state")
        first.process.kill()
        first.process.communicate()
        until(lambda: not [line for line in _processes_of(folder) if "scope_cli.main" in line])
        second = run_up(Path(folder) / "state")
        assert second.stop() == 0
        assert not _processes_of(folder)


def _processes_of(folder: str) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if folder in line and "ps -eo" not in line]


def test_a_second_one_in_the_same_place_is_refused(up: Up) -> None:
    """A directory that is in use, and a port that is taken, are errors that say so."""
    again = subprocess.run([*SCOPE, "up", "--state-dir", str(up.state)], capture_output=True, text=True, timeout=60)
    assert again.returncode == 1
    assert f"{up.state}/postgres is in use by process {up.process.pid}" in again.stderr
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        command = [*SCOPE, "up", "--state-dir", f"{folder}/state", "--http", up.http]
        taken = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert taken.returncode == 1
    assert f"cannot listen on {up.http}" in taken.stderr
