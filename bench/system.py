"""The cost of the probe `system` on a machine with many processes and cgroups."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measure import Result, at_most
from scope_bpf.capture.samples import Samples
from scope_bpf.host import cgroup_root
from scope_bpf.probes import probe_named

PROCESSES, CGROUPS = 1000, 100
SECONDS = 30  # of which processes and cgroups are read six times
# One process of each cgroup does something between two readings; the others sleep.
PROGRAM = """
import os, signal, sys, time
processes, *folders = sys.argv[1:]
for number in range(int(processes)):
    if not os.fork():
        with open(folders[number % len(folders)] + "/cgroup.procs", "w") as procs:
            procs.write(str(os.getpid()))
        while True:
            time.sleep(3 if number < len(folders) else 1000)
print(flush=True)
signal.pause()
"""


def run() -> list[Result]:
    """Share of one CPU that sampling takes."""
    with _busy_machine():
        samples = Samples(probe_named("system"), {"interval_ms": 1000})
        samples.rest()
        begin, spent = time.monotonic(), time.thread_time()
        while time.monotonic() - begin < SECONDS:
            time.sleep(max(0.0, samples.due_s()))
            samples.poll()
        share = (time.thread_time() - spent) / (time.monotonic() - begin)
        samples.close()
    return [at_most(f"system: {PROCESSES} processes and {CGROUPS} cgroups, share of one CPU, %", share * 100, 1)]


@contextmanager
def _busy_machine() -> Iterator[None]:
    root = cgroup_root()
    assert root, "no cgroup v2 is mounted"
    folders = [Path(root, f"scope-bench-{number}.service") for number in range(CGROUPS)]
    for folder in folders:
        folder.mkdir()
    command = [sys.executable, "-S", "-E", "-c", PROGRAM, str(PROCESSES), *map(str, folders)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as program:
        assert program.stdout
        program.stdout.readline()
        try:
            yield
        finally:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            for folder in folders:
                _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(100):
        try:
            return folder.rmdir()
        except OSError:  # its processes are still ending
            time.sleep(0.05)
    raise RuntimeError(f"{folder} still has processes")
