"""Helpers for tests of the agent: definitions, workloads of a known count, waiting."""

import asyncio
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest
from google.protobuf import json_format
from tests.fleet import UNEXAMINED, make_member
from tests.integration.agentd.conftest import Agent
from tests.integration.agentd.stand_in_server import StandInServer
from tests.ports import free_port

from scope_bpf.capture.command import HeldCommand
from scope_proto.scope.v1 import control_pb2, task_pb2

SPIN = "import os\nfor _ in range({}): os.getppid()"


def definition(
    probe: str = "syscalls", pid: int | None = None, duration_s: float | None = None, where: str = "", **options: Any
) -> Any:
    message = task_pb2.Definition(probe=probe, target=task_pb2.Target(pid=pid), where=where)
    json_format.ParseDict(options, message.options)
    if duration_s is not None:
        message.duration.FromNanoseconds(int(1e9 * duration_s))
    return message


def request(probe: str = "syscalls", task_id: str = "", **given: Any) -> control_pb2.StartTaskRequest:
    return control_pb2.StartTaskRequest(task_id=task_id, definition=definition(probe, **given))


async def start(agent: Agent, wanted: control_pb2.StartTaskRequest) -> control_pb2.Task:
    task: control_pb2.Task = await agent.control.StartTask(wanted)
    return task


async def stop(agent: Agent, task_id: str) -> control_pb2.Task:
    task: control_pb2.Task = await agent.control.StopTask(control_pb2.StopTaskRequest(task_id=task_id))
    return task


async def tasks_of(agent: Agent) -> dict[str, control_pb2.Task]:
    listed = await agent.control.ListTasks(control_pb2.ListTasksRequest())
    return {task.task_id: task for task in listed.tasks}


async def agent_process(state: Path, server: StandInServer) -> tuple[subprocess.Popen[bytes], str]:
    """Starts an agent in a process of its own and waits for its hello; returns the process and its control address."""
    make_member(state, server.authority, f"127.0.0.1:{server.port}")
    control, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    words = ["--state-dir", str(state), "--control", control, *UNEXAMINED]
    process = subprocess.Popen([sys.executable, "-m", "scope_cli.main", "agentd", *words, "--metrics", metrics])
    hellos = len(server.hellos)
    await until(lambda: len(server.hellos) > hellos or process.poll() is not None)
    assert process.poll() is None
    return process, control


def held_calls(count: int) -> HeldCommand:
    """A command that calls getppid `count` times after its release."""
    return HeldCommand([sys.executable, "-S", "-c", SPIN.format(count)])


async def run_to_end(command: HeldCommand) -> None:
    command.release()
    while command.poll() is None:
        await asyncio.sleep(0.02)


class Caller:
    """A process that calls getppid as often as `call` asks, until the `with` block ends."""

    CALLS = "import os\nwhile line := input():\n for _ in range(int(line)): os.getppid()\n print(flush=True)"

    def __enter__(self) -> Self:
        command = [sys.executable, "-S", "-c", self.CALLS]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = self._process.pid
        return self

    def call(self, count: int) -> None:
        """Has the process make `count` calls; returns when they are made."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{count}\n")
        self._process.stdout.readline()

    def __exit__(self, *_: object) -> None:
        self._process.communicate("\n")


class Failure:
    """Makes a method fail once: the first call after `begin` waits, and raises at `end`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> None:
        self._begun, self._reached, self._ended = threading.Event(), threading.Event(), threading.Event()
        works = getattr(owner, method)

        def works_or_fails(*given: Any) -> Any:
            if self._begun.is_set():
                self._begun.clear()
                self._reached.set()
                self._ended.wait(60)
                raise RuntimeError("made up")
            return works(*given)

        monkeypatch.setattr(owner, method, works_or_fails)

    def begin(self) -> None:
        self._begun.set()

    async def end(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Waits for the call, runs `meanwhile`, then lets the call raise."""
        await until(self._reached.is_set)
        meanwhile()
        self._ended.set()


async def until(condition: Callable[[], Any], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def scraped(port: int) -> dict[str, float]:
    """The values at /metrics, by name and labels."""
    text = await asyncio.to_thread(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode())
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}
