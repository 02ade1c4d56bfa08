"""Callers that cancel StartTask before its answer: no task may run that no caller knows about."""

import asyncio
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.integration.agentd.conftest import Agent
from tests.integration.agentd.driving import request, start, stop, tasks_of
from tests.left_behind import left_behind, unheld

from scope_bpf.capture.tracer import Tracer
from scope_proto.scope.v1 import control_pb2, task_pb2

StartAgent = Callable[..., Any]
ATTEMPTS = 16
OVER = (task_pb2.TASK_STATE_STOPPED, task_pb2.TASK_STATE_FAILED)


class Gate(threading.Event):
    """Probes start only after it is set; `reached` is set when one waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Where the starts of probes wait."""
    opened, start = Gate(), Tracer.start

    def wait_and_start(tracer: Tracer) -> None:
        opened.reached.set()
        opened.wait()
        start(tracer)

    monkeypatch.setattr(Tracer, "start", wait_and_start)
    yield opened
    opened.set()


@pytest.fixture
def named() -> control_pb2.StartTaskRequest:
    """A request with a task id."""
    return request("process", task_id=str(uuid.uuid4()))


def _call(agent: Agent, wanted: control_pb2.StartTaskRequest, timeout_s: float | None = None) -> Any:
    return agent.control.StartTask(wanted, timeout=timeout_s)


async def _listed(agent: Agent, task_id: str, known: Callable[[control_pb2.Run], bool]) -> control_pb2.Run:
    """Waits until ListTasks shows a run for which `known` is true, and returns this run."""
    async with asyncio.timeout(60):
        while not ((tasks := await tasks_of(agent)).get(task_id) and known(tasks[task_id].run)):
            await asyncio.sleep(0.02)
    return tasks[task_id].run


async def _starting(agent: Agent, task_id: str) -> None:
    await _listed(agent, task_id, lambda run: run.state == task_pb2.TASK_STATE_STARTING)


async def _over(agent: Agent, task_id: str) -> None:
    await _listed(agent, task_id, lambda run: run.state in OVER)


async def _no_answer(call: Any) -> None:
    with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
        await call


@pytest.mark.parametrize("timeout_s", [None, 0.3], ids=["cancels", "has a deadline"])
async def test_a_start_is_undone(
    start_agent: StartAgent, gate: Gate, named: control_pb2.StartTaskRequest, timeout_s: float | None
) -> None:
    """If the caller cancels during a start, the task ends and never records, and nothing stays attached."""
    before = unheld()
    async with start_agent() as agent:
        call = _call(agent, named, timeout_s)
        await _starting(agent, named.task_id)
        if timeout_s is None:
            call.cancel()
        await _no_answer(call)
        await _listed(agent, named.task_id, lambda run: run.end == task_pb2.TASK_END_REQUEST)
        gate.set()
        await _over(agent, named.task_id)
        assert not (await tasks_of(agent))[named.task_id].run.run_id
        assert not await asyncio.to_thread(left_behind, before)


async def test_a_task_can_be_stopped_while_it_starts(
    start_agent: StartAgent, gate: Gate, named: control_pb2.StartTaskRequest
) -> None:
    """StopTask during a start returns when the start has ended. StartTask then returns the stopped task, too."""
    async with start_agent() as agent:
        call = _call(agent, named)
        await _starting(agent, named.task_id)
        stopping = asyncio.create_task(stop(agent, named.task_id))
        await _listed(agent, named.task_id, lambda run: run.end == task_pb2.TASK_END_REQUEST)
        gate.set()
        stopped = await asyncio.wait_for(stopping, 60)
        assert (stopped.run.state, stopped.run.end) == (task_pb2.TASK_STATE_STOPPED, task_pb2.TASK_END_REQUEST)
        assert (await asyncio.wait_for(call, 60)).run.state == task_pb2.TASK_STATE_STOPPED


async def test_an_agent_that_is_busy_sees_it_before_it_answers(
    start_agent: StartAgent, gate: Gate, named: control_pb2.StartTaskRequest, tmp_path: Path
) -> None:
    """A cancelled start ends the task even if the agent was too busy to see the cancel before the start succeeded."""
    async with start_agent() as agent:
        call = _call(agent, named)
        await asyncio.to_thread(gate.reached.wait, 60)
        call.cancel()
        gate.set()
        _stand_still_until_recording(tmp_path)
        await _no_answer(call)
        await _over(agent, named.task_id)


def _stand_still_until_recording(state: Path) -> None:
    """Blocks the agent's event loop until a run records."""
    end = time.monotonic() + 60
    while not list((state / "runs").glob("*.recorded")):
        assert time.monotonic() < end
        time.sleep(0.01)


async def test_a_task_lives_while_one_of_its_callers_waits(
    start_agent: StartAgent, gate: Gate, named: control_pb2.StartTaskRequest
) -> None:
    """If two callers start the same task and one cancels, the task still starts and the other gets its answer."""
    async with start_agent() as agent:
        first = _call(agent, named)
        await _starting(agent, named.task_id)
        second = asyncio.ensure_future(start(agent, named))
        await asyncio.sleep(0.3)
        first.cancel()
        await _no_answer(first)
        gate.set()
        assert (await second).run.state == task_pb2.TASK_STATE_RUNNING
        assert (await tasks_of(agent))[named.task_id].run.state == task_pb2.TASK_STATE_RUNNING


async def test_who_asks_again_gets_a_new_start(
    start_agent: StartAgent, gate: Gate, named: control_pb2.StartTaskRequest
) -> None:
    """A caller that cancels and starts the same task again gets a new start, not the one that is ending."""
    async with start_agent() as agent:
        call = _call(agent, named)
        await _starting(agent, named.task_id)
        call.cancel()
        await _listed(agent, named.task_id, lambda run: run.end == task_pb2.TASK_END_REQUEST)
        again = asyncio.ensure_future(start(agent, named))
        await asyncio.sleep(0.3)
        gate.set()
        assert (await again).run.state == task_pb2.TASK_STATE_RUNNING


async def test_a_start_that_nobody_was_told_of_ends_with_its_agent(
    start_agent: StartAgent, gate: Gate, named: control_pb2.StartTaskRequest
) -> None:
    """If the agent ends during a start, the call fails, and the restarted agent does not continue the task."""
    async with start_agent() as agent:
        call = _call(agent, named)
        await _starting(agent, named.task_id)
        threading.Timer(0.3, gate.set).start()
    await _no_answer(call)
    async with start_agent() as agent:
        assert not await tasks_of(agent)


async def test_a_task_that_was_there_before_stays(start_agent: StartAgent, named: control_pb2.StartTaskRequest) -> None:
    """Cancelling a start of a task that already runs changes nothing."""
    async with start_agent() as agent:
        there = await start(agent, named)
        for pause_s in (0.0, 0.001, 0.002, 0.005):
            call = _call(agent, named)
            await asyncio.sleep(pause_s)
            call.cancel()
        assert (await start(agent, named)).run.run_id == there.run.run_id
        assert (await tasks_of(agent))[named.task_id].run.state == task_pb2.TASK_STATE_RUNNING


async def test_callers_who_give_up_leave_nothing_behind(start_agent: StartAgent) -> None:
    """Whenever a caller cancels, its task ends, and no program stays attached.

    There is one exception: the agent has answered, and the caller cancels before the answer arrives. Then the task
    already records; it is listed and can be stopped. So if the task is not listed as recording right after the cancel,
    it must end by itself; if it is, it may continue.
    """
    chance = random.Random()
    before = unheld()
    async with start_agent() as agent:
        began = time.monotonic()
        await stop(agent, (await start(agent, request("process"))).task_id)
        longest_s = 1.2 * (time.monotonic() - began)
        for attempt in range(ATTEMPTS):
            wanted = request("process" if attempt % 2 else "sched", task_id=str(uuid.uuid4()))
            pause_s = chance.uniform(0.0, longest_s)
            call = _call(agent, wanted, pause_s if attempt % 4 < 2 else None)
            asyncio.get_running_loop().call_later(pause_s, call.cancel)
            try:
                answer = await call
            except (grpc.aio.AioRpcError, asyncio.CancelledError):
                now = (await tasks_of(agent)).get(wanted.task_id)
                if now and now.run.state != task_pb2.TASK_STATE_RUNNING:
                    await _over(agent, wanted.task_id)
            else:
                assert answer.run.state == task_pb2.TASK_STATE_RUNNING
            if wanted.task_id in await tasks_of(agent):
                await stop(agent, wanted.task_id)
        assert {task.run.state for task in (await tasks_of(agent)).values()} <= set(OVER)
        assert not await asyncio.to_thread(left_behind, before)
