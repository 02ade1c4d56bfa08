"""Agent and server of different releases work together, whichever is older."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.fleet import UNEXAMINED
from tests.ports import free_port
from tests.previous_release import previous_release

from scope_bpf.capture.command import HeldCommand
from scope_cli.access import Access
from scope_cli.client import Client
from scope_cli.errors import CommandError
from scope_server.store.postgres import PrivatePostgres

ROOT = Path(__file__).parents[2]
NEWER = ROOT / "tests" / "chaos" / "newer"  # today's version, with a column that no release has
PATIENCE_S = 180.0
CALLS = "import os\nfor _ in range({}): os.getppid()"
BOOKS = "SELECT emitted, stored, lost, under_way, closed FROM scope.books WHERE stream = 'syscall'"


@dataclass
class Stack:
    """A server and an agent of some releases, over a PostgreSQL of their own."""

    folder: Path
    cleanup: ExitStack
    postgres: PrivatePostgres
    ports: dict[str, str] = field(default_factory=dict)
    parts: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def client(self) -> Client:
        url, socket = f"http://{self.ports['http']}", self.folder / "s" / "api.sock"
        if socket.exists():
            return Client(Access(url, socket=str(socket)))
        return Client(Access(url, token=(self.folder / "s" / "token").read_text().strip()))  # the previous release's

    def begin(self, name: str, release: list[Path], *words: str) -> None:
        """Starts `scope NAME` from the folders of a release."""
        environment = {**os.environ, "PYTHONPATH": ":".join(map(str, release))}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.parts[name] = subprocess.Popen(
                [sys.executable, "-m", "scope_cli.main", name, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.folder,
            )
        self.cleanup.callback(self._kill, self.parts[name])

    def _kill(self, part: "subprocess.Popen[bytes]") -> None:
        part.kill()
        part.wait()

    def end(self, name: str) -> None:
        """Ends a part in order."""
        part = self.parts.pop(name)
        part.terminate()
        assert part.wait(PATIENCE_S) == 0, self.said(name)

    def said(self, name: str) -> str:
        """The end of a part's log."""
        return (self.folder / f"{name}.log").read_text()[-3000:]

    def serve(self, release: list[Path]) -> None:
        """Starts a server and waits until it can write."""
        state = ["--state-dir", str(self.folder / "s"), "--database", self.postgres.conninfo()]
        listens = [word for name in ("http", "ingest", "enrol") for word in (f"--{name}", self.ports[name])]
        self.begin("server", release, *state, *listens)
        self.eventually(
            lambda: (
                any((self.folder / "s" / name).exists() for name in ("token", "api.sock")) and self.client.get("health")
            ),
            "healthy",
        )

    def attend(self, release: list[Path]) -> None:
        """Starts an agent, which joins the server if it has not, and waits for its session."""
        joining: list[str] = []
        if not (self.folder / "a").exists():
            joining = ["--join", self.ports["enrol"], "--token", self.client.post("join-tokens")["token"]]
        own = ["--state-dir", str(self.folder / "a"), "--server", self.ports["ingest"], *UNEXAMINED]
        own += ["--control", self.ports["control"], "--metrics", self.ports["metrics"]]
        self.begin("agentd", release, *own, *joining)
        self.eventually(lambda: _attends(self.client), "the agent attends")

    def record(self, calls: int) -> None:
        """Runs a task, started by the server, on a process with so many calls; waits until its books close."""
        command = HeldCommand([sys.executable, "-S", "-c", CALLS.format(calls)])
        body = {"probe": "syscalls", "target": {"pid": command.pid}, "options": {"names": ["getppid"]}}
        task = self.client.post("tasks", body=body)
        assert task["state"] == "running", task
        command.release()
        while command.poll() is None:
            time.sleep(0.02)
        self.client.post("tasks", task["task_id"], "stop")
        closed = f"{BOOKS} AND closed AND task_id = '{task['task_id']}'"
        self.eventually(lambda: self.query(closed) == [(calls, calls, 0, 0, True)], "the books close")

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with psycopg.connect(self.postgres.conninfo(), autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()

    def eventually(self, condition: Callable[[], Any], what: str) -> None:
        """Waits until a condition holds."""
        end, reason = time.monotonic() + PATIENCE_S, ""
        while True:
            try:
                if condition():
                    return
            except (CommandError, psycopg.Error, OSError) as error:
                reason = str(error)
            ended = [name for name, part in self.parts.items() if part.poll() is not None]
            if ended or time.monotonic() > end:
                raise AssertionError(f"never: {what} ({reason})\n" + "\n".join(map(self.said, self.parts)))
            time.sleep(0.1)


@pytest.fixture
def stack() -> Iterator[Stack]:
    """Addresses and a PostgreSQL; nothing of SCOPE runs yet. The folder has a short path, for a socket."""
    with tempfile.TemporaryDirectory(prefix="release") as made, ExitStack() as cleanup:
        postgres = cleanup.enter_context(PrivatePostgres(Path(made) / "p", {"fsync": "off"}))
        names = ("http", "ingest", "enrol", "control", "metrics")
        yield Stack(Path(made), cleanup, postgres, {name: f"127.0.0.1:{free_port()}" for name in names})


@pytest.fixture(scope="module")
def previous() -> list[Path]:
    """The packages of the previous release."""
    return [previous_release()]


def test_a_newer_agent_and_the_previous_server(stack: Stack, previous: list[Path]) -> None:
    """The previous server stores all rows of today's agent, with a column that it has to learn, and keeps it.

    After its upgrade to today's version, the same agent goes on with the same table.
    """
    stack.serve(previous)
    stack.attend([NEWER, ROOT / "src"])
    stack.record(10_007)
    assert stack.query("SELECT count(*), count(failed) FROM scope.syscall") == [(10_007, 10_007)]
    stack.end("server")
    stack.serve([ROOT / "src"])
    stack.eventually(lambda: _attends(stack.client), "the agent returns")
    stack.record(5_003)
    assert stack.query("SELECT count(*), count(failed) FROM scope.syscall") == [(15_010, 15_010)]
    rows = stack.client.get("events", "syscall", limit=10)["events"]
    assert {row["failed"] for row in rows} == {False}


def test_the_previous_agent_and_a_newer_server(stack: Stack, previous: list[Path]) -> None:
    """Today's server, whose catalogue has one more column, runs tasks on the previous agent and stores all its rows.

    After its upgrade to today's version, the agent goes on as the same machine, and sends the column, too.
    """
    stack.serve([NEWER, ROOT / "src"])
    stack.attend(previous)
    stack.record(10_007)
    assert stack.query("SELECT count(*), count(failed) FROM scope.syscall") == [(10_007, 0)]
    stack.end("agentd")
    stack.attend([NEWER, ROOT / "src"])
    stack.record(5_003)
    assert stack.query("SELECT count(*), count(failed) FROM scope.syscall") == [(15_010, 5_003)]
    assert stack.query("SELECT count(*) FROM scope.machines") == [(1,)]


def _attends(client: Client) -> bool:
    """Whether an agent is connected, of a server of either release."""
    return any(node["connected"] for node in client.get("nodes")["nodes"])
