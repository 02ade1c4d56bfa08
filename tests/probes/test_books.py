"""Accounts balance: every event that the kernel emitted was received or is counted as lost."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.probes.cuda_programs import WORKLOADS, StandIn
from tests.probes.recording import Record

from scope_bpf.binding.object import BpfObject
from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named
from scope_catalogue.options import parse_options
from scope_catalogue.stream import Mode


@pytest.mark.parametrize("probe", ["syscalls", "process", "files", "sched"])
def test_emitted_is_received(record: Record, probe: str) -> None:
    """If there is enough room, every event of every stream arrives."""
    recording = record(probe, ["find", "/usr/share/doc", "-name", "copyright"])
    assert sum(account.emitted for account in recording.accounts.values()) > 0
    for stream, account in recording.accounts.items():
        assert (account.emitted, dict(account.lost)) == (recording.count(stream), {})


def test_a_ring_too_small_loses_by_number(record: Record, workload: Callable[[str], str]) -> None:
    """Events lost in full rings are counted: emitted equals the program's count, and received plus lost."""
    command = [workload("spin"), "1000003"]
    recording = record("syscalls", command, names="getppid", ring_bytes=4096, poll=False)
    account = recording.accounts["syscall"]
    assert account.emitted == 1_000_003
    assert account.lost["ring_full"] > 500_000
    assert recording.count("syscall") == account.emitted - account.lost["ring_full"]


def test_a_summary_too_large_loses_by_number(record: Record) -> None:
    """Calls whose key finds no room in the summary map are counted as lost."""
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


def test_children_that_cannot_be_marked_are_counted(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the map of watched pids is full, each child that is not watched is counted as lost (`follow`)."""
    load = BpfObject.load

    def load_with_little_room(loaded: BpfObject) -> None:
        loaded.map("scope_pids").resize(2)
        load(loaded)

    monkeypatch.setattr(BpfObject, "load", load_with_little_room)
    script = "import os\nfor _ in range(13):\n if not os.fork(): os._exit(0)\n os.wait()"
    recording = record("process", [sys.executable, "-S", "-c", script])
    lost = {stream: dict(account.lost) for stream, account in recording.accounts.items() if account.lost}
    assert list(lost.values()) == [{"follow": 13}]
    (stream,) = lost
    assert recording.accounts[stream].emitted == recording.count(stream) + 13
    assert {row["pid"] for row in recording.rows("exit")} == {recording.pid}


def test_calls_too_deep_are_counted(record: Record, tmp_path: Path) -> None:
    """Of seven nested calls, the outer four are recorded; the inner three are counted as lost (`too_deep`)."""
    StandIn(tmp_path)
    libraries = [tmp_path / name for name in ("libcudart.so.13", "libcuda.so.1")]
    flags = ["-O1", f"-Wl,--no-as-needed,-rpath={tmp_path}"]
    subprocess.run(["gcc", *flags, "-o", tmp_path / "deep", WORKLOADS / "cuda_deep.c", *libraries], check=True)
    recording = record("cuda", [str(tmp_path / "deep"), "1009"])
    account = recording.accounts["cuda_call"]
    assert (account.emitted, dict(account.lost)) == (7 * 1009, {"too_deep": 3 * 1009})
    assert recording.count("cuda_call") == 4 * 1009
    (place,) = [place for place in recording.places if place.hits]
    assert (place.name, place.hits, place.lost) == ("cudaDeviceSynchronize", 7 * 1009, {"too_deep": 3 * 1009})


def test_switching_modes_loses_nothing(workload: Callable[[str], str], runnable: dict[str, str]) -> None:
    """Through all switches between events and summary, each call is in exactly one of them, or counted as lost."""
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
