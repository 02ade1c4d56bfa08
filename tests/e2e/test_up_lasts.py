"""`scope up` restarts dead parts, ends cleanly, and reports what prevents a start."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import psycopg
import pytest
from tests.e2e.conftest import SCOPE, Up, free_addresses, run_up, until

from scope_cli.errors import CommandError
from scope_cli.installation import ADDRESSES

AT_ONCE_S = 20.0  # enough on a busy machine


@pytest.mark.alone  # times the second start
def test_it_ends_cleanly_and_comes_back_with_its_data() -> None:
    """Ctrl-C ends all processes. The next start has the old data and continues the tasks."""
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

        until(lambda: probes() == ["files", "process", "sched", "syscalls"])
        assert second.stop() == 0
        assert Path(folder).stat().st_mode == modes
    assert Path("/etc/passwd").read_text() == accounts


@contextmanager
def _running() -> Iterator[Up]:
    """A `scope up` that has printed its API's address. It is killed and its folder deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        up = run_up(Path(folder) / "state")
        try:
            _read_until_there(up)
            yield up
        finally:
            up.process.kill()
            up.process.communicate()


def _read_until_there(up: Up) -> None:
    assert up.process.stdout
    lines: list[str] = []
    while not lines or not lines[-1].startswith("console http"):
        line = up.process.stdout.readline()
        assert line, lines
        lines.append(line)


def _processes_of(folder: str | Path) -> list[str]:
    listed = subprocess.run(["ps", "-wweo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(folder) in line and "ps -wweo" not in line]


def _pids(state: Path, part: str) -> list[int]:
    """Process ids of one part. All parts, also PostgreSQL's postmaster, are children of `scope up`."""
    own = (state / "lock").read_text().strip()
    listed = subprocess.run(["ps", "-ww", "--ppid", own, "-o", "pid=,args="], capture_output=True, text=True).stdout
    words = {"PostgreSQL": "bin/postgres"}.get(part, f"scope_cli.main {part}")
    return [int(line.split()[0]) for line in listed.splitlines() if words in line]


def _send(state: Path, part: str, number: int) -> int:
    """Sends a signal to a part; returns its process id."""
    (pid,) = _pids(state, part)
    os.kill(pid, number)
    return pid


def _calls(up: Up, pid: int) -> int:
    """Number of stored calls of a process; -1 while PostgreSQL does not answer."""
    query = "SELECT count(*) FROM scope.syscall WHERE pid = %s AND time > now() - interval '1 h'"
    try:
        with psycopg.connect(host=str(up.state / "postgres"), user="scope", dbname="scope") as connection:
            (count,) = connection.execute(query, [pid]).fetchone() or (0,)
            return int(count)
    except psycopg.OperationalError:
        return -1


def _ended(up: Up, number: int = signal.SIGINT) -> str:
    """Ends `scope up`, which must exit with status 0 and leave no process; returns its output."""
    up.process.send_signal(number)
    said = up.process.communicate(timeout=90)[0]
    assert up.process.returncode == 0, said
    assert "Traceback" not in said
    until(lambda: not _processes_of(up.state))
    return str(said)


def test_whatever_is_killed_comes_back() -> None:
    """If PostgreSQL, the server or the agent is killed, `scope up` restarts it and says so. No row is lost."""
    workload = subprocess.Popen(
        [sys.executable, "-c", "import os, sys\nfor _ in sys.stdin:\n    for _ in range(1009): os.getppid()"],
        stdin=subprocess.PIPE,
        text=True,
    )
    assert workload.stdin
    with _running() as up:
        task_id = up.scope(
            "start", "local", "syscalls", "--pid", str(workload.pid), "-o", "names=getppid"
        ).stdout.strip()
        rounds = 0

        def work() -> None:
            nonlocal rounds
            assert workload.stdin
            workload.stdin.write("\n")
            workload.stdin.flush()
            rounds += 1

        work()
        until(lambda: _calls(up, workload.pid) == 1009)
        for part in ("PostgreSQL", "server"):  # the agent goes on recording, and sends the rows later
            killed = _send(up.state, part, signal.SIGKILL)
            work()
            until(lambda part=part, killed=killed: _pids(up.state, part) not in ([], [killed]), 60)
            until(lambda: _calls(up, workload.pid) == 1009 * rounds, 60)
        _send(up.state, "agentd", signal.SIGKILL)

        def runs_again() -> bool:
            try:
                task = up.client.get("tasks", task_id)
            except CommandError:
                return False
            return len(task["runs"]) == 2 and task["state"] == "running"

        until(runs_again, 60)
        work()
        until(lambda: _calls(up, workload.pid) == 1009 * rounds, 60)
        (books,) = [stream for stream in up.client.get("tasks", task_id)["streams"] if stream["stream"] == "syscall"]
        assert (books["emitted"], books["stored"], books["lost"]) == (1009 * rounds, 1009 * rounds, [])
        workload.stdin.close()
        workload.wait()
        said = _ended(up)
    for part in ("PostgreSQL", "server", "agentd"):
        assert f"{part} ended (killed by signal 9), started again in 0.5 s; 1 restart" in said
        assert f"{part} runs again" in said


@pytest.mark.parametrize("parts", [(), ("PostgreSQL", "server", "agentd")], ids=["alone", "with its parts"])
def test_killed_itself_it_can_be_started_again_at_once(parts: tuple[str, ...]) -> None:
    """After kill -9, the parts end by themselves; the next `scope up` on the same ports waits for them, finds the data
    and continues the tasks. Every event of both runs is stored or counted as lost."""
    workload = subprocess.Popen(
        [sys.executable, "-c", "import os, sys\nfor _ in sys.stdin: [os.getppid() for _ in range(1009)]"],
        stdin=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert workload.stdin
    with _running() as up:
        words = ["--pid", str(workload.pid), "-o", "names=getppid"]
        task_id = up.scope("start", "local", "syscalls", *words).stdout.strip()
        workload.stdin.write("\n")
        until(lambda: _calls(up, workload.pid) == 1009)
        pids = [up.process.pid, *(pid for part in parts for pid in _pids(up.state, part))]
        workload.stdin.write("\n")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        up.process.communicate()
        _start_again(up)
        _read_until_there(up)
        until(lambda: len(_runs(up, task_id)) == 2 and "running" in _runs(up, task_id), 60)
        workload.stdin.write("\n")
        workload.stdin.close()
        workload.wait()
        assert up.scope("stop", task_id).returncode == 0
        until(lambda: _books(up, task_id)[0] == [True, True], 60)
        (_, (emitted, stored, lost)), calls = _books(up, task_id), _calls(up, workload.pid)
        assert 2 * 1009 <= emitted == stored + lost <= 3 * 1009
        assert calls == stored
        _ended(up)


def _start_again(up: Up) -> None:
    command = [str(word) for word in cast("list[str]", up.process.args)]
    up.process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _runs(up: Up, task_id: str) -> list[str]:
    """The states of a task's runs."""
    return [run["state"] for run in up.client.get("tasks", task_id)["runs"]]


def _books(up: Up, task_id: str) -> tuple[list[bool], list[int]]:
    """For a task's stream `syscall`: whether each run's counts are closed; the totals of emitted, stored and lost."""
    query = "SELECT closed, emitted, stored, lost FROM scope.books WHERE task_id = %s AND stream = 'syscall'"
    with psycopg.connect(host=str(up.state / "postgres"), user="scope", dbname="scope") as connection:
        rows = connection.execute(query, [task_id]).fetchall()
    return [row[0] for row in rows], [int(sum(column)) for column in list(zip(*rows, strict=True))[1:]]


def test_killed_during_starts_it_can_be_started_again() -> None:
    """If `scope up` is killed while it starts, its parts end by themselves, and the next start succeeds."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        process = _begun(folder, free_addresses(len(ADDRESSES)))
        for delay in (0.2, 0.5, 0.9, 1.3, 1.8, 2.4, 3.1):
            time.sleep(delay)
            process.kill()
            process.communicate()
            until(lambda: not _processes_of(folder), 60)
            process = _begun(folder, free_addresses(len(ADDRESSES)))
        up = Up(Path(folder) / "state", "", "", "", process)
        _read_until_there(up)
        _ended(up)


def test_it_can_be_ended_while_it_waits_for_parts_of_a_killed_one() -> None:
    """SIGTERM ends a `scope up` that waits for the parts of a killed one. The next start succeeds."""
    with _running() as up:
        _send(up.state, "agentd", signal.SIGSTOP)  # a stopped process does not end by itself
        up.process.kill()
        up.process.communicate()
        _start_again(up)
        assert up.process.stdout
        assert "waiting for processes of an earlier `scope up`" in up.process.stdout.readline()
        up.process.send_signal(signal.SIGTERM)
        said = up.process.communicate(timeout=90)[0]
        assert (up.process.returncode, said) == (130, "scope: ended before it had started\n")
        _start_again(up)
        _read_until_there(up)
        _ended(up)


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.2, 0.4, 0.7, 1.1, 1.6, 2.2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_ended_at_any_moment(number: int, delay: float) -> None:
    """SIGINT and SIGTERM end a start at any moment, without a traceback, and no process remains."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        process = _begun(folder, free_addresses(len(ADDRESSES)))
        until(lambda: _catches_signals(process.pid))  # earlier, Python has no signal handlers yet
        time.sleep(delay)
        process.send_signal(number)
        said = process.communicate(timeout=90)[0]
        assert "Traceback" not in said
        assert process.returncode == (0 if "API http" in said else 130), said
        until(lambda: not _processes_of(folder))


def _begun(folder: str, addresses: list[str]) -> "subprocess.Popen[str]":
    """Starts `scope up` without waiting for it."""
    options = zip(ADDRESSES, addresses, strict=True)
    words = [word for name, address in options for word in (f"--{name}", address)]
    command = [*SCOPE, "up", "--state-dir", f"{folder}/state", *words]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _catches_signals(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (signal.SIGTERM - 1) & 1)


def test_a_second_signal_hastens_the_end() -> None:
    """After a second signal, `scope up` kills the parts that do not react."""
    with _running() as up:
        for part in ("agentd", "server", "PostgreSQL"):
            _send(up.state, part, signal.SIGSTOP)
        up.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        _ended(up)


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        ("touch {state}", "it is a file; choose another with --state-dir"),
        ("touch {folder}/file && ln -s file/deeper {state}", "choose another with --state-dir"),
        ("mkdir {state} && chown 4711 {state}", "belongs to user 4711; run as that user"),
        ("mkdir {state} && mount -t tmpfs -o ro,mode=700 tmpfs {state}", "on a file system that is read-only"),
        ("mkdir {state} && mount -t tmpfs -o size=20m,mode=700 tmpfs {state}", "no space for PostgreSQL in"),
        ("mkdir -m 700 -p {state}/postgres/data && echo 15 >{state}/postgres/data/PG_VERSION", "mode 0700"),
        (
            "mkdir -m 700 {state} {state}/postgres {state}/postgres/data && echo 15 >{state}/postgres/data/PG_VERSION",
            "was made by PostgreSQL 15, this is 18",
        ),
    ],
)
def test_a_place_that_cannot_be_used_is_told(prepare: str, said: str) -> None:
    """`scope up` reports an unusable state directory at once, in one line."""
    with tempfile.TemporaryDirectory(prefix="scope") as folder:
        state = Path(folder) / "state"
        subprocess.run(prepare.format(state=state, folder=folder), shell=True, check=True)
        try:
            began = subprocess.run(
                [*SCOPE, "up", "--state-dir", str(state)], capture_output=True, text=True, timeout=AT_ONCE_S
            )
        finally:
            subprocess.run(["umount", str(state)], capture_output=True)
        assert began.returncode == 1
        (line,) = began.stderr.splitlines()
        assert said in line
        assert not _processes_of(folder)


@pytest.mark.parametrize("name", ADDRESSES)
def test_a_silent_listener_is_told_at_once(name: str) -> None:
    """If another program listens on the address but never answers, `scope up` fails at once and names its process."""
    with socket.create_server(("127.0.0.1", 0)) as silent, tempfile.TemporaryDirectory(prefix="scope") as folder:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        others = dict(zip(ADDRESSES, free_addresses(len(ADDRESSES)), strict=True))
        words = [word for option, free in (others | {name: address}).items() for word in (f"--{option}", free)]
        command = [*SCOPE, "up", "--state-dir", f"{folder}/state", *words]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=AT_ONCE_S)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1), refused.stderr
    assert f"{address} is used by another program (pid {os.getpid()}, " in refused.stderr
    assert f"choose another with --{name}" in refused.stderr
