"""A server and a machine, each in a network namespace of its own: joining, recording over a link that breaks, a person
who calls the agent, and the command line from the machine."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.fleet import to_agent

from scope_proto.scope.v1 import control_pb2, task_pb2
from scope_proto.scope.v1.control_pb2_grpc import AgentControlStub
from scope_server.store.postgres import PrivatePostgres
from scope_wire.keys import Credentials
from scope_wire.limits import KEEPALIVE_TIMEOUT_MS, LISTENER_KEEPALIVE_MS

SERVER, MACHINE = "10.77.0.1", "10.77.0.2"
PATIENCE_S = 120.0
EMAIL, PASSWORD = "ada@example.org", "correct horse battery"
CALLS = 20_011
SCOPE = (sys.executable, "-m", "scope_cli.main")


@dataclass(frozen=True)
class Place:
    """A network namespace, and the files of who lives there."""

    name: str
    state: Path

    def command(self, *words: str) -> list[str]:
        """A command in the namespace; it has this host's other namespaces, as BPF and tracing need them."""
        return ["nsenter", f"--net=/run/netns/{self.name}", *words]

    def scope(self, *words: str, says: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a `scope` command to its end, with this as its input."""
        return subprocess.run(
            self.command(*SCOPE, *words),
            env=self.environment | environment,
            input=says,
            capture_output=True,
            text=True,
        )

    @property
    def environment(self) -> dict[str, str]:
        """Of somebody whose home is here."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SCOPE_")}
        return {**kept, "HOME": str(self.state), "XDG_CONFIG_HOME": str(self.state / "config")}

    def begin(self, cleanup: ExitStack, *words: str, **environment: str) -> None:
        """Runs a daemon until `cleanup`; its output goes to a log."""
        with (self.state / "log").open("ab") as log:
            daemon = subprocess.Popen(
                self.command(*SCOPE, *words, "--state-dir", str(self.state)),
                env=self.environment | environment,
                stdout=log,
                stderr=log,
            )
        cleanup.callback(daemon.wait)
        cleanup.callback(daemon.terminate)

    def eventually(self, ask: Callable[[], Any], what: str) -> Any:
        """The first true answer."""
        end = time.monotonic() + PATIENCE_S
        while not (found := ask()):
            assert time.monotonic() < end, f"waited in vain until {what}: {(self.state / 'log').read_text()[-3000:]}"
            time.sleep(0.2)
        return found


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def places(tmp_path: Path) -> Iterator[tuple[Place, Place]]:
    """The server's and the machine's, with a link between them."""
    with ExitStack() as cleanup:
        made = []
        for number in range(2):
            place = Place(f"scope-{os.getpid()}-{number}", tmp_path / str(number))
            place.state.mkdir()
            _ip("netns", "add", place.name)
            cleanup.callback(_ip, "netns", "delete", place.name)
            made.append(place)
            if number:
                end = ("link", "add", "wire", "netns", made[0].name, "type", "veth", "peer", "wire", "netns")
                _ip(*end, place.name)
        for place, address in zip(made, (SERVER, MACHINE), strict=True):
            _ip("-n", place.name, "address", "add", f"{address}/24", "dev", "wire")
            for device in ("lo", "wire"):
                _ip("-n", place.name, "link", "set", device, "up")
        yield made[0], made[1]


@pytest.fixture
def fleet(places: tuple[Place, Place]) -> Iterator[tuple[Place, Place]]:
    """The server runs, and the machine has joined it; a person on the machine has logged in."""
    server, machine = places
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="scope", dir="/dev/shm")))
        database = cleanup.enter_context(PrivatePostgres(folder / "pg", {"fsync": "off"}))
        cleanup.callback(database.stop, immediate=True)
        given = [f"--{name}={SERVER}:{port}" for name, port in (("http", 8470), ("ingest", 8471), ("enrol", 8474))]
        server.begin(cleanup, "server", "--database", database.conninfo(), *given)
        asked = server.eventually(lambda: _answer(server.scope("admin", "join-token", **_of(server))), "it has a token")
        words: tuple[str, ...] = (
            "agentd",
            "--join",
            f"{SERVER}:8474",
            "--control",
            f"{MACHINE}:8472",
            "--metrics",
            "127.0.0.1:8473",
        )
        machine.begin(cleanup, *words, SCOPE_JOIN_TOKEN=asked)
        fingerprint = _answer(server.scope("admin", "fingerprint", **_of(server)))
        _answer(server.scope("admin", "create-user", EMAIL, "--role", "admin", says=PASSWORD, **_of(server)))
        words = ("login", f"https://{SERVER}:8470", "--fingerprint", fingerprint, "--email", EMAIL)
        _answer(machine.scope(*words, says=PASSWORD))
        machine.eventually(lambda: _connected(machine), "it is connected")
        yield server, machine


def _of(place: Place) -> dict[str, str]:
    """Names the installation in this place, for commands there."""
    return {"SCOPE_STATE": str(place.state)}


def _answer(ran: subprocess.CompletedProcess[str]) -> str:
    return "" if ran.returncode else ran.stdout.strip()


def _connected(machine: Place) -> bool:
    nodes = json.loads(_answer(machine.scope("nodes", "--json")) or "[]")
    return [node["connected"] for node in nodes] == [True]


def _books(machine: Place) -> dict[str, Any]:
    """Of the events of the only task; empty: they are not known yet."""
    return next((books for books in _task(machine)["streams"] if books["stream"] == "syscall"), {})


def _task(machine: Place) -> Any:
    (task,) = json.loads(machine.scope("tasks", "--json").stdout)
    return task


def test_a_broken_link_loses_nothing(fleet: tuple[Place, Place]) -> None:
    """Every call is stored exactly once, though the link is down for longer than either side waits."""
    _, machine = fleet
    calls = f"import os, sys\nsys.stdin.read()\nfor _ in range({CALLS}): os.getppid()"
    with subprocess.Popen([sys.executable, "-c", calls], stdin=subprocess.PIPE) as workload:
        assert workload.stdin
        words = ("start", "local", "syscalls", "--pid", str(workload.pid), "-o", "names=getppid")
        ran = machine.scope(*words)
        assert ran.returncode == 0, ran.stderr
        _ip("-n", machine.name, "link", "set", "wire", "down")
        workload.stdin.close()
        workload.wait()
        time.sleep((LISTENER_KEEPALIVE_MS + KEEPALIVE_TIMEOUT_MS) / 1000 + 2)
        assert machine.scope("nodes").returncode == 1
        _ip("-n", machine.name, "link", "set", "wire", "up")
    machine.eventually(lambda: _connected(machine), "it is connected again")
    machine.eventually(lambda: _books(machine).get("stored") == CALLS, "all is stored")
    books = _books(machine)
    assert (books["emitted"], books["under_way"], books["lost"]) == (CALLS, 0, [])


def test_a_person_calls_the_agent_from_elsewhere(fleet: tuple[Place, Place], tmp_path: Path) -> None:
    """With a certificate of the server, a person starts a task at the agent, over the network; the server learns who
    it was. A viewer may not."""
    server, machine = fleet
    for name, role, code in (("ada", "operator", 0), ("eve", "viewer", 7)):  # 7: PERMISSION_DENIED
        file = tmp_path / f"{name}.pem"
        made = server.scope("admin", "client-cert", name, str(file), "--role", role, **_of(server))
        assert made.returncode == 0, made.stderr
        ran = subprocess.run(server.command(sys.executable, "-m", "tests.e2e.test_fleet", str(file)))
        assert ran.returncode == code
    machine.eventually(lambda: json.loads(machine.scope("tasks", "--json").stdout), "the server knows the task")
    task = _task(machine)
    assert (task["origin"], task["probe"], task["started_by"]) == ("agent", "process", "ada")


async def _start(file: Path) -> int:
    """Starts a task at the agent, with the credentials in a file; returns the status of the call."""
    import grpc  # in a process of its own, which enters the server's namespace

    async with to_agent(f"{MACHINE}:8472", Credentials.read(file)) as channel:
        stub: Any = AgentControlStub(channel)
        definition = task_pb2.Definition(probe="process")
        try:
            await stub.StartTask(control_pb2.StartTaskRequest(definition=definition), timeout=PATIENCE_S)
        except grpc.aio.AioRpcError as error:
            return int(error.code().value[0])
    return 0


if __name__ == "__main__":
    import asyncio

    sys.exit(asyncio.run(_start(Path(sys.argv[1]))))
