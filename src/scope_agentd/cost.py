"""CPU cost of the runs' BPF programs, from the kernel's statistics. Statistics cost CPU too, so samples are short."""

import asyncio
import logging
import time

from scope_agentd.tasks import Tasks
from scope_bpf.binding.statistics import KernelStatistics
from scope_bpf.errors import ScopeBpfError
from scope_proto.scope.v1 import control_pb2

log = logging.getLogger(__name__)

SAMPLE_S = 0.2
EVERY_S = 5.0


async def sample_costs(tasks: Tasks) -> None:
    """Measures all recording runs repeatedly, until cancelled."""
    while True:
        if tasks.recording():
            try:
                await _sample(tasks)
            except ScopeBpfError as error:
                log.warning("statistics of BPF programs are not available", extra={"reason": str(error)})
        await asyncio.sleep(EVERY_S - SAMPLE_S)


async def _sample(tasks: Tasks) -> None:
    runs = [task.run for task in tasks.recording() if task.run]
    with KernelStatistics():
        began = time.monotonic()
        before = [run.cost() for run in runs]
        await asyncio.sleep(SAMPLE_S)
        seconds = time.monotonic() - began
        after = [run.cost() for run in runs]
    for run, first, last in zip(runs, before, after, strict=True):
        ns, times = last.run_time_ns - first.run_time_ns, last.run_count - first.run_count
        if times >= 0:  # the run has not ended meanwhile
            run.progress.cost = control_pb2.Cost(
                cpu_share=ns / 1e9 / seconds, ns_per_run=ns / times if times else 0.0, runs_per_second=times / seconds
            )
