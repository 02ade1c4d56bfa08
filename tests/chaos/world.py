"""A whole stack for fault injection: PostgreSQL, server, proxy and agent, and loads that count their events.

`deployed` has the same with several servers.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import psycopg
from tests.chaos.proxy import Proxy
from tests.clusters import place_cluster
from tests.fleet import UNEXAMINED
from tests.ports import free_port

from scope_cli.access import Access
from scope_cli.client import Client
from scope_cli.errors import CommandError
from scope_server.errors import PostgresError
from scope_server.store.postgres import PrivatePostgres

HERE = Path(__file__).parent
PATIENCE_S = 180.0  # timeout of every wait; not a speed limit


class Part:
    """One `scope` daemon in a process of its own; its output goes to a log.

    Args:
        label: the name of its files; without one, that of the daemon.
    """

    def __init__(self, name: str, arguments: list[str], folder: Path, library: Path, label: str = "") -> None:
        self.name, self._label = name, label or name
        self.newer = False
        self._arguments, self._folder, self._library = arguments, folder, library
        self._clock = folder / f"{self._label}.clock"
        self.step_clock(0)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the daemon, unless it runs."""
        if self._process and self._process.poll() is None:
            return
        environment = {**os.environ, "LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._clock)}
        paths = [*([str(HERE / "newer")] if self.newer else []), *os.environ.get("PYTHONPATH", "").split(":")]
        environment |= {"SCOPE_LOG": "INFO", "PYTHONPATH": ":".join(filter(None, paths))}
        with (self._folder / f"{self._label}.log").open("ab") as log:
            command = [sys.executable, "-X", "faulthandler", "-m", "scope_cli.main", self.name, *self._arguments]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def send(self, number: int) -> None:
        """Sends the daemon a signal, if it runs."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kills the daemon, even if it is suspended."""
        self.send(signal.SIGKILL)
        self.wait()

    def terminate(self) -> None:
        """Ends the daemon with SIGTERM.

        Raises:
            AssertionError: the exit status is not 0. SIGTERM may kill a daemon that still loads its modules, since it
                has opened nothing.
        """
        if self._process and self._process.poll() is None:
            self.send(signal.SIGCONT)
            orderly = {0} if self._heeds_terminate() else {0, -signal.SIGTERM}
            self.send(signal.SIGTERM)
            assert self.wait() in orderly, f"{self._process.returncode}; {self.said()}"

    def _heeds_terminate(self) -> bool:
        """Whether the daemon already handles SIGTERM; it does before it opens anything."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return bool(int(status.partition("SigCgt:")[2].split()[0], 16) & 1 << signal.SIGTERM - 1)

    def wait(self) -> int | None:
        """Waits until the daemon has ended; returns its status."""
        return self._process.wait(PATIENCE_S) if self._process else None

    def step_clock(self, seconds: int) -> None:
        """Sets the daemon's wall clock this many seconds ahead."""
        self._clock.write_text(str(seconds))

    @property
    def ended_badly(self) -> str:
        """The daemon's status and last output if it ended with an error, else empty."""
        status = self._process.poll() if self._process else None
        return f"{self.name} ended with {status}; {self.said()}" if status else ""

    @property
    def pid(self) -> int:
        """The daemon's pid."""
        assert self._process
        return self._process.pid

    def said(self) -> str:
        """The end of the daemon's log."""
        return (self._folder / f"{self._label}.log").read_text(errors="replace")[-2000:]


class Load:
    """A program that counts its events, see load.c and allocations.c; it waits for `go`.

    Attributes:
        calls, programs: number of calls made and of programs run; 0 until the load has ended.
    """

    def __init__(self, program: Path, *words: int) -> None:
        self._process = subprocess.Popen(
            [program, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self.pid = self._process.pid
        self.calls = self.programs = 0

    def go(self) -> None:
        """Lets the load begin."""
        assert self._process.stdin
        self._process.stdin.write(b"\n")
        self._process.stdin.close()
        self._process.stdin = None

    def end(self) -> None:
        """Ends the load and reads its counts."""
        if self._process.returncode is not None:
            return
        if self._process.stdin:
            self._process.stdin.close()
            self._process.stdin = None
        self._process.terminate()
        said, _ = self._process.communicate(timeout=PATIENCE_S)
        if said:
            self.calls, self.programs = (int(word) for word in said.split())


class World:
    """The stack of a test: starts on entry, ends on exit, whatever state it is in.

    Args:
        programs: the folder with the compiled loads.

    Attributes:
        database_disk, spool_disk: separate file systems, small enough to be filled.
        metrics: where the agent tells its metrics.
        servers: of which only the deployed form has several.
        client: asks them.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self._programs = folder, programs
        self.library = programs / "clock.so"
        self.cleanup = ExitStack()
        self._parts: list[Part] = []
        self.loads: list[Load] = []
        self.log: list[str] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup.close()

    def _start(self) -> None:
        self.database_disk, self.spool_disk = self.disk("d", 768), self.disk("a", 48)
        self.cleanup.callback(self._end_postgres)
        self.start_primary()
        ingest, enrol = self.start_servers()
        self.proxy = Proxy(ingest)
        self.cleanup.callback(self.proxy.close)
        self.eventually(lambda: self.client.get("health"), "the server is healthy")
        token = self.client.post("join-tokens")["token"]
        self.metrics = f"127.0.0.1:{free_port()}"
        own = ["--control", f"127.0.0.1:{free_port()}", "--metrics", self.metrics]
        words = ["--state-dir", str(self.spool_disk), "--server", f"127.0.0.1:{self.proxy.port}", *own]
        words += ["--join", f"127.0.0.1:{enrol}", "--token", token]
        words += ["--spool-bytes", str(32 << 20), "--exclude-pid", str(os.getpid()), *UNEXAMINED]
        self.agent = Part("agentd", words, self.folder, self.library)
        self.begin(self.agent)
        self.eventually(self._attends, "the agent attends")

    def _attends(self) -> bool:
        return [node["connected"] for node in self.client.get("nodes")["nodes"]] == [True]

    def start_primary(self) -> None:
        """Starts PostgreSQL."""
        self.postgres = self.copied(self.database_disk / "p")
        self.postgres.start()

    def start_servers(self) -> tuple[int, int]:
        """Starts the servers; returns the ports to which agents connect, and at which they join."""
        http, ingest, enrol = (free_port() for _ in range(3))
        state = self.folder / "s"
        addresses = ["--http", f"127.0.0.1:{http}", "--ingest", f"127.0.0.1:{ingest}"]
        addresses += ["--enrol", f"127.0.0.1:{enrol}"]
        words = ["--state-dir", str(state), "--database", self.postgres.conninfo(), *addresses]
        self.servers = [Part("server", words, self.folder, self.library)]
        self.begin(self.servers[0])
        self.eventually((state / "api.sock").exists, "the server listens")
        self.client = Client(Access(f"http://127.0.0.1:{http}", socket=str(state / "api.sock")))
        return ingest, enrol

    def copied(self, directory: Path, settings: dict[str, str] | None = None) -> PrivatePostgres:
        """A stopped PostgreSQL in a new directory, with the schema."""
        place_cluster(directory)
        return PrivatePostgres(directory, settings)

    @property
    def databases(self) -> list[PrivatePostgres]:
        """All PostgreSQLs, the primary first."""
        return [self.postgres]

    @property
    def parts(self) -> list[Part]:
        """All daemons."""
        return [*self.servers, self.agent]

    def repair(self) -> None:
        """Starts what does not run, and ends all faults of the network."""
        self.proxy.heal()
        self.start_postgres()
        for part in self.parts:
            part.start()

    def begin(self, part: Part) -> None:
        """Starts a daemon, which ends with this."""
        self._parts.append(part)
        self.cleanup.callback(part.kill)
        part.start()

    def disk(self, name: str, megabytes: int) -> Path:
        """A new file system of this size."""
        path = self.folder / name
        path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", path], check=True)
        self.cleanup.callback(lambda: subprocess.run(["umount", "-l", path], check=False))
        return path

    def start_postgres(self) -> None:
        """Starts PostgreSQL if it has ended, as `scope up` would. PostgreSQL may end by itself on a full disk."""
        self.start_postgres_of(self.postgres)

    def start_postgres_of(self, postgres: PrivatePostgres) -> None:
        """The same, of one of several."""
        deadline = time.monotonic() + PATIENCE_S
        while postgres.pid is None:
            try:
                postgres.stop(immediate=True)
                postgres.start()
            except PostgresError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _end_postgres(self) -> None:
        if hasattr(self, "postgres"):
            self.postgres.stop(immediate=True)

    def start_load(self, program: str, *words: int) -> Load:
        """Starts a load, which waits for `go`."""
        load = Load(self._programs / program, *words)
        self.loads.append(load)
        self.cleanup.callback(load.end)
        return load

    def start_task(self, probe: str, pid: int, where: str | None = None, **options: Any) -> str:
        """Starts a task at the server; returns the task's id once it records."""
        body = {"probe": probe, "target": {"pid": pid}, "options": options, "where": where}
        task = self.client.post("tasks", body=body)
        assert task["state"] == "running", task
        return str(task["task_id"])

    def say(self, what: str) -> None:
        """Adds a line to the schedule's log."""
        self.log.append(f"{time.monotonic():.2f} {what}")

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of a query, over a new connection."""
        with psycopg.connect(self.postgres.conninfo(), autocommit=True, connect_timeout=10) as connection:
            return connection.execute(statement.encode(), parameters).fetchall()

    def eventually(self, condition: Callable[[], Any], what: str) -> None:
        """Waits until a condition holds; errors of a part that is not ready count as false.

        Raises:
            AssertionError: the condition did not hold within PATIENCE_S. The message names `what` should have happened.
        """
        end = time.monotonic() + PATIENCE_S
        reason = ""
        while True:
            self.start_postgres()  # on a full disk it may have begun to end, and end after the disk was mended
            try:
                if condition():
                    return
                reason = "it does not hold"
            except (CommandError, psycopg.Error, OSError) as error:
                reason = str(error)
            if time.monotonic() > end:
                said = [part.ended_badly or part.said() for part in self._parts]
                raise AssertionError("\n".join([f"never: {what} ({reason})", *self.log, *said]))
            time.sleep(0.1)
