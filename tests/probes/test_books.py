"""The books balance: what the kernel emitted was received or is counted as lost."""

import sys
from collections.abc import Callable

import pytest
from tests.probes.recording import Record

from scope_bpf.catalogue import probe_named
from scope_bpf.command import HeldCommand
from scope_bpf.options import parse_options
from scope_bpf.stream import Mode
from scope_bpf.targets import Target
from scope_bpf.tracer import Tracer


@pytest.mark.parametrize("probe", ["syscalls", "process", "files", "sched"])
def test_emitted_is_received(record: Record, probe: str) -> None:
    """With room enough, every event of every stream arrives."""
    recording = record(probe, ["find", "/usr/share/doc", "-name", "copyright"])
    assert sum(account.emitted for account in recording.accounts.values()) > 0
    for stream, account in recording.accounts.items():
        assert (account.emitted, dict(account.lost)) == (recording.count(stream), {})


def test_a_ring_too_small_loses_by_number(record: Record, workload: Callable[[str], str]) -> None:
    """What does not fit into the ring is counted: emitted is the program's own count, and received plus lost."""
    command = [workload("spin"), "100003"]
    recording = record("syscalls", command, names="getppid", ring_bytes=4096, poll=False)
    account = recording.accounts["syscall"]
    assert account.emitted == 100_003
    assert account.lost["ring_full"] > 90_000
    assert recording.count("syscall") == account.emitted - account.lost["ring_full"]


def test_a_summary_too_large_loses_by_number(record: Record) -> None:
    """Calls whose key found no room in the summary are counted."""
    script = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
for n in range(17000):
    file = os.open('/tmp', os.O_TMPFILE | os.O_RDWR)
    os.write(file, b'x')
"""
    recording = record("files", [sys.executable, "-c", script], mode="summary", interval_ms=60000)
    account = recording.accounts["file_summary"]
    assert account.lost["map_full"] > 0
    assert account.emitted == recording.count("file_summary") + account.lost["map_full"]


def test_switching_modes_loses_nothing(workload: Callable[[str], str], runnable: dict[str, str]) -> None:
    """However often a task goes from events to summary and back, each call is in one or in the other."""
    if runnable["syscalls"]:
        pytest.skip(runnable["syscalls"])
    probe = probe_named("syscalls")
    command = HeldCommand([workload("spin"), "1000003"])
    counted = {"syscall": 0, "syscall_summary": 0}
    with Tracer(probe, parse_options(probe.options, {"names": "getppid"}), Target(pid=command.pid)) as tracer:
        tracer.start()
        command.release()
        rounds = 0
        while command.poll() is None:
            rounds += 1
            for raw in tracer.poll(20):
                counted[raw.stream.name] += raw.count if raw.stream.mode is Mode.EVENTS else raw.rows["count"].sum()
            tracer.set_mode(Mode.SUMMARY if rounds % 2 else Mode.EVENTS)
        for raw in tracer.finish():
            counted[raw.stream.name] += raw.count if raw.stream.mode is Mode.EVENTS else raw.rows["count"].sum()
        lost = sum(sum(account.lost.values()) for account in tracer.accounts().values())
    assert sum(counted.values()) + lost == 1_000_003
    assert all(counted.values())
