"""A real Redis for tests, which they stop, kill, pause and flush."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from scope_server.redis.address import Address, address


class RedisServer:
    """A redis-server at a Unix socket in a directory; its data are only in memory."""

    def __init__(self, directory: Path) -> None:
        self._socket, self._log = directory / "redis.sock", directory / "redis.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """As a server's setting has it."""
        return f"unix://{self._socket}"

    @property
    def at(self) -> Address:
        """The same, read."""
        return address(self.url)

    @property
    def client(self) -> "redis.Redis":
        """A client of the test's own."""
        return redis.Redis(unix_socket_path=str(self._socket), decode_responses=True)

    def start(self) -> None:
        """Starts it, without data, and waits until it answers."""
        program = shutil.which("redis-server")
        assert program, "deploy/install-packages.sh test"
        options = ["--port", "0", "--unixsocket", str(self._socket), "--save", "", "--logfile", str(self._log)]
        self._process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while True:
            try:
                with self.client as client:
                    client.ping()
                return
            except redis.ConnectionError:
                assert time.monotonic() < end, self._log.read_text()
                time.sleep(0.02)

    def kill(self) -> None:
        """Kills it; its data are gone."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stops it: it takes connections, and answers nothing."""
        assert self._process
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        assert self._process
        os.kill(self._process.pid, signal.SIGCONT)

    def flush(self) -> None:
        """Takes its data away."""
        with self.client as client:
            client.flushall()
