"""The server that is measured, in its own process, with its own PostgreSQL; or one that receives, and writers."""

import random
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import redis

from scope_cli.access import Access
from scope_cli.client import Client
from scope_cli.errors import CommandError, ServerUnreachable
from scope_cli.flag import Flag
from scope_cli.stack.child import Child
from scope_server.identity.authority import Authority
from scope_server.store.postgres import PrivatePostgres
from scope_server.store.postgres.leftovers import processes_in
from scope_wire.endpoint import Endpoint
from scope_wire.identity import Holder

_READY_S = 60.0
_SERVICES = ("http", "ingest", "enrol")
_TICKS_A_SECOND = 100  # USER_HZ, see proc(5)
_JOINED = """
INSERT INTO store.members (key_digest, machine_id, hostname, expires, confirmed) VALUES (%s, %s, '', %s, true)"""
_TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"


class FleetServer:
    """A server for so many sessions; a context manager. It can be stopped and started again.

    Args:
        redis: the URL of a Redis; with it, the server only receives, and others write.
        writers: how many of these there are.

    Attributes:
        authority: signs the certificates of its agents.
        ingest: where its session service listens.
        url, socket: of its API.
    """

    def __init__(self, folder: Path, sessions: int, redis: str = "", writers: int = 2) -> None:
        self._folder, self._flag = folder, Flag()
        self._postgres = PrivatePostgres(folder / "postgres")
        self._ports = dict(zip(_SERVICES, _free_ports(), strict=False))
        self._sessions = sessions
        self._redis, self._writers = redis, writers if redis else 0
        self.authority = Authority(folder / "authority")
        self.ingest = Endpoint("127.0.0.1", self._ports["ingest"])
        self.url, self.socket = f"http://127.0.0.1:{self._ports['http']}", folder / "server" / "api.sock"
        self._cleanup = ExitStack()
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        with ExitStack() as cleanup:
            cleanup.enter_context(self._postgres)
            cleanup.callback(self.stop)
            self.start()
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def start(self) -> None:
        """Starts the server and waits until it is healthy.

        Raises:
            CommandError: it, or a writer, ended, or is not healthy in time.
        """
        self._start("server", self._ports, ["--role", "receive"] if self._redis else [])
        for number in range(1, self._writers + 1):
            self._start(f"writer{number}", dict.fromkeys(_SERVICES, 0), ["--role", "write"])

    def _start(self, name: str, ports: Mapping[str, int], own: Sequence[str]) -> None:
        state = self._folder / name
        arguments = ["--state-dir", str(state), "--authority", str(self._folder / "authority")]
        arguments += ["--sessions", str(self._sessions), "--database", self._postgres.conninfo(), *own]
        arguments += ["--redis", self._redis] if self._redis else []
        for service, port in ports.items():
            arguments += [f"--{service}", f"127.0.0.1:{port}"]
        child = Child.of_scope("server", arguments, self._folder / f"{name}.log", {})
        self._children.append(child)
        child.start(self._flag)
        client = Client(Access(self.url, socket=str(state / "api.sock")))
        end = time.monotonic() + _READY_S
        while not _healthy(client):
            if child.pid is None or time.monotonic() > end:
                why = f"it is not healthy after {_READY_S:g} s" if child.pid else child.ending()
                raise CommandError(f"the {name} does not start: {why}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends the server, and the writers."""
        while self._children:
            self._children.pop().stop(self._flag)

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
        status = Path(f"/proc/{self._children[0].pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    @property
    def cpu_s(self) -> float:
        """CPU time that it has taken, in user and system mode."""
        return _cpu_s(self._children[0].pid)

    def others_cpu_s(self) -> dict[str, float]:
        """The same of what works for it, by name; of Redis by its own account."""
        pids = processes_in(self._postgres.directory / "data")
        found = {"PostgreSQL": sum(map(_cpu_s, pids)) + _cpu_s(self._postgres.pid, of_ended=True)}
        if self._redis:
            found["the writers"] = sum(_cpu_s(writer.pid) for writer in self._children[1:])
            with redis.Redis.from_url(self._redis) as client:
                told: Any = client.info("cpu")
            found["Redis"] = told["used_cpu_user"] + told["used_cpu_sys"]
        return found

    def transactions(self) -> int:
        """Transactions of its database so far. Each statement of an idle server is one, and so is each check of a
        pooled connection; those of the measurement itself count, too."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            row = connection.execute(_TRANSACTIONS).fetchone()
        assert row
        return int(row[0])


def _healthy(client: Client) -> bool:
    try:
        return client.get_server()["healthy"]
    except (ServerUnreachable, CommandError):
        return False


def _cpu_s(pid: int | None, *, of_ended: bool = False) -> float:
    # `of_ended`: of its children that have ended, instead. A process that has just ended has none.
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        first = 13 if of_ended else 11
        return (int(fields[first]) + int(fields[first + 1])) / _TICKS_A_SECOND
    return 0.0


def _free_ports() -> Iterator[int]:
    """Loopback ports that nobody listens on, each another, below those that the kernel gives to connections: one of
    these could take it before the server has it, or while it is stopped."""
    end = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return filter(_is_free, random.sample(range(end // 2, end), k=end - end // 2))


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False
