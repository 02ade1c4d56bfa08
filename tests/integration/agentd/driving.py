"""What tests of the agent do again and again: definitions, workloads of a known count, waiting."""

import asyncio
import errno
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, Self

import pytest
from google.protobuf import json_format
from tests.integration.agentd.conftest import Agent, call_metadata

from scope_bpf.columns import RawBatch
from scope_bpf.command import HeldCommand
from scope_bpf.errors import KernelError
from scope_bpf.tracer import Tracer
from scope_proto.scope.v1 import control_pb2, task_pb2

SPIN = "import os\nfor _ in range({}): os.getppid()"


def definition(probe: str = "syscalls", pid: int = 0, duration_s: float | None = None, **options: Any) -> Any:
    message = task_pb2.Definition(probe=probe, target=task_pb2.Target(pid=pid))
    json_format.ParseDict(options, message.options)
    if duration_s is not None:
        message.duration.FromNanoseconds(int(1e9 * duration_s))
    return message


def request(probe: str = "syscalls", task_id: str = "", **given: Any) -> control_pb2.StartTaskRequest:
    return control_pb2.StartTaskRequest(task_id=task_id, definition=definition(probe, **given))


async def start(agent: Agent, wanted: control_pb2.StartTaskRequest) -> control_pb2.Task:
    task: control_pb2.Task = await agent.control.StartTask(wanted, metadata=call_metadata())
    return task


async def stop(agent: Agent, task_id: str) -> control_pb2.Task:
    task: control_pb2.Task = await agent.control.StopTask(
        control_pb2.StopTaskRequest(task_id=task_id), metadata=call_metadata()
    )
    return task


async def tasks_of(agent: Agent) -> dict[str, control_pb2.Task]:
    listed = await agent.control.ListTasks(control_pb2.ListTasksRequest(), metadata=call_metadata())
    return {task.task_id: task for task in listed.tasks}


def held_calls(count: int) -> HeldCommand:
    """A command that calls getppid so many times, once it is released."""
    return HeldCommand([sys.executable, "-S", "-c", SPIN.format(count)])


async def run_to_end(command: HeldCommand) -> None:
    command.release()
    while command.poll() is None:
        await asyncio.sleep(0.02)


class Caller:
    """A process that calls getppid as often as it is told, and goes on until its `with` block ends."""

    CALLS = "import os, sys\nfor line in sys.stdin:\n for _ in range(int(line)): os.getppid()"

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", self.CALLS], stdin=subprocess.PIPE, text=True, bufsize=1
        )
        self.pid = self._process.pid
        return self

    def call(self, count: int) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{count}\n")

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def recordings_that_fail(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Each time that it is set, the next look at a tracer fails."""
    fails, poll = threading.Event(), Tracer.poll

    def poll_or_fail(tracer: Tracer, timeout_ms: int) -> list[RawBatch]:
        if fails.is_set():
            fails.clear()
            raise KernelError("made up", errno.EIO)
        return poll(tracer, timeout_ms)

    monkeypatch.setattr(Tracer, "poll", poll_or_fail)
    return fails


async def until(condition: Callable[[], Any], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def programs_and_maps() -> set[tuple[str, int]]:
    """Every BPF program and map that there is now."""
    listed = {kind: subprocess.check_output(["bpftool", "-j", kind], text=True) for kind in ("prog", "map")}
    return {(kind, item["id"]) for kind, text in listed.items() for item in json.loads(text)}
