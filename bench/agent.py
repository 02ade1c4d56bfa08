"""The cost of the agent's work from ring buffer to compressed batch, in this process."""

import os
import resource
import time
from pathlib import Path

from bench.measure import TRACER_CPU, Result, at_most, loop
from scope_agentd.pipeline.batch import Batcher
from scope_agentd.pipeline.books import Books
from scope_agentd.pipeline.describe import Describer
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.memberships import Memberships
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.containers.containers import Containers
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options
from scope_views.choice import Choice

CALLS = 5_000_000


def run() -> list[Result]:
    """CPU time per event, memory, and lost events."""
    probe = probe_named("syscalls")
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {TRACER_CPU})
    command = HeldCommand(loop(CALLS))
    batcher = Batcher(bytes(16), bytes(16), Books(["syscall"]), Describer(Memberships(Containers())), Choice("", []))
    with Tracer(probe, parse_options(probe.options, {"names": "getppid"}), Target(pid=command.pid)) as tracer:
        tracer.start()
        began, events, size = time.process_time_ns(), 0, 0
        command.release()
        while command.poll() is None:
            for raw in tracer.poll(250):
                for record in batcher.build(raw):
                    events += record.batch.event_count
                    size += record.ByteSize()
        draining = _drain_ns()
        for raw in tracer.finish():
            events += sum(record.batch.event_count for record in batcher.build(raw))
        spent = time.process_time_ns() - began
        lost = sum(tracer.accounts()["syscall"].lost.values())
    os.sched_setaffinity(0, everywhere)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        at_most("agent: CPU from ring to compressed batch, ns per event", spent / events, 400),
        at_most("... compared with only the C thread that copies records from the ring", spent / draining, 2, "×"),
        Result("agent: bytes per event on the wire", f"{size / events:.1f}"),
        Result("agent: events lost at full load", f"{lost:,} of {events + lost:,}"),
        at_most("agent: peak resident memory at full load, MB", memory, 200),
    ]


def _drain_ns() -> int:
    """CPU time of the thread that only reads the rings."""
    for thread in Path("/proc/self/task").iterdir():
        if (thread / "comm").read_text() == "scope-drain\n":
            return int((thread / "schedstat").read_text().split()[0])
    raise RuntimeError("no thread reads the rings")
