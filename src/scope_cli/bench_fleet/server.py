"""The server that is measured, in its own process, with its own PostgreSQL."""

import socket
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from scope_cli.access import Access
from scope_cli.client import Client
from scope_cli.errors import CommandError, ServerUnreachable
from scope_cli.flag import Flag
from scope_cli.stack.child import Child
from scope_server.identity.authority import Authority
from scope_server.store.postgres import PrivatePostgres
from scope_wire.endpoint import Endpoint
from scope_wire.identity import Holder

_READY_S = 60.0
_TICKS_A_SECOND = 100  # USER_HZ, see proc(5)
_JOINED = """
INSERT INTO store.members (key_digest, machine_id, hostname, expires, confirmed) VALUES (%s, %s, '', %s, true)"""
_TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"


class FleetServer:
    """A server for so many sessions; a context manager. It can be stopped and started again.

    Attributes:
        authority: signs the certificates of its agents.
        ingest: where its session service listens.
        url, socket: of its API.
    """

    def __init__(self, folder: Path, sessions: int) -> None:
        self._folder, self._flag = folder, Flag()
        self._postgres = PrivatePostgres(folder / "postgres")
        self._ports = {name: _free_port() for name in ("http", "ingest", "enrol")}
        self._sessions = sessions
        self.authority = Authority(folder / "server" / "authority")
        self.ingest = Endpoint("127.0.0.1", self._ports["ingest"])
        self.url, self.socket = f"http://127.0.0.1:{self._ports['http']}", folder / "server" / "api.sock"
        self._cleanup = ExitStack()
        self._child: Child | None = None

    def __enter__(self) -> Self:
        self._cleanup.enter_context(self._postgres)
        self._cleanup.callback(self.stop)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def start(self) -> None:
        """Starts the server and waits until it is healthy.

        Raises:
            CommandError: it ended, or is not healthy in time.
        """
        state = self._folder / "server"
        arguments = ["--state-dir", str(state), "--sessions", str(self._sessions)]
        arguments += ["--database", self._postgres.conninfo()]
        for name, port in self._ports.items():
            arguments += [f"--{name}", f"127.0.0.1:{port}"]
        self._child = Child.of_scope("server", arguments, self._folder / "server.log", {})
        self._child.start(self._flag)
        end = time.monotonic() + _READY_S
        while not self._healthy():
            if self._child.pid is None or time.monotonic() > end:
                raise CommandError(f"the server does not start: {self._child.ending() if not self._child.pid else ''}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends the server."""
        if self._child:
            self._child.stop(self._flag)
            self._child = None

    def enrol(self, members: Iterable[Holder]) -> None:
        """Enters machines as having joined."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.executemany(_JOINED, [(one.key, one.identity.name, one.expires) for one in members])

    def client(self) -> Client:
        """Its API."""
        return Client(Access(self.url, socket=str(self.socket)))

    @property
    def conninfo(self) -> str:
        """Its database."""
        return self._postgres.conninfo()

    @property
    def resident_bytes(self) -> int:
        """Its resident memory."""
        status = (self._proc / "status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    @property
    def cpu_s(self) -> float:
        """CPU time that it has taken, in user and system mode."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND

    def transactions(self) -> int:
        """Transactions of its database so far. Each statement of an idle server is one, and so is each check of a
        pooled connection; those of the measurement itself count, too."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            row = connection.execute(_TRANSACTIONS).fetchone()
        assert row
        return int(row[0])

    @property
    def _proc(self) -> Path:
        assert self._child
        return Path(f"/proc/{self._child.pid}")

    def _healthy(self) -> bool:
        try:
            return self.client().get_server()["healthy"]
        except (ServerUnreachable, CommandError):
            return False


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
