"""What the `memory` probe says that processes have in memory, beside what the kernel says in /proc and to parents."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.probes.disks import loop_disk, python
from tests.probes.recording import Record
from tests.tracefs import INSTANCES

from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options

PAGE = os.sysconf("SC_PAGE_SIZE")
CPUS = os.cpu_count() or 1
ERROR = PAGE * max(64, max(32, 2 * CPUS) * CPUS)  # what CPUs, or before Linux 6.2 the only thread, have not added yet
STATUS = {
    "anon_bytes": "RssAnon",
    "file_bytes": "RssFile",
    "shared_bytes": "RssShmem",
    "swap_bytes": "VmSwap",
    "peak_bytes": "VmHWM",
}

# Does what each line of its input says, and answers once it is done.
HOLDER = """
import mmap, sys
def pages(count, flags):
    memory = mmap.mmap(-1, 4096 * count, flags=flags | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, len(memory), 4096):
        memory[at] = 1
    return memory
for line in sys.stdin:
    if line == "hold\\n":
        own, shared = pages(5003, mmap.MAP_PRIVATE), pages(2003, mmap.MAP_SHARED)
        with open(sys.executable, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            sum(mapped[at] for at in range(0, len(mapped), 4096))
    elif line == "swap\\n":
        own.madvise(21, 0, 4096 * 3001)  # MADV_PAGEOUT
    else:
        own.close()
    print("done", flush=True)
"""


def told(pid: int) -> dict[str, int]:
    """The same figures in /proc/PID/status."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: int(lines[key].split()[0]) << 10 for name, key in STATUS.items()}


def differs(row: dict[str, Any], status: dict[str, int]) -> list[str]:
    """The figures that differ by more than the kernel's counters may; peaks add up the errors of three."""
    return [n for n in STATUS if abs(row[n] - status[n]) > ERROR * (3 if n == "peak_bytes" else 1)]


@pytest.fixture
def swap(tmp_path: Path) -> Iterator[None]:
    """Some swap space of the test's own."""
    with loop_disk(tmp_path / "swap") as disk:
        subprocess.run(["mkswap", disk], check=True, capture_output=True)
        if (made := subprocess.run(["swapon", disk], capture_output=True, text=True)).returncode:
            pytest.skip(f"this host cannot swap: {made.stderr}")
        try:
            yield
        finally:
            subprocess.run(["swapoff", disk], check=True)


@pytest.mark.usefixtures("swap")
def test_memory_of_a_process(runnable: dict[str, str]) -> None:
    """What a process has in memory, by kind, what is in swap space, and the peak are those of /proc/PID/status: after
    memory of known size was taken, swapped out and given back. No other process has a row."""
    if reason := runnable["memory"]:
        pytest.skip(reason)
    probe = probe_named("memory")
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        holder = subprocess.Popen(python(HOLDER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.enter_context(holder)
        stack.callback(holder.kill)
        assert holder.stdin and holder.stdout
        options = parse_options(probe.options, {"stacks": False, "interval_ms": 100})
        tracer = stack.enter_context(Tracer(probe, options, Target(pid=holder.pid)))
        tracer.start()
        seen = []
        for step in ("hold", "swap", "free"):
            print(step, file=holder.stdin, flush=True)
            assert holder.stdout.readline() == "done\n"
            until = time.monotonic() + 60
            while not rows or differs(rows[-1], told(holder.pid)):
                assert time.monotonic() < until, (step, {n: (rows[-1][n], told(holder.pid)[n]) for n in STATUS})
                for batch in tracer.poll(50):
                    if batch.stream.name == "memory_process":
                        rows += to_arrow(batch).to_pylist()
            seen.append(rows[-1])
    held, swapped, freed = seen
    assert {row["pid"] for row in rows} == {holder.pid}
    assert held["anon_bytes"] > 5003 * PAGE - ERROR
    assert held["file_bytes"] > 1 << 20
    assert 2003 * PAGE - ERROR < held["shared_bytes"] < 2003 * PAGE + ERROR
    assert held["anon_bytes"] - swapped["anon_bytes"] > 2500 * PAGE
    assert swapped["swap_bytes"] > 2500 * PAGE > freed["swap_bytes"]
    assert freed["peak_bytes"] > freed["anon_bytes"] + 5003 * PAGE


SHORT = """
import mmap, os
child = os.fork()
if not child:
    memory = mmap.mmap(-1, 4096 * 3001, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, len(memory), 4096):
        memory[at] = 1
    memory.close()
    os._exit(0)
_, _, used = os.wait4(child, 0)
print(child, used.ru_maxrss << 10)
"""


def test_the_last_state_of_a_short_process(record: Record, capfd: pytest.CaptureFixture[str]) -> None:
    """A process that has ended before any reading has a row, its last one, with the peak that its parent is told."""
    if "group_dead" not in (INSTANCES.parent / "events/sched/sched_process_exit/format").read_text():
        pytest.skip("before 6.16, the memory of a process is gone when its end is seen")
    recording = record("memory", python(SHORT), stacks=False, interval_ms=3_600_000)
    child, peak = map(int, capfd.readouterr().out.split())
    (row,) = [row for row in recording.rows("memory_process") if row["pid"] == child]
    assert (row["ended"], row["peak_bytes"]) == (1, peak)
    assert peak > row["anon_bytes"] + 2500 * PAGE
    assert recording.pid in {row["pid"] for row in recording.rows("memory_process")}
    assert recording.accounts["memory_process"].lost == {}
