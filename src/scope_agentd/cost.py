"""What the tasks' BPF programs cost, from the kernel's statistics, which cost something themselves: short samples."""

import asyncio
import logging
import time

from scope_agentd.tasks import MeasuredCost, Tasks
from scope_bpf.errors import ScopeBpfError
from scope_bpf.statistics import KernelStatistics

log = logging.getLogger(__name__)

SAMPLE_S = 0.2
EVERY_S = 5.0


async def sample_costs(tasks: Tasks) -> None:
    """Measures the running tasks again and again, until cancelled."""
    while True:
        if tasks.running():
            try:
                await _sample(tasks)
            except ScopeBpfError as error:
                log.warning("no statistics of BPF programs", extra={"reason": str(error)})
        await asyncio.sleep(EVERY_S - SAMPLE_S)


async def _sample(tasks: Tasks) -> None:
    with KernelStatistics():
        began = time.monotonic()
        before = {task.task_id: task.programs_cost() for task in tasks.running()}
        await asyncio.sleep(SAMPLE_S)
        seconds = time.monotonic() - began
        after = {task.task_id: task.programs_cost() for task in tasks.running()}
    for task in tasks.running():
        if task.task_id in before and task.task_id in after:
            ns = after[task.task_id].run_time_ns - before[task.task_id].run_time_ns
            runs = after[task.task_id].run_count - before[task.task_id].run_count
            task.cost = MeasuredCost(ns / 1e9 / seconds, ns / runs if runs else 0.0, runs / seconds)
