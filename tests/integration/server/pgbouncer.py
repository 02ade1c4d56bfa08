"""A real pgbouncer that pools by transaction, at a Unix socket."""

import shutil
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from scope_server.store.postgres.cluster import spawn

CONNECTIONS = 2  # to the database, of all clients
_SETTINGS = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 200
listen_port = 6432
listen_addr =
unix_socket_dir = {directory}
auth_type = any
"""


class PgBouncer:
    """A pgbouncer before the PostgreSQL of a connection string; a context manager.

    Args:
        directory: whose path is short enough for a socket.
    """

    def __init__(self, conninfo: str, directory: Path) -> None:
        self._directory, self._given = directory, conninfo_to_dict(conninfo)
        self.conninfo = make_conninfo(conninfo, host=str(directory), port=6432)

    def __enter__(self) -> Self:
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
        assert program, "deploy/install-packages.sh test"
        file, log = self._directory / "pgbouncer.ini", self._directory / "pgbouncer.log"
        given = {name: self._given[name] for name in ("host", "port", "user")}
        file.write_text(_SETTINGS.format(**given, directory=self._directory, connections=CONNECTIONS))
        with log.open("wb") as output:  # as PostgreSQL is started, since it refuses to run as root, too
            self._process = spawn([program, file], "TERM", output, self._directory)
        end = time.monotonic() + 60
        while not (self._directory / ".s.PGSQL.6432").exists():
            assert self._process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()

    def clients(self) -> tuple[int, int]:
        """How many connections clients have to it, and it to the database of the connection string."""
        own = make_conninfo(self.conninfo, dbname="pgbouncer", user="pgbouncer")
        name = self._given["dbname"]
        with psycopg.connect(own, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
            found = [
                sum(row[2] == name for row in connection.execute(f"SHOW {what}".encode()))
                for what in ("CLIENTS", "SERVERS")
            ]
        return found[0], found[1]
