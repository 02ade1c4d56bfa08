"""A complete SCOPE on this machine: `scope up` with its own directory and ports."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.clusters import place_cluster
from tests.fleet import UNEXAMINED
from tests.ports import free_port

from scope_cli.access import Access
from scope_cli.client import Client
from scope_cli.errors import CommandError
from scope_cli.installation import ADDRESSES, postgres_dir

SCOPE = [sys.executable, "-m", "scope_cli.main"]


@dataclass
class Up:
    """A running `scope up`."""

    state: Path
    http: str
    control: str
    metrics: str
    process: subprocess.Popen[str]

    @property
    def client(self) -> Client:
        """A client of the API."""
        return Client(Access(f"http://{self.http}", socket=str(self.state / "api.sock")))

    @property
    def environment(self) -> dict[str, str]:
        """Environment with which the command line uses this `scope up`."""
        return {**os.environ, "SCOPE_STATE": str(self.state), "COLUMNS": "200"}

    def scope(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a subcommand in this environment."""
        return subprocess.run([*SCOPE, *arguments], capture_output=True, text=True, env=self.environment, timeout=240)

    def stop(self) -> int:
        """Sends Ctrl-C; returns the exit status."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=240)
        return self.process.returncode


def free_addresses(count: int) -> list[str]:
    """Loopback addresses on which no process listens."""
    return [f"127.0.0.1:{free_port()}" for _ in range(count)]


def run_up(state: Path, **environment: str) -> Up:
    """Starts `scope up` with additional environment variables, and waits until its tasks run.

    Its database is a copy of a prepared one, unless the folder has one already.
    """
    if not postgres_dir(state).exists():
        state.mkdir(mode=0o700, exist_ok=True)
        place_cluster(postgres_dir(state))
    addresses = dict(zip(ADDRESSES, free_addresses(len(ADDRESSES)), strict=True))
    words = [word for name, address in addresses.items() for word in (f"--{name}", address)]
    command = [*SCOPE, "up", "--state-dir", str(state), *words, *UNEXAMINED]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    own = {
        "XDG_RUNTIME_DIR": str(state.parent),  # hides it from the commands of other tests
        "SCOPE_SERVER_STATEMENT_TIMEOUT_S": "120",  # beside other tests, on a machine of any speed
    }
    process = subprocess.Popen(command, text=True, env=os.environ | own | environment, **pipes)
    up = Up(state, addresses["http"], addresses["control"], addresses["metrics"], process)
    end = time.monotonic() + 180
    while time.monotonic() < end and process.poll() is None:
        try:
            tasks = up.client.get("tasks", state="active")["tasks"]
            if {"process", "syscalls"} <= {task["probe"] for task in tasks if task["state"] == "running"}:
                return up
        except CommandError:
            pass
        time.sleep(0.2)
    process.kill()
    raise AssertionError(f"scope up did not come up: {process.communicate()[0]}")


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Waits until the condition is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.2)


_shared: list[Up] = []  # the one that runs, if one does


@pytest.fixture(scope="module")
def up() -> Up:
    """One `scope up` for files, one after the other, whose tests only use it: it records the whole machine.

    Its folder has a short path, because sockets need one.
    """
    if not _shared:
        _shared.append(run_up(Path(tempfile.mkdtemp(prefix="scope")) / "state"))
    return _shared[0]


def pytest_sessionfinish() -> None:
    """Ends it after the last test."""
    _end_shared()


def _end_shared() -> None:
    if _shared:
        running = _shared.pop()
        running.stop()
        shutil.rmtree(running.state.parent)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Function, nextitem: pytest.Function | None) -> None:
    """In a worker, which gets the files that use it one after the other, ends it after the last one."""
    if _shared and nextitem and hasattr(item.config, "workerinput"):
        tests = (
            each for each in item.session.items if each.path == nextitem.path and isinstance(each, pytest.Function)
        )
        if not any("up" in each.fixturenames for each in tests):
            _end_shared()
