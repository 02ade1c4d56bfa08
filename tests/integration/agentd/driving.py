"""What tests of the agent do again and again: definitions, workloads of a known count, waiting."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format
from tests.integration.agentd.conftest import Agent, call_metadata

from scope_bpf.command import HeldCommand
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


async def until(condition: Callable[[], Any], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def programs_and_maps() -> set[tuple[str, int]]:
    """Every BPF program and map that there is now."""
    listed = {kind: subprocess.check_output(["bpftool", "-j", kind], text=True) for kind in ("prog", "map")}
    return {(kind, item["id"]) for kind, text in listed.items() for item in json.loads(text)}
