"""The `sched` probe compared with the switches and times that programs and the kernel count."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import Record

RUNS = 3
PYTHON = [sys.executable, "-S", "-E", "-c"]


# Uses 0.3 s of CPU time; reports the time used, and its begin and end on the clock of the rows.
BUSY = """
import sys, time
from time import CLOCK_BOOTTIME, clock_gettime_ns as now, process_time_ns as used
began, had = now(CLOCK_BOOTTIME), used()
while used() - had < 300_000_000: pass
with open(sys.argv[1], "w") as out: print(used() - had, began, now(CLOCK_BOOTTIME), file=out)
"""


@pytest.mark.alone  # compares times
def test_time_on_cpu_is_the_process_own(record: Record, tmp_path: Path) -> None:
    """The time on a CPU, added up over switches, is the CPU time that the process measures.

    Some kernels omit the switches away from some threads. The next thread on that CPU then has an unknown time, less
    than the time since it last left a CPU. Time that a host steals from a guest belongs to no process.
    """
    stolen_ns = _stolen_ns()
    recording = record("sched", [*PYTHON, BUSY, str(tmp_path / "said")])
    stolen_ns = _stolen_ns() - stolen_ns
    used, began, ended = map(int, (tmp_path / "said").read_text().split())
    known = unknown = left = 0
    seen = False  # whether a row has its switch to the CPU
    for row in recording.rows("switch"):
        if row["pid"] == recording.pid:
            assert (row["on_cpu_ns"] is not None) == seen
            since = row["ktime_ns"] - row["on_cpu_ns"] if seen else left
            within = max(0, min(row["ktime_ns"], ended) - max(since, began))
            known, unknown = (known + within, unknown) if seen else (known, unknown + within)
            left = row["ktime_ns"]
        seen = row["next_pid"] == recording.pid or (seen and row["pid"] != recording.pid)
    assert used - 10e6 < known + unknown  # in one of 70 runs under load, a few ms were in no row
    assert known < used + stolen_ns + 30e6


def _stolen_ns() -> int:
    """Time that the host stole from this machine's CPUs, counted in ticks."""
    return int(Path("/proc/stat").read_text().split()[8]) * 10**9 // os.sysconf("SC_CLK_TCK")


# An independent count of the kernel's tracepoints by bpftrace, for threads of one name: switches from and to a CPU,
# and wakeups of a sleeping thread that then ran. Under load, a kernel may omit a switch; then both counts lack it.
ACCOUNT = """
tracepoint:sched:sched_switch /args->prev_comm == "sleeper"/ {
    @left = count(); delete(@woken[args->prev_pid]);
    @asleep[args->prev_pid] = (args->prev_state & 0xff) != 0 ? 1 : 0;
}
tracepoint:sched:sched_wakeup /args->comm == "sleeper" && @asleep[args->pid] == 1/ { @woken[args->pid] = 1; }
tracepoint:sched:sched_switch /args->next_comm == "sleeper"/ {
    @arrived = count(); @asleep[args->next_pid] = 0;
    if (@woken[args->next_pid] == 1) { @back = count(); delete(@woken[args->next_pid]); }
}
END { clear(@woken); clear(@asleep); }
"""


@pytest.fixture
def bpftrace(tmp_path: Path, need: Callable[[str], None]) -> Iterator[Callable[[], dict[str, int]]]:
    """Runs ACCOUNT until the returned function is called, which returns the counts."""
    need("tracefs")
    ready = tmp_path / "ready.sh"
    ready.write_text("echo attached\nexec cat\n")  # bpftrace starts this script after attaching, and ends with it
    command = ["bpftrace", "-e", ACCOUNT, "-c", f"/bin/sh {ready}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert any(line == "attached\n" for line in process.stdout)

    def counts() -> dict[str, int]:
        said, _ = process.communicate()
        return {name: int(count) for name, count in re.findall(r"@(\w+): (\d+)", said)}

    yield counts
    process.kill()
    process.communicate()


@pytest.mark.alone  # bpftrace's programs are skipped while a map is read or changed by a system call on their CPU
def test_every_switch_and_wakeup_is_there(
    record: Record, tmp_path: Path, bpftrace: Callable[[], dict[str, int]]
) -> None:
    """Switches and wakeups of a program that sleeps equal the counts of bpftrace and of the kernel."""
    script = (
        "import sys, time\n"
        "def switches():\n    lines = [line for line in open('/proc/self/status') if line.startswith('voluntary')]\n"
        "    return int(lines[0].split()[1])\n"
        "open('/proc/self/comm', 'w').write('sleeper')\n"
        "before = switches()\nfor n in range(101): time.sleep(0.001)\nafter = switches()\n"
        "open(sys.argv[1], 'w').write(str(after - before))"
    )
    recording = record("sched", [*PYTHON, script, str(tmp_path / "count")])
    counted = bpftrace()
    rows = recording.rows("switch")
    left = [row for row in rows if row["comm"] == "sleeper"]
    arrived = [row for row in rows if row["next_comm"] == "sleeper"]
    woken = [row for row in left[1:] if row["waker_pid"] is not None]  # the first was woken under another name
    assert (len(left), len(arrived), len(woken)) == (counted["left"], counted["arrived"], counted["back"])
    voluntary = int((tmp_path / "count").read_text())
    assert 101 <= voluntary <= sum(row["prev_state"] == 1 for row in left) <= voluntary + 20
    assert all(0 < row["run_queue_ns"] < 10**10 for row in woken)
    assert all(row["waker_comm"] and row["waker_tid"] is not None for row in woken)
    asleep = [row["off_cpu_ns"] for row in woken]
    assert sum(slept_ns >= 1e6 for slept_ns in asleep if slept_ns is not None) >= 0.9 * 101  # time.sleep(0.001)
    assert all(row["off_cpu_ns"] is None for row in left if row["waker_pid"] is None)


def test_the_last_switch_says_that_the_thread_is_dead(record: Record) -> None:
    """Only the last switch of a thread has the state TASK_DEAD (128)."""
    recording = record("sched", ["sleep", "0.01"])
    states = [row["prev_state"] for row in recording.rows("switch") if row["pid"] == recording.pid]
    assert [state == 128 for state in states] == [False] * (len(states) - 1) + [True]


def test_a_sleep_is_time_off_cpu(record: Record) -> None:
    """In the summary, a sleep is time off the CPU, in its full length.

    Some kernels sometimes omit a switch under load, which would be this one; not in five runs.
    """
    for _ in range(5):
        began = time.monotonic_ns()
        rows = record("sched", ["sleep", "0.3"], mode="summary", interval_ms=100).rows("sched_summary")
        slept_ns = sum(row["off_cpu_ns"] for row in rows)
        if slept_ns > 0.1e9:
            break
    assert 0.3e9 <= slept_ns < time.monotonic_ns() - began
    assert sum(sum(row["off_cpu"][28:]) for row in rows) == 1  # 2^28 ns are 0.27 s


def test_a_summary_agrees_with_itself(record: Record) -> None:
    """For each thread, histograms add up to their counts."""
    script = "import threading, time\nt = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(5)]\n"
    script += "[x.start() for x in t]; [x.join() for x in t]"
    rows = record("sched", [*PYTHON, script], mode="summary").rows("sched_summary")
    assert len({row["tid"] for row in rows}) == 6
    for row in rows:
        for name in ("on_cpu", "run_queue", "off_cpu"):
            assert sum(row[name]) == row[f"{name}_count"]


@dataclass
class Share:
    """A thread's run time and waits for a CPU in ns, and its number of involuntary switches."""

    run_ns: int
    waited_ns: int
    involuntary: int


@pytest.mark.alone  # compares times
@pytest.mark.parametrize("work", ["spin", "sleep", "fork"])
def test_events_summary_and_the_kernel_agree(
    record: Record, workload: Callable[[str], str], tmp_path: Path, work: str
) -> None:
    """In both modes, run time and waits for a CPU, after a wakeup or a preemption, add up to the kernel's.

    The rows of involuntary switches agree with nonvoluntary_ctxt_switches. The test allows some difference: a thread
    reads its times just before it ends. Some kernels sometimes omit a switch, and a host takes CPU time that is no
    thread's: the times agree in most of a few runs.
    """
    command = [workload("shares"), work, "300"]

    def events(said: Path) -> bool:
        rows = record("sched", [*command, str(said)]).rows("switch")
        assert all(row["involuntary"] == (row["prev_state"] == 0) for row in rows)
        assert all(row["waker_comm"] is None for row in rows if row["waker_pid"] is None)
        return all(
            _agree(told, [row for row in rows if row["tid"] == tid])
            and told.involuntary * 0.95 - 3
            <= sum(row["involuntary"] for row in rows if row["tid"] == tid)
            <= told.involuntary + 10
            for tid, told in _told(said).items()
        )

    def summary(said: Path) -> bool:
        rows = record("sched", [*command, str(said)], mode="summary", interval_ms=100).rows("sched_summary")
        return all(_agree(told, [row for row in rows if row["tid"] == tid]) for tid, told in _told(said).items())

    assert sum(events(tmp_path / f"events{run}") for run in range(RUNS)) > RUNS / 2
    assert sum(summary(tmp_path / f"summary{run}") for run in range(RUNS)) > RUNS / 2


def _told(file: Path) -> dict[int, Share]:
    lines = [[int(word) for word in line.split()] for line in file.read_text().splitlines()]
    assert len(lines) >= 2
    return {tid: Share(*numbers) for tid, *numbers in lines}


def _agree(told: Share, rows: list[dict[str, Any]]) -> bool:
    """Whether a thread's rows add up to its own times."""
    pairs = ((told.run_ns, "on_cpu_ns"), (told.waited_ns, "run_queue_ns"))
    return all(
        expected_ns * 0.97 - 10e6 < sum(row[column] or 0 for row in rows) < expected_ns * 1.03 + 60e6
        for expected_ns, column in pairs
    )


def test_a_process_is_its_threads_added_up(record: Record) -> None:
    """Per interval and process, counts, times and histograms are sums over the threads; each stream has an account."""
    script = "import threading, time\nt = [threading.Thread(target=time.sleep, args=(0.3,)) for _ in range(5)]\n"
    script += "[x.start() for x in t]; [x.join() for x in t]"
    recording = record("sched", [*PYTHON, script], mode="summary", interval_ms=100)
    threads, processes = recording.rows("sched_summary"), recording.rows("sched_process_summary")
    assert len({row["tid"] for row in threads}) >= 6
    added: dict[tuple[int, int, str], list[int]] = {}
    for row in threads:
        sums = added.setdefault((row["ktime_ns"], row["pid"], row["comm"]), [0] * len(_numbers(row)))
        sums[:] = map(sum, zip(sums, _numbers(row), strict=True))
    assert {(row["ktime_ns"], row["pid"], row["comm"]): _numbers(row) for row in processes} == added
    for stream in ("sched_summary", "sched_process_summary"):
        assert recording.accounts[stream].emitted == recording.count(stream)


def _numbers(row: dict[str, Any]) -> list[int]:
    names = ("on_cpu", "run_queue", "off_cpu")
    plain = [row[f"{name}_{of}"] for name in names for of in ("count", "ns")]
    return plain + [bucket for name in names for bucket in row[name]]
