"""The sampler of `system`: what changed between two states of /proc, and what it holds of the real one."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from scope_bpf.errors import NotSupported
from scope_bpf.probes.system.proc import SystemSampler

SECOND = 1_000_000_000
HOSTILE = "a) R (\x1b[31m\n"


class Machine:
    """A folder like /proc, whose clock the test moves."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.now_ns = folder, 100 * SECOND
        monkeypatch.setattr("scope_bpf.probes.system.proc.time.clock_gettime_ns", lambda _: self.now_ns)
        self.write("meminfo", "MemTotal: 1000 kB\nMemAvailable: 700 kB\nSwapTotal: 0 kB\n")
        self.write("loadavg", "1.50 0.75 0.25 3/211 4711\n")
        self.counted(ticks=0, stall_us=0, disk=0, received=0, swapped=0)
        self.process(7, used=10, start=5)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def counted(self, *, ticks: int, stall_us: int, disk: int, received: int, swapped: int) -> None:
        cpu = f"{100 + ticks} 0 {50 + ticks} {500 + 2 * ticks} 0 0 0 0 0 0"
        self.write("stat", f"cpu  {cpu}\ncpu0 {cpu}\nctxt {1000 + ticks}\n")
        self.write("vmstat", f"pswpin {3 + swapped}\npswpout 0\npgmajfault 11\n")
        self.write(
            "pressure/io",
            f"some avg10=0.00 avg60=0.00 avg300=0.00 total={77 + stall_us}\n"
            f"full avg10=0.00 avg60=0.00 avg300=0.00 total={5 + stall_us // 2}\n",
        )
        self.write(
            "diskstats", f"8 0 sda {9 + disk} 0 {80 + 8 * disk} 4 3 0 24 5 2 {100 + disk} 9 0 0\n8 1 sdb 0 0 0 0\n"
        )
        line = f"{1000 + received} {10 + received // 100} 0 0 0 0 0 0 2000 20 0 0 0 0 0 0"
        self.write("net/dev", f"one\ntwo\n  eth0: {line}\n")

    def process(self, pid: int, *, used: int, start: int) -> None:
        self.write(f"{pid}/stat", f"{pid} ({HOSTILE}) S {'0 ' * 10}{used} 2 0 0 20 0 3 0 {start} 8192 5 {'0 ' * 20}\n")
        self.write(f"{pid}/io", "rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 512\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def after(machine: Machine, sampler: SystemSampler, seconds: int) -> dict[str, list[dict[str, Any]]]:
    machine.now_ns += seconds * SECOND
    return dict(sampler.sample())


def test_what_is_counted_is_what_is_new(machine: Machine) -> None:
    """The first sample has no counts; the second one has what came since, as shares of its interval."""
    sampler = SystemSampler(machine.folder)
    (first,) = sampler.sample()["system"]
    assert (first["interval_ns"], first["load_1"], first["runnable"], first["threads"], first["cpus"]) == (
        *(0, 1.5, 3),
        *(211, 1),
    )
    assert not [name for name in first if name.endswith("_percent") or name == "context_switches"]
    machine.counted(ticks=50, stall_us=500_000, disk=7, received=4711, swapped=2)
    found = after(machine, sampler, 2)
    (row,) = found["system"]
    assert (row["user_percent"], row["system_percent"], row["idle_percent"], row["steal_percent"]) == (25, 25, 50, 0)
    assert (row["io_pressure_percent"], row["io_stalled_percent"], row["context_switches"]) == (25, 12.5, 50)
    assert (row["memory_available_bytes"], row["swapped_in_bytes"]) == (700 << 10, 2 * os.sysconf("SC_PAGE_SIZE"))
    assert "memory_pressure_percent" not in row, "this kernel does not tell it"
    (disk,) = found["system_disk"]
    assert (disk["disk"], disk["reads"], disk["read_bytes"], disk["in_flight"]) == ("sda", 7, 7 * 8 * 512, 2)
    assert disk["busy_percent"] == pytest.approx(0.35)
    (network,) = found["system_network"]
    assert (network["interface"], network["received_bytes"], network["sent_bytes"]) == ("eth0", 4711, 0)


def test_processes_that_did_something(machine: Machine) -> None:
    """Every 5 s, a process that used anything has a row; an idle one has none, and one that ended does no harm."""
    sampler = SystemSampler(machine.folder)
    assert sampler.sample()["system_process"] == []
    machine.process(7, used=110, start=5)
    assert "system_process" not in after(machine, sampler, 4)
    machine.process(8, used=30, start=900)
    rows = {row["pid"]: row for row in after(machine, sampler, 1)["system_process"]}
    assert (rows[7]["cpu_percent"], rows[7]["comm"], rows[7]["threads"]) == (20, HOSTILE, 3)
    assert (rows[7]["rss_bytes"], rows[7]["virtual_bytes"]) == (5 * os.sysconf("SC_PAGE_SIZE"), 8192)
    assert (rows[7]["disk_read_bytes"], rows[7]["disk_written_bytes"]) == (4096, 512)
    assert rows[8]["cpu_percent"] == pytest.approx(6.4), "a new process's time is all new"
    (machine.folder / "8" / "stat").unlink()
    assert after(machine, sampler, 5)["system_process"] == []
    machine.process(7, used=50, start=1000)
    (again,) = after(machine, sampler, 5)["system_process"]
    assert again["cpu_percent"] == pytest.approx(10.4), "another process has got the pid"


def test_without_proc(tmp_path: Path) -> None:
    """Without /proc, the probe says so."""
    with pytest.raises(NotSupported, match="stat is missing"):
        SystemSampler(tmp_path)


def test_the_real_machine() -> None:
    """Shares of CPU time add up to 100 %, and what goes through the loopback interface is counted."""
    sampler = SystemSampler()
    sampler.sample()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receives,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sends,
    ):
        receives.bind(("127.0.0.1", 0))
        for _ in range(101):
            sends.sendto(bytes(1009), receives.getsockname())
            receives.recv(2048)
    sum(range(3_000_000))  # at least a tick
    found = sampler.sample()
    (row,) = found["system"]
    states = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    assert sum(row[f"{state}_percent"] for state in states) == pytest.approx(100)
    (loopback,) = [one for one in found["system_network"] if one["interface"] == "lo"]
    assert min(loopback["received_bytes"], loopback["sent_bytes"]) >= 101 * 1009
    assert row["memory_available_bytes"] <= row["memory_total_bytes"]
