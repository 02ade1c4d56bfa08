"""The `syscalls` probe compared with workloads of known counts, and with strace."""

import os
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest
from tests.probes.recording import Record

from scope_bpf.capture.batch import Batch
from scope_bpf.capture.columns import to_arrow
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_bpf.probes.syscalls import TABLE
from scope_bpf.probes.syscalls.classes import CLASSES
from scope_catalogue.options import parse_options

X86 = platform.machine() == "x86_64"


def test_every_call_is_recorded_with_arguments_and_result(record: Record, workload: Callable[[str], str]) -> None:
    """Counts, arguments and results equal the program's; failed calls and unknown numbers are recorded."""
    recording = record("syscalls", [workload("calls")])
    rows = recording.rows("syscall")
    named = Counter(row["name"] for row in rows)
    assert named["getppid"] == 1009
    failed = [row for row in rows if row["name"] == "close" and row["ret"] < 0]
    assert [(row["arg0"], row["ret"]) for row in failed] == [(0xFFFFFFFF, -9)] * 503
    assert [row["ret"] for row in rows if row["nr"] == 999] == [-38] * 7
    (priority,) = [row for row in rows if row["name"] == "getpriority"]
    assert [priority[f"arg{n}"] for n in range(6)] == [11, -22, 33, -44, 55, -66]
    assert priority["ret"] == -22
    assert all(row["pid"] == row["tid"] == recording.pid and row["comm"] == "calls" for row in rows[1:])
    assert all(0 < row["duration_ns"] < 10**10 for row in rows)
    assert recording.accounts["syscall"].emitted == len(rows)


def test_a_held_command_begins_with_its_exec(record: Record) -> None:
    """The first call is the exec, under the command's name; its duration excludes the hold."""
    rows = record("syscalls", ["/bin/true"], hold=1.0).rows("syscall")
    assert (rows[0]["name"], rows[0]["ret"], rows[-1]["name"]) == ("execve", 0, "exit_group")
    assert rows[0]["duration_ns"] < 1e9
    assert {row["comm"] for row in rows} == {"true"}


@pytest.mark.skipif(not X86, reason="32-bit calls by int 0x80 are x86's")
def test_a_name_is_right_or_absent(record: Record, workload: Callable[[str], str]) -> None:
    """Unknown numbers have no name, rather than another call's; those of 32-bit calls are looked up in their table."""
    rows = record("syscalls", [workload("calls")]).rows("syscall")
    assert [row["name"] for row in rows if row["nr"] == 999] == [None] * 7
    assert [row["name"] for row in rows if row["nr"] == 20 and row["arg0"] != 1] == ["getpid"] * 3


def test_threads_do_not_mix_up_their_calls(record: Record, workload: Callable[[str], str]) -> None:
    """Entry and exit are paired per thread, whatever other threads of the process call meanwhile."""
    recording = record("syscalls", [workload("threads")], names="getpgid")
    table = recording.table("syscall")
    assert pc.all(pc.equal(table["arg0"], table["tid"])).as_py()
    per_thread = {entry["values"]: entry["counts"] for entry in pc.value_counts(table["tid"]).to_pylist()}
    assert sorted(per_thread.values()) == [1009, 2003, 3001, 4001, 5003, 6007, 7001]
    assert len(set(table["ret"].to_pylist())) == 1


def test_calls_that_never_return_are_recorded(record: Record) -> None:
    """exit_group is recorded without a result; a call that a signal ended has the kernel's result, -ERESTART*."""
    asleep = "grep -q sleep /proc/$!/comm && grep -q 'State:.S' /proc/$!/status"
    script = f"sleep 100 & until {asleep}; do :; done; kill -9 $!; wait; exit 0"
    rows = record("syscalls", ["sh", "-c", script]).rows("syscall")
    assert [(row["comm"], row["name"]) for row in rows if row["ret"] is None][-1] == ("sh", "exit_group")
    assert [row["ret"] for row in rows if row["name"] == "clock_nanosleep" and row["ret"]] == [-516]


def test_threads_that_exit_are_recorded(record: Record, workload: Callable[[str], str]) -> None:
    """Each thread's exit is recorded, without a result."""
    rows = record("syscalls", [workload("threads")], names="exit,exit_group").rows("syscall")
    assert Counter(row["name"] for row in rows) == {"exit": 7, "exit_group": 1}
    assert {row["ret"] for row in rows} == {None}


def test_execve_keeps_its_arguments(record: Record) -> None:
    """An execve has the arguments of its entry, though the kernel clears the registers in the call."""
    (row,) = record("syscalls", ["/bin/true"], names="execve").rows("syscall")
    assert row["ret"] == 0
    assert all(row[f"arg{n}"] for n in range(3))


@pytest.mark.parametrize(
    "command",
    [["git", "--version"], ["find", "/usr/share/doc", "-name", "copyright"], ["/usr/bin/python3", "-c", "import json"]],
    ids=["git", "find", "python"],
)
def test_counts_are_those_of_strace(record: Record, command: list[str], tmp_path: Path) -> None:
    """A real program's count of each call equals strace's count in another run.

    strace omits calls that never return (here exit_group). Both runs have the same open files, because a program's
    first calls depend on them.
    """
    summary = tmp_path / "strace"
    strace: list[str | Path] = ["strace", "-f", "-c", "-o", summary]
    subprocess.run([*strace, *command], check=True, env=os.environ)  # C libraries may have added more to ours
    expected = {}
    for line in summary.read_text().splitlines():
        match = re.fullmatch(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(\d+)?\s+(\w+)", line)
        if match and match[3] != "total":
            expected[match[3]] = int(match[1])
    rows = record("syscalls", command).rows("syscall")
    counted = Counter(row["name"] for row in rows if row["ret"] is not None)
    assert dict(counted) == expected


def test_names_select_in_the_kernel(record: Record, workload: Callable[[str], str]) -> None:
    """With names given, no other call reaches the ring."""
    recording = record("syscalls", [workload("calls")], names="getppid")
    assert recording.accounts["syscall"].emitted == recording.count("syscall") == 1009


def test_classes_and_patterns_select_in_the_kernel(record: Record, workload: Callable[[str], str]) -> None:
    """Only calls of the class and calls whose names match the pattern reach the ring."""
    recording = record("syscalls", [workload("calls")], names="%process,getpp?d")
    called = Counter(row["name"] for row in recording.rows("syscall"))
    assert called.pop("getppid") == 1009
    assert {"execve", "exit_group"} <= set(called) <= CLASSES["%process"]
    assert recording.accounts["syscall"].emitted == recording.count("syscall")


def test_a_summary_has_what_events_have(record: Record, workload: Callable[[str], str]) -> None:
    """A summary has the program's counts and errors; histogram buckets add up to the count and bound the time."""
    rows = record("syscalls", [workload("calls")], mode="summary").rows("syscall_summary")
    getppid = [row for row in rows if row["name"] == "getppid"]
    assert sum(row["count"] for row in getppid) == 1009
    close = [row for row in rows if row["name"] == "close"]
    assert sum(row["errors"] for row in close) == 503
    assert all(sum(row["latency"]) == row["count"] for row in rows)
    for row in rows:
        least = sum(count << bucket for bucket, count in enumerate(row["latency"]) if bucket)
        most = sum(count << (bucket + 1) for bucket, count in enumerate(row["latency"]))
        assert least <= row["total_ns"] < most


def test_a_summary_misses_nothing_between_reads(record: Record, workload: Callable[[str], str]) -> None:
    """Each call is counted once, even if the map is swapped during the calls."""
    recording = record("syscalls", [workload("spin"), "3000017"], mode="summary", interval_ms=100)
    rows = [row for row in recording.rows("syscall_summary") if row["name"] == "getppid"]
    assert len(rows) > 3
    assert sum(row["count"] for row in rows) == 3_000_017
    assert not recording.accounts["syscall_summary"].lost


def test_the_table_has_no_holes() -> None:
    """The table has the name of every call, also of new and unusual ones."""
    names = set(TABLE.values())
    assert {"openat2", "futex_waitv", "cachestat", "mseal", "listmount", "setxattrat"} <= names
    if X86:
        assert TABLE[335] == "uretprobe"
        assert set(range(335)) <= set(TABLE)
    assert set(range(424, max(TABLE) + 1)) <= set(TABLE)


@pytest.mark.skipif(not X86, reason="32-bit calls by int 0x80 are x86's")
def test_a_selected_name_is_not_another_tables_number(record: Record, workload: Callable[[str], str]) -> None:
    """Number 20 is writev, but getpid in a 32-bit call; selecting writev records no 32-bit call."""
    assert record("syscalls", [workload("calls")], names="writev").count("syscall") == 0


KERNEL_NAMES = {  # kernel functions whose name differs from their call's
    "newstat": "stat",
    "newlstat": "lstat",
    "newfstat": "fstat",
    "newuname": "uname",
    "sendfile64": "sendfile",
    "umount": "umount2",
}


def test_the_running_kernel_has_no_call_that_the_table_lacks(need: Callable[[str], None]) -> None:
    """Every call that tracefs lists is in the table."""
    need("tracefs")
    listed = Path("/sys/kernel/tracing/events/syscalls")
    calls = {path.name.removeprefix("sys_enter_") for path in listed.glob("sys_enter_*")}
    assert {KERNEL_NAMES.get(call, call) for call in calls} - set(TABLE.values()) == set()


def test_attaching_in_the_middle_mixes_no_calls_up() -> None:
    """A call under way at attach or detach is missing or correct; it never has another call's result."""
    source = "import os\nwhile True:\n  try: os.lseek(9999, 1, 0)\n  except OSError: os.getppid()"
    probe = probe_named("syscalls")
    rows = []
    with subprocess.Popen([sys.executable, "-S", "-c", source]) as load:
        for _ in range(12):
            with Tracer(probe, parse_options(probe.options, {"names": "lseek"}), Target(pid=load.pid)) as tracer:
                tracer.start()
                found: list[Batch] = []
                while not found:  # a busy machine may not run the program for a while
                    found += tracer.poll(20)
                found += tracer.finish()
                rows += [row for raw in found for row in to_arrow(raw, ("ret", "name")).to_pylist()]
        load.kill()
    assert len(rows) > 12
    assert {(row["name"], row["ret"]) for row in rows} == {("lseek", -9)}


@pytest.mark.parametrize("mode", ["events", "summary"])
def test_calls_that_waited_are_told_apart(record: Record, mode: str) -> None:
    """`waited` is set for a call that gives up its CPU (a sleep, an empty pipe), not for a read of ready data."""
    program = """
import os, time
ours, theirs = os.pipe()
for _ in range(53):
    os.write(theirs, b"x")
    os.read(ours, 1)
if os.fork():
    for _ in range(31):
        os.read(ours, 1)
else:
    for _ in range(31):
        time.sleep(0.01)
        os.write(theirs, b"x")
    os._exit(0)
"""
    stream = "syscall" if mode == "events" else "syscall_summary"
    recording = record("syscalls", [sys.executable, "-S", "-c", program], mode=mode, names=["read", "clock_nanosleep"])
    found: Counter[tuple[str, bool]] = Counter()
    for row in recording.rows(stream):
        found[row["name"], bool(row["waited"])] += row.get("count", 1)
    # On a busy machine, a thread may lose its CPU just before its wait, for as long as the wait would have lasted.
    assert found["clock_nanosleep", True] + found["clock_nanosleep", False] == 31
    assert found["clock_nanosleep", True] > 15
    assert found["read", True] > 15
    assert found["read", False] >= 53
