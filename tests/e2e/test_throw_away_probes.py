"""A new probe of any kind changes no existing file: those in `throw_away/` are built, traced and stored.

Kinds: events in an interrupt, of a socket's owner, without a process, or with addresses; enums; summaries without
processes; samples.
"""

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.e2e.conftest import run_up, until
from tests.tracefs import seen

from scope_cli.client import Client

ROOT = Path(__file__).parents[2]
THROW_AWAY = Path(__file__).parent / "throw_away"
SCOPE = [sys.executable, "-m", "scope_cli.main"]

ALARMS = """
import signal, time
rung = 0
def rings(*_):
    global rung
    rung += 1
signal.signal(signal.SIGALRM, rings)
for _ in range(101):
    before = rung
    signal.setitimer(signal.ITIMER_REAL, 0.003)
    while rung == before:
        time.sleep(0.001)
"""

SENDS = """
import socket
four, six = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for n in range(103):
    four.sendto(b"x" * n, ("127.0.0.3", 9))
for n in range(107):
    six.sendto(b"x" * n, ("::1", 9))
"""

CONNECTS = """
import socket, sys
for _ in range(int(sys.argv[2])):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as client:
        try:
            client.recv(1)
        except ConnectionResetError:
            pass
"""

# Traces the whole machine while two processes connect; then only one of them, while the server resets all connections.
HANGUPS = """
import json, socket, struct, subprocess, sys
from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.tracer import Tracer
from scope_catalogue.options import parse_options
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named

CLIENT = '''
import socket, sys
open("/proc/self/comm", "w").write(sys.argv[2])
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("connected", flush=True)
sys.stdin.readline()
'''
probe, batches = probe_named("hangups"), []
with socket.create_server(("127.0.0.1", 0)) as server, Tracer(probe, parse_options(probe.options, {})) as tracer:
    port = server.getsockname()[1]
    clients = [
        subprocess.Popen([sys.executable, "-S", "-c", "import sys; sys.stdin.readline(); exec(sys.argv[3])", str(port),
                          name, CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in ("first", "second")
    ]
    tracer.start()
    for client in clients:
        client.stdin.write("go\\n"); client.stdin.flush()
        assert client.stdout.readline() == "connected\\n"
    accepted = [server.accept()[0] for _ in clients]
    if sys.argv[1] == "pid":
        tracer.retarget(Target(pid=clients[1].pid))
    elif sys.argv[1] == "comm":
        tracer.retarget(Target(comm="second"))
    for each in accepted:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        each.close()
    for client in clients:
        client.communicate("end\\n")
    batches = tracer.finish()
    incomplete = tracer.accounts()["hangup"].incomplete
rows = [row for raw in batches for row in to_arrow(raw).to_pylist()]
names = {clients[0].pid: "first", clients[1].pid: "second", None: None}
ours = [row for row in rows if row["port"] == port]
print(json.dumps({"rows": [(names[row["pid"]], row["comm"]) for row in ours], "incomplete": incomplete,
                  "without": sum(row["pid"] is None for row in rows)}))
"""

# Prints /proc/softirqs before and after, counts from the kernel's trace of a time in between, and the recorded counts.
SOFTIRQS = """
import json, re, sys
from collections import Counter
from pathlib import Path
from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.tracer import Tracer
from scope_catalogue.options import parse_options
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from tests.tracefs import seen

def counted():
    lines = Path("/proc/softirqs").read_text().splitlines()[1:]
    return {name.strip().lower(): sum(map(int, each.split())) for name, _, each in (x.partition(":") for x in lines)}

mode, pid = sys.argv[1], int(sys.argv[2])
probe = probe_named("softirqs")
before, found, batches = counted(), Counter(), []
with Tracer(probe, parse_options(probe.options, {"mode": mode, "interval_ms": 100}), Target(pid=pid)) as tracer:
    tracer.start()
    with seen("irq/softirq_entry") as lines:
        started = counted()
        while counted()["timer"] - started["timer"] < 53:
            batches += tracer.poll(50)
    batches += tracer.finish()
    lost = {name: dict(account.lost) for name, account in tracer.accounts().items() if account.lost}
for raw in batches:
    for row in to_arrow(raw).to_pylist():
        found[row["kind"]] += row.get("count", 1)
        assert all(row.get(name) is None for name in ("pid", "start_ns", "tid", "uid", "cgroup_id", "comm")), row
print(json.dumps({
    "before": before,
    "seen": Counter(re.findall(r"action=(\\w+)", "".join(lines).lower())),
    "found": found,
    "after": counted(),
    "lost": lost,
    "columns": list(probe.streams[1].described()),
}))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """src/ of a copy of the tree. The probes' files are added; none replaces an existing file."""
    copy = tmp_path_factory.mktemp("copy")
    for part in ("bpf", "src", "Makefile"):
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, copy / part)
    for file in filter(Path.is_file, THROW_AWAY.rglob("*")):
        placed = copy / file.relative_to(THROW_AWAY)
        assert not placed.exists()
        placed.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, placed)
    subprocess.run(["make", f"PYTHON={sys.executable}", "catalogue"], cwd=copy, check=True, capture_output=True)
    return copy / "src"


def _run(source: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{source}:{ROOT}"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def _traced(source: Path, probe: str, *command: str) -> list[dict[str, Any]]:
    """The rows that `scope trace` prints for a command."""
    lines = _run(source, *SCOPE, "trace", probe, "--json", "--", *command).splitlines()
    return [json.loads(line) for line in lines]


def test_what_an_interrupt_learns_is_of_its_process(source: Path) -> None:
    """Each alarm is recorded once, for the process that set it, although other tasks run when it rings."""
    with seen("timer/itimer_expire") as lines:
        rows = _traced(source, "alarms", sys.executable, "-S", "-c", ALARMS)
    pids = {row["pid"] for row in rows}
    rung = sum(f"pid={pid} " in line for pid in pids for line in lines)
    assert 50 < rung <= len(rows) <= 101
    (pid,) = pids
    assert {(row["tid"], row["uid"], row["comm"]) for row in rows} == {(pid, os.getuid(), rows[0]["comm"])}
    assert all(row["start_ns"] and row["cgroup_id"] for row in rows)
    assert {row["interrupted_pid"] for row in rows} - {pid}


@pytest.mark.parametrize("mode", ["events", "summary"])
def test_what_is_of_no_process_has_none(source: Path, mode: str) -> None:
    """Rows have no process. Counts lie between the kernel's trace and /proc/softirqs. An unnamed kind is a number."""
    told = json.loads(_run(source, sys.executable, "-c", SOFTIRQS, mode, "0"))
    before, after = told["before"], told["after"]
    assert told["lost"] == {}
    assert told["columns"] == ["ktime_ns", "interval_ns", "kind", "count"]
    assert set(told["found"]) <= {*(set(before) - {"rcu"}), "9"}
    for kind, name in [("timer", "timer"), ("sched", "sched"), ("9", "rcu"), ("net_rx", "net_rx")]:
        found = told["found"].get(kind, 0)
        assert told["seen"].get(name, 0) <= found <= after[name] - before[name]
    assert told["seen"]["timer"] > 20


def test_a_target_leaves_out_what_is_of_no_process(source: Path) -> None:
    """A trace of one process has no events without a process."""
    told = json.loads(_run(source, sys.executable, "-c", SOFTIRQS, "events", str(os.getpid())))
    assert told["found"] == {}


def test_the_end_of_a_connection_is_its_owners(source: Path) -> None:
    """Each reset connection is recorded once, for the process that opened it, although the resetting process runs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepting = threading.Thread(target=_reset, args=(server, 103))
        accepting.start()
        port = server.getsockname()[1]
        rows = _traced(source, "hangups", sys.executable, "-S", "-c", CONNECTS, str(port), "103")
        accepting.join()
    assert [row["port"] for row in rows] == [port] * 103
    ((pid, comm),) = {(row["pid"], row["comm"]) for row in rows}
    assert comm.startswith("python")
    assert {row["interrupted_pid"] for row in rows} - {pid}


def _reset(server: socket.socket, count: int) -> None:
    """Accepts connections and ends each by a reset."""
    for _ in range(count):
        accepted, _ = server.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()


@pytest.mark.parametrize(
    ("filtered", "watched"), [("", ["first", "second"]), ("pid", ["second"]), ("comm", ["second"])]
)
def test_a_changed_filter_is_asked_about_owners(source: Path, filtered: str, watched: list[str]) -> None:
    """Sockets opened before the filter changed follow the new filter; those without an owner are counted."""
    told = json.loads(_run(source, sys.executable, "-c", HANGUPS, filtered))
    assert sorted(told["rows"]) == [[name, name] for name in watched]
    assert told["incomplete"] == told["without"]


def test_addresses_are_text(source: Path) -> None:
    """IPv4 and IPv6 addresses are text in the usual notation."""
    rows = _traced(source, "datagrams", sys.executable, "-S", "-c", SENDS)
    counted = Counter((row["source"], row["destination"], row["port"]) for row in rows)
    assert counted == {("127.0.0.1", "127.0.0.3", 9): 103, ("::1", "::1", 9): 107}


def test_they_have_pages(source: Path, tmp_path: Path) -> None:
    """`make docs` writes a page for each, with its streams and columns."""
    _run(source, sys.executable, str(ROOT / "docs" / "probes" / "generate.py"), str(tmp_path))
    assert "| `interrupted_pid` |" in (tmp_path / "alarms.md").read_text()
    assert "## Stream `softirq_summary`" in (tmp_path / "softirqs.md").read_text()
    assert "[the columns of all samples]" in (tmp_path / "loads.md").read_text()
    assert "[datagrams](datagrams.md)" in (tmp_path / "README.md").read_text()


def test_agent_and_server_take_them_on(source: Path) -> None:
    """The server stores and serves each kind: rows without a process, summaries without processes, enums, samples."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        up = run_up(Path(folder) / "state", PYTHONPATH=str(source))
        try:
            tasks = {
                "softirq": {"probe": "softirqs"},
                "softirq_summary": {"probe": "softirqs", "options": {"mode": "summary", "interval_ms": 100}},
                "load": {"probe": "loads", "options": {"interval_ms": 100}},
            }
            started = {stream: up.client.post("tasks", body=body)["task_id"] for stream, body in tasks.items()}
            for stream, task in started.items():
                until(partial(_has_rows, up.client, stream))
                up.client.post("tasks", task, "stop")
                until(partial(_is_stored, up.client, task))
            events = {stream: up.client.get("events", stream)["events"] for stream in tasks}
            books = {stream: up.client.get("tasks", task)["streams"] for stream, task in started.items()}
            with psycopg.connect(host=str(up.state / "postgres"), user="scope", dbname="scope") as connection:
                query = "SELECT count(*), count(pid), count(comm) FROM scope.softirq"
                ((stored, with_pid, with_comm),) = connection.execute(query).fetchall()
                query = "SELECT kind, sum(count)::bigint FROM scope.softirq_summary GROUP BY kind"
                summed: dict[str, int] = dict(connection.execute(query).fetchall())
                query = "SELECT kind, sum(count)::bigint FROM scope.softirq_summary_minutes('-infinity') GROUP BY kind"
                by_minute: dict[str, int] = dict(connection.execute(query).fetchall())
        finally:
            up.stop()
    assert {event["pid"] for event in events["softirq"]} == {event["comm"] for event in events["softirq"]} == {None}
    assert "timer" in {event["kind"] for event in events["softirq"]} | summed.keys()
    assert (with_pid, with_comm) == (0, 0)
    (book,) = (book for book in books["softirq"] if book["stream"] == "softirq")
    assert stored == book["stored"] == book["emitted"]
    assert "pid" not in events["softirq_summary"][0]
    assert by_minute == summed
    assert all(event["tasks"] > 1 for event in events["load"])


def _has_rows(client: Client, stream: str) -> bool:
    return len(client.get("events", stream)["events"]) > 3


def _is_stored(client: Client, task: str) -> bool:
    return not any(stream["under_way"] for stream in client.get("tasks", task)["streams"])
