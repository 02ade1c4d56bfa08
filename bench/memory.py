"""The cost of the stream `memory_process` on a machine with many processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.measure import Result, at_most
from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

PROCESSES = 1000
SECONDS = 20  # of which processes are read once each
# Processes that sleep or, once a second, take memory or give it back, without a page fault or a call that is recorded.
PROGRAM = """
import mmap, os, signal, sys, time
open("/proc/self/comm", "w").write("bench-memory")
changing = sys.argv[2] == "changing"
memory = mmap.mmap(-1, 1 << 19, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for number in range(int(sys.argv[1])):
    if not os.fork():
        while changing:
            time.sleep(1)
            memory.madvise(23)  # MADV_POPULATE_WRITE
            time.sleep(1)
            memory.madvise(mmap.MADV_DONTNEED)
        time.sleep(1000)
print(flush=True)
signal.pause()
"""


def run() -> list[Result]:
    """Share of one CPU that a trace takes, once it runs."""
    return [
        at_most(f"memory: {PROCESSES} processes that {name}, share of one CPU, %", 100 * _share(kind), most)
        for kind, name, most in (("sleeping", "sleep", 3), ("changing", "change all the time", 5))
    ]


def _share(kind: str) -> float:
    probe = probe_named("memory")
    options = parse_options(probe.options, {"stacks": False})
    with _processes(kind), Tracer(probe, options, Target(comm="bench-memory")) as tracer:
        tracer.start()
        _poll(tracer, 5)  # the first rows are those of all processes
        begin, spent = time.monotonic(), time.process_time()
        _poll(tracer, SECONDS)
        return (time.process_time() - spent) / (time.monotonic() - begin)


def _poll(tracer: Tracer, seconds: float) -> None:
    """Takes rows for some time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for batch in tracer.poll(200):
            to_arrow(batch)


@contextmanager
def _processes(kind: str) -> Iterator[None]:
    command = [sys.executable, "-S", "-E", "-c", PROGRAM, str(PROCESSES), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as program:
        assert program.stdout
        program.stdout.readline()
        try:
            yield
        finally:
            os.killpg(program.pid, signal.SIGKILL)
