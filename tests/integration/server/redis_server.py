"""A real Redis for tests, which they stop, kill, pause and flush."""

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import redis
from tests.integration.server.program import Program

from scope_server.redis.address import Address, address


class RedisServer(Program):
    """A redis-server at a Unix socket in a directory, which is made; its data are only in memory.

    Args:
        lines: more of its configuration.
        url: where servers find it; without one, at the Unix socket.
        flags: more words of its command.
        password: without it, it answers nobody; None: it needs none.

    Attributes:
        socket: its Unix socket.
    """

    def __init__(
        self,
        directory: Path,
        lines: Sequence[str] = (),
        url: str = "",
        flags: Sequence[str] = (),
        password: str | None = None,
    ) -> None:
        directory.mkdir(exist_ok=True)
        self._password = password
        self._configuration, self._flags = directory / "redis.conf", flags
        self._snapshot = directory / "dump.rdb"
        self.socket, self._log = directory / "redis.sock", directory / "redis.log"
        own = ["port 0", f"unixsocket {self.socket}", 'save ""', f"logfile {self._log}", f"dir {directory}"]
        own += [f"requirepass {password}"] if password else []
        self._configuration.write_text("\n".join([*own, *lines]))
        self.url = url or f"unix://{self.socket}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.kill()

    @property
    def at(self) -> Address:
        """The setting of a server, read."""
        return address(self.url)

    @property
    def client(self) -> "redis.Redis":
        """A client of the test's own."""
        path = str(self.socket)
        return redis.Redis(unix_socket_path=path, password=self._password, decode_responses=True, socket_timeout=5)

    def start(self, older: bool = False) -> None:
        """Starts it, without data, or with those of the last `save`; waits until it answers."""
        if not older:
            self._snapshot.unlink(missing_ok=True)
        program = shutil.which("redis-server")
        assert program, "deploy/install-packages.sh test"
        command = [program, str(self._configuration), *self._flags]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while True:
            try:
                with self.client as client:
                    client.ping()
                return
            except redis.ConnectionError:
                assert time.monotonic() < end, self._log.read_text()
                time.sleep(0.02)

    def save(self) -> None:
        """Writes its data to a file, for a later `start`."""
        with self.client as client:
            client.save()

    def flush(self) -> None:
        """Takes its data away."""
        with self.client as client:
            client.flushall()
