"""Everything on this machine, started in order and ended in the opposite one: PostgreSQL, server, agent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from scope_cli.client import Client
from scope_cli.errors import CommandError
from scope_cli.installation import CONTROL, HTTP, INGEST, METRICS, postgres_dir, token_file

START_S = 60.0
STOP_S = 30.0


class Child:
    """A subcommand of scope in a process of its own; what it says goes to a log file."""

    def __init__(self, name: str, arguments: list[str], log: Path) -> None:
        self._name, self._log = name, log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                # Killed with us, however we end: nothing may record on unseen.
                ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "scope_cli.main", name, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,  # Ctrl-C in the terminal is for us, who then end it in order
            )

    def check(self) -> None:
        """Raises CommandError, with what it said last, if it has ended."""
        if self._process.poll() is not None:
            said = self._log.read_text(errors="replace").splitlines()
            reason = said[-1].removeprefix("scope: ") if said else "it said nothing"
            raise CommandError(f"`scope {self._name}` ended: {reason}; see {self._log}")

    def stop(self) -> None:
        """Ends it in order, or by force if it takes too long."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Stack:
    """Starts on entry, saying what it does through `say`; ends on exit.

    Raises:
        CommandError: a part does not start; the message says which and why.
    """

    def __init__(self, state: Path, say: Callable[[str], None], addresses: dict[str, str] | None = None) -> None:
        self._state, self._say = state, say
        self._addresses = {"http": HTTP, "ingest": INGEST, "control": CONTROL, "metrics": METRICS, **(addresses or {})}
        self._cleanup = ExitStack()
        self._children: list[Child] = []
        self.url = f"http://{self._addresses['http']}"

    def __enter__(self) -> "Stack":
        try:
            self._start()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def _start(self) -> None:
        from scope_server.errors import PostgresError
        from scope_server.store.postgres import PrivatePostgres

        self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._say("starting PostgreSQL")
        postgres = PrivatePostgres(postgres_dir(self._state))
        try:
            self._cleanup.enter_context(postgres)
        except PostgresError as error:
            raise CommandError(str(error)) from None
        self._say("starting the server")
        state = ["--state-dir", str(self._state)]
        http, ingest = self._addresses["http"], self._addresses["ingest"]
        self._child("server", [*state, "--database", postgres.conninfo(), "--http", http, "--ingest", ingest])
        self.wait(lambda: token_file(self._state).exists() and self._agents() is not None)
        self._say("starting the agent")
        agent = ["--server", ingest, "--control", self._addresses["control"], "--metrics", self._addresses["metrics"]]
        excluded = [os.getpid(), *([postgres.pid] if postgres.pid else [])]
        self._child("agentd", [*state, *agent, *(word for pid in excluded for word in ("--exclude-pid", str(pid)))])
        self.wait(lambda: bool(self._agents()))

    def _child(self, name: str, arguments: list[str]) -> None:
        child = Child(name, arguments, self._state / f"{name}.log")
        self._cleanup.callback(child.stop)
        self._children.append(child)

    def client(self) -> Client:
        """The API of this stack."""
        return Client(self.url, token_file(self._state))

    def _agents(self) -> int | None:
        try:
            return int(self.client().get("health")["agents"])
        except CommandError:
            return None

    def check(self) -> None:
        """Raises CommandError if a part has ended."""
        for child in self._children:
            child.check()

    def wait(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition, as long as every part runs.

        Raises:
            CommandError: a part ended, or it took too long.
        """
        end = time.monotonic() + START_S
        while not condition():
            self.check()
            if time.monotonic() > end:
                raise CommandError(f"not ready after {START_S:.0f} s; see the logs in {self._state}")
            time.sleep(0.1)
