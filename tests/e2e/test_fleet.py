"""A server and a machine, each in a network namespace of its own, with a bad link between: joining, recording while the
link is cut, a person who calls the agent, and the command line from the machine."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.places import MACHINE, SERVER, Place, answer, server_in, told, two_places
from tests.e2e.wire import Wire
from tests.grpcurl import grpcurl

from scope_wire.identity import AGENT_NAME
from scope_wire.limits import KEEPALIVE_TIMEOUT_MS, LISTENER_KEEPALIVE_MS

EMAIL, PASSWORD = "ada@example.org", "correct horse battery"
CALLS = 20_011


@dataclass(frozen=True)
class Fleet:
    """A server and the machine that has joined it."""

    server: Place
    machine: Place
    wire: Wire

    def connected(self) -> bool:
        """Whether the server has one machine, which is connected; asked from there."""
        nodes = json.loads(answer(self.machine.scope("nodes", "--json")) or "[]")
        return [node["connected"] for node in nodes] == [True]

    def tasks(self) -> Any:
        """As the server knows them, the newest first."""
        return json.loads(answer(self.machine.scope("tasks", "--all", "--json")) or "[]")

    def books(self) -> dict[str, Any]:
        """Of the system calls of the only task; empty: they are not known yet."""
        (task,) = self.tasks() or [{"streams": []}]
        return next((books for books in task["streams"] if books["stream"] == "syscall"), {})


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """The machine joins while packets are lost and wait, and the link is cut again and again. Then a person there has
    logged in."""
    with ExitStack() as cleanup:
        server, machine, wire = cleanup.enter_context(two_places(tmp_path))
        token = cleanup.enter_context(server_in(server))
        wire.worsen(tmp_path)
        with wire.cut_again_and_again():
            listens = ("--control", f"{MACHINE}:8472", "--metrics", "127.0.0.1:8473")
            machine.begin(cleanup, "agentd", "--join", f"{SERVER}:8474", *listens, SCOPE_JOIN_TOKEN=token)
            machine.eventually(lambda: '"connected": true' in server.admin("nodes", "--json"), "it is connected")
        server.admin("admin", "create-user", EMAIL, "--role", "admin", says=PASSWORD)
        fingerprint = server.admin("admin", "fingerprint")
        words = ("login", f"https://{SERVER}:8470", "--fingerprint", fingerprint, "--email", EMAIL)
        machine.eventually(lambda: answer(machine.scope(*words, says=PASSWORD)), "somebody has logged in")
        fleet = Fleet(server, machine, wire)
        machine.eventually(fleet.connected, "the machine can ask")
        yield fleet


def test_a_bad_link_loses_nothing(fleet: Fleet) -> None:
    """One machine results from the join. Every call is stored exactly once, though packets are lost, and the link is
    down for longer than either side waits."""
    server, machine, wire = fleet.server, fleet.machine, fleet.wire
    certificates = json.loads(server.admin("admin", "certificates", "--json"))
    assert [one["kind"] for one in certificates] == ["machine"]
    calls = f"import os, sys\nsys.stdin.read()\nfor _ in range({CALLS}): os.getppid()"
    with subprocess.Popen([sys.executable, "-c", calls], stdin=subprocess.PIPE) as workload:
        assert workload.stdin
        words = ("start", "local", "syscalls", "--pid", str(workload.pid), "-o", "names=getppid")
        told(machine.scope(*words))
        wire.cut()
        workload.stdin.close()
        workload.wait()
        time.sleep((LISTENER_KEEPALIVE_MS + KEEPALIVE_TIMEOUT_MS) / 1000 + 2)
        assert machine.scope("nodes").returncode == 1
        wire.heal()
    machine.eventually(fleet.connected, "it is connected again")
    machine.eventually(lambda: fleet.books().get("stored") == CALLS, "all is stored")
    books = fleet.books()
    assert (books["emitted"], books["under_way"], books["lost"]) == (CALLS, 0, [])
    assert all(wire.harm().values()), "the link was no bad one"


def test_a_person_calls_the_agent_from_elsewhere(fleet: Fleet, tmp_path: Path) -> None:
    """With a certificate of the server, grpcurl finds the agent's services over the network, and an operator starts a
    task; a viewer may only look. What is done while the link is cut reaches the server later, with who did it."""
    server, machine, wire = fleet.server, fleet.machine, fleet.wire
    ada, eve = tmp_path / "ada.pem", tmp_path / "eve.pem"
    for file, role in ((ada, "operator"), (eve, "viewer")):
        assert server.admin("admin", "client-cert", file.stem, str(file), "--role", role)
    assert {"grpc.health.v1.Health", "scope.v1.AgentControl"} <= {*told(_grpcurl(server, eve, "list")).split()}
    described = told(_grpcurl(server, eve, "describe", "scope.v1.AgentControl"))
    assert "rpc StartTask ( .scope.v1.StartTaskRequest ) returns ( .scope.v1.Task );" in described
    assert json.loads(told(_grpcurl(server, eve, "grpc.health.v1.Health/Check"))) == {"status": "SERVING"}
    start = {"definition": {"probe": "process"}}
    refused = _grpcurl(server, eve, "scope.v1.AgentControl/StartTask", **start)
    assert (refused.returncode, "Code: PermissionDenied" in refused.stderr) == (64 + 7, True), refused.stderr
    first = json.loads(told(_grpcurl(server, ada, "scope.v1.AgentControl/StartTask", **start)))["task_id"]
    machine.eventually(lambda: [one["task_id"] for one in fleet.tasks()] == [first], "the server knows the task")
    wire.cut()
    second = json.loads(told(_grpcurl(machine, ada, "scope.v1.AgentControl/StartTask", **start)))["task_id"]
    told(_grpcurl(machine, ada, "scope.v1.AgentControl/StopTask", task_id=second))
    wire.heal()
    machine.eventually(lambda: len(fleet.tasks()) == 2, "the server knows what was done meanwhile")
    machine.eventually(lambda: {one["state"] for one in fleet.tasks()} == {"running", "stopped"}, "and that it ended")
    found = {one["task_id"]: (one["origin"], one["started_by"], one["stopped_by"]) for one in fleet.tasks()}
    assert found == {first: ("agent", "ada", None), second: ("agent", "ada", "ada")}


def _grpcurl(place: Place, file: Path, *words: str, **message: Any) -> subprocess.CompletedProcess[str]:
    """Asks the agent from a place, with the credentials in a file."""
    shown = ("-cacert", file, "-cert", file, "-key", file, "-servername", AGENT_NAME)
    data = ("-d", json.dumps(message)) if message else ()
    command = place.command(str(grpcurl()), *map(str, shown), *data, "-max-time", "60", f"{MACHINE}:8472", *words)
    return subprocess.run(command, capture_output=True, text=True)
