"""Events that the BPF programs could not record are counted as lost at the server, by reason; on the real kernel."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.agentd.driving import request, start, stop, until
from tests.integration.agentd.stand_in_server import Run, StandInServer
from tests.probes.cuda_programs import WORKLOADS, StandIn

from scope_bpf.binding.object import BpfObject

StartAgent = Callable[..., Any]


async def recorded(start_agent: StartAgent, server: StandInServer, probe: str, load: "subprocess.Popen[bytes]") -> Run:
    """Records the process `load`, which runs when its input ends; returns the run when its books are closed."""
    async with start_agent() as agent:
        task = await start(agent, request(probe, pid=load.pid))
        await asyncio.to_thread(load.communicate)
        await stop(agent, task.task_id)
        await until(lambda: server.runs and server.of(task.task_id).closed)
    assert load.returncode == 0
    run = server.of(task.task_id)
    assert all(stream.balance == 0 for stream in run.streams.values())
    return run


def lost(run: Run) -> dict[str, dict[str, int]]:
    """Number of lost events, by stream, then by place and reason."""
    return {name: stream.lost for name, stream in run.streams.items() if stream.lost}


async def test_children_that_cannot_be_marked_are_booked(
    start_agent: StartAgent, server: StandInServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the map of pids has room only for the target and the agent, each child not followed is counted as lost."""
    works = BpfObject.load

    def load_with_little_room(loaded: BpfObject) -> None:
        loaded.map("scope_pids").resize(2)
        works(loaded)

    monkeypatch.setattr(BpfObject, "load", load_with_little_room)
    monkeypatch.setattr("scope_agentd.app.families", lambda _: {os.getpid()})
    script = "import os\nos.read(0, 1)\nfor _ in range(13):\n if not os.fork(): os._exit(0)\n os.wait()"
    load = subprocess.Popen([sys.executable, "-S", "-c", script], stdin=subprocess.PIPE)
    run = await recorded(start_agent, server, "process", load)
    assert list(lost(run).values()) == [{"ring/follow": 13}]


async def test_calls_without_a_place_to_be_remembered_are_booked(
    start_agent: StartAgent, server: StandInServer, tmp_path: Path
) -> None:
    """Of seven nested calls, the four outer ones are stored and the three inner ones are counted as lost."""
    StandIn(tmp_path)
    hold = tmp_path / "hold.c"
    hold.write_text(
        '#include "unistd.h"\n__attribute__((constructor)) static void hold(void) { read(0, &(char){0}, 1); }\n'
    )
    sources = [hold, WORKLOADS / "cuda_deep.c", tmp_path / "libcudart.so.13", tmp_path / "libcuda.so.1"]
    flags = ["-O1", "-w", "-Wl,--no-as-needed", f"-Wl,-rpath={tmp_path}"]
    subprocess.run(["gcc", *flags, "-o", tmp_path / "deep", *sources], check=True)
    load = subprocess.Popen([tmp_path / "deep", "1009"], stdin=subprocess.PIPE)
    await until(lambda: "libcuda.so.1" in Path(f"/proc/{load.pid}/maps").read_text())
    run = await recorded(start_agent, server, "cuda", load)
    assert lost(run) == {"cuda_call": {"ring/too_deep": 3 * 1009}}
    assert run.stream("cuda_call").stored == 4 * 1009
