"""`scope up`, and the subcommands that users run against it."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, cast

import psycopg
import pytest
from tests.e2e.conftest import SCOPE, Up, until

from scope_cli.busiest import Busiest


def test_what_happens_is_found_by_every_way(up: Up) -> None:
    """An exec on this machine is the same in `scope events` and in PostgreSQL. The catalogue has its process."""
    word = f"mark-{os.getpid()}"
    process = subprocess.Popen(["/bin/echo", word, "two words"], stdout=subprocess.DEVNULL)
    process.wait()

    def listed() -> list[dict[str, object]]:
        said = up.scope("events", "exec", "--where", f"pid = {process.pid}", "--since", "-5m", "--json")
        return [json.loads(line) for line in said.stdout.splitlines()]

    until(lambda: bool(listed()))
    (event,) = listed()
    assert event["args"] == ["/bin/echo", word, "two words"]
    assert event["comm"] == "echo"
    with psycopg.connect(host=str(up.state / "postgres"), user="scope", dbname="scope") as connection:
        rows = connection.execute("SELECT pid, comm, args, ktime_ns FROM scope.exec WHERE pid = %s", [process.pid])
        assert rows.fetchall() == [(event["pid"], event["comm"], event["args"], event["ktime_ns"])]
        query = "SELECT exe, cmdline, parent_pid FROM store.processes WHERE (pid, start_ns) = (%s, %s)"
        about = connection.execute(query, [process.pid, event["start_ns"]])
        ((exe, *described),) = about.fetchall()
    assert described == [["/bin/echo", word, "two words"], os.getpid()]
    assert os.path.realpath(exe) == os.path.realpath("/bin/echo")


def test_a_task_from_start_to_stop(up: Up) -> None:
    """A started task records. After its stop, every event is stored, and the event counts balance."""
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

    def books() -> tuple[int, int, int]:
        for stream in up.client.get("tasks", task_id)["streams"]:
            if stream["stream"] == "syscall":
                return stream["emitted"], stream["stored"], stream["under_way"]
        return (0, 0, 0)

    until(lambda: books() == (10007, 10007, 0))
    rows, cursor = 0, None
    while True:
        page = up.client.get("events", "syscall", where=f"pid = {workload.pid}", limit=1000, cursor=cursor)
        rows += len(page["events"])
        cursor = page["next"]
        if not cursor:
            break
    assert rows == 10007
    assert up.client.get("tasks", task_id)["state"] == "stopped"


def test_nodes_tasks_and_health(up: Up) -> None:
    """Machines, tasks and health are listed."""
    well = {"healthy": True, "database": "ok", "ingest": "ok", "agents": 1}
    assert well.items() <= up.client.get("server").items()
    nodes = up.scope("nodes", "--json")
    assert [node["connected"] for node in json.loads(nodes.stdout)] == [True]
    until(lambda: "syscall_summary" in up.scope("tasks").stdout)  # a stream is listed from its first rows on
    assert "process" in up.scope("tasks").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("nodes",),
        ("tasks",),
        ("events", "exec"),
        ("states", "gpu"),
        ("leaks",),
        ("admin", "quarantine"),
        ("stop", "nonsense"),
        ("start", "nonsense", "files"),
    ],
    ids=" ".join,
)
def test_every_subcommand_finds_it(up: Up, words: tuple[str, ...]) -> None:
    """Each subcommand finds the user's `scope up` without SCOPE_ variables, whatever its ports and state directory."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCOPE_")}
    environment["XDG_RUNTIME_DIR"] = str(up.state.parent)
    ran = subprocess.run([*SCOPE, *words], capture_output=True, text=True, env=environment, timeout=240)
    assert (ran.returncode == 0) != ("nonsense" in words), ran.stderr
    assert "nonsense" in ran.stderr if ran.returncode else not ran.stderr or "not shown" in ran.stderr


def test_a_busy_loop_is_among_the_busiest(up: Up) -> None:
    """A program that only computes and calls is ranked by its time on a CPU and its calls; no time is impossible."""
    loop = "open('/proc/self/comm', 'w').write('spins'); import os\nwhile True: os.getppid()"
    ranked: list[Sequence[Any]] = []

    def shown() -> bool:
        ranked[:] = Busiest.of(up.client).groups
        calls = {(group["key"]["comm"], group["key"]["name"]): group["values"]["count"] for group in ranked[2]}
        busy = [group["key"]["comm"] for group in ranked[0]]
        return "spins" in busy and (calls.get(("spins", "getppid")) or 0) >= 160_000

    with subprocess.Popen([sys.executable, "-c", loop]) as spins:
        try:
            until(shown)
        finally:
            spins.kill()
    most_s = 3 * 60 * (os.cpu_count() or 1)  # at most two minutes, and what had begun before
    assert 0 < sum(group["values"]["sum(on_cpu_ns)"] for group in ranked[0]) / 1e9 < most_s


def test_scope_leaves_itself_out(up: Up) -> None:
    """Syscalls of the server, PostgreSQL and the agent are not recorded."""
    time.sleep(2)
    rows = up.client.get("events", "syscall_summary", limit=1000)["events"]
    postmaster = int((up.state / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents: dict[int, int] = dict(cast("Any", map(int, line.split())) for line in listed.splitlines())
    roots = {up.process.pid, postmaster}
    own = roots | {pid for pid, parent in parents.items() if parent in roots}
    assert len(own) > 6
    assert rows
    assert not own & {row["pid"] for row in rows}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["start", "local", "nonsense"], 2, "no probe named 'nonsense'"),
        (["up", "--http", "nonsense"], 2, "http: 'nonsense' is not host:port"),
        (["agentd", "--spool-bytes", "1GB"], 2, "'1GB' is no number of bytes; write it as 512M or 2G"),
        (["agentd", "--spool-bytes", "1K"], 2, "--spool-bytes: 1024 is too small"),
        (["server", "--database", "", "--keep-days", "0"], 2, "--keep-days: 0 is not above 0"),
        (["server", "--database", "", "--keep-bytes", "0"], 2, "--keep-bytes: 0 is not above 0"),
        (["start", "elsewhere", "files"], 1, "no machine has the hostname or id 'elsewhere'"),
        (["start", "local", "files", "--pid", "4194303"], 2, "no process has pid 4194303"),
        (["start", "local", "files", "-o", "mode=both"], 2, "'both' is not one of events, summary"),
        (["stop", "nonsense"], 2, "no active task's id begins with 'nonsense'"),
        (["events", "nonsense"], 1, "there is no stream 'nonsense'; there are: "),
        (["events", "exce"], 1, "there is no stream 'exce' (did you mean 'exec'?); there are: "),
        (["events", "exec", "--where", "pidd = 1"], 2, "where, character 1: no column 'pidd' (did you mean 'pid'"),
        (["events", "exec", "--where", "pid = x"], 2, "where, character 7: pid takes a whole number, not 'x'"),
        (["events", "exec", "--where", "pid"], 2, "where, at its end: after 'pid' one of"),
        (["events", "exec", "--since", "yesterday"], 2, "'yesterday' is not a time; write -5m"),
        (
            ["start", "local", "files", "-o", "mode=event"],
            2,
            "'event' is not one of events, summary (did you mean 'events'",
        ),
        (["start", "local", "procss"], 2, "no probe named 'procss' (did you mean 'process'?)"),
    ],
)
def test_bad_input_is_told(up: Up, arguments: list[str], status: int, said: str) -> None:
    """Invalid requests are refused in one line that names the error."""
    called = up.scope(*arguments)
    assert (called.returncode, len(called.stderr.splitlines())) == (status, 1), called.stderr
    assert said in called.stderr


def test_without_a_login_the_api_is_closed(up: Up) -> None:
    """Over TCP, every API path requires a login. Only the owner may use the socket, which needs none."""
    for path in ("server", "tasks", "events/exec", "openapi.json", "nonsense"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{up.http}/api/v1/{path}")
        assert refused.value.code == 401
        refused.value.close()
    assert (up.state / "api.sock").stat().st_mode & 0o777 == 0o600
    assert up.state.stat().st_mode & 0o777 == 0o700


def test_the_api_describes_itself(up: Up) -> None:
    """The OpenAPI document has the paths of tasks and streams; a unit test validates it."""
    document = up.client.get("openapi.json")
    assert {f"/api/v1/{path}" for path in ("tasks", "events/syscall", "events/exec", "events/file_summary")} <= set(
        document["paths"]
    )


def test_a_second_one_in_the_same_place_is_refused(up: Up) -> None:
    """A second `scope up` with the same state directory fails; the message names the process of the first."""
    again = subprocess.run([*SCOPE, "up", "--state-dir", str(up.state)], capture_output=True, text=True, timeout=240)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == (
        f"scope: {up.state} is in use by another `scope up` (process {up.process.pid}); "
        "stop it, or choose another with --state-dir\n"
    )


def test_other_subcommands_find_it_by_its_state_directory(up: Up) -> None:
    """SCOPE_STATE alone leads other subcommands to `scope up`, whatever its ports."""
    environment = {**os.environ, "SCOPE_STATE": str(up.state)}
    environment.pop("SCOPE_URL", None)
    listed = subprocess.run([*SCOPE, "nodes", "--json"], capture_output=True, text=True, env=environment, timeout=240)
    assert [node["connected"] for node in json.loads(listed.stdout)] == [True]
    assert (up.state / "api-url").stat().st_mode & 0o777 == 0o600
