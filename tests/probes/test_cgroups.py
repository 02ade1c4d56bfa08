"""Rows of real cgroups: what a program used in one, by the program's own account and by the cgroup's files."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scope_bpf.cgroups.tree import Hierarchy, hierarchies
from scope_bpf.containers.containers import Containers
from scope_bpf.probes.system.cgroups import CgroupRows

USE = Path(__file__).parent / "workloads" / "cgroup_use.py"
SECOND = 1_000_000_000
MIB = 1 << 20
ROUNDING_NS = 1_000_000  # cgroups count µs; `process_time` is read while the program runs


class Made:
    """A cgroup in all hierarchies, and what its files say."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.hierarchies = hierarchies()
        self.folders = [Path(one.root + path) for one in self.hierarchies]
        self._rows = CgroupRows(self.hierarchies, Containers())

    def __enter__(self) -> "Made":
        for one in self.hierarchies:
            if one.is_unified:
                _switch_on(Path(one.root))
        self._rows.rows(0)
        for folder in self.folders:
            folder.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self.folders:
            folder.rmdir()

    def row(self) -> dict[str, Any]:
        """The row of the cgroup, for an interval of a second."""
        (row,) = [row for row in self._rows.rows(SECOND) if row["cgroup"] == self.path]
        return row

    def has(self, *names: str) -> bool:
        """Whether it has one of the files."""
        return any((folder / name).exists() for folder in self.folders for name in names)

    def read(self, *names: str) -> str:
        """The text of the first of these files that it has."""
        return next(path.read_text() for name in names for at in self.folders if (path := at / name).exists())

    def write(self, text: str, *names: str) -> None:
        """Writes all of these files that it has."""
        for path in (folder / name for folder in self.folders for name in names):
            if path.exists():
                path.write_text(text)

    @contextmanager
    def using(
        self, path: Path, *, cpu_s: float = 0, memory: int = 0, written: int = 0
    ) -> Iterator[subprocess.Popen[str]]:
        """A program that uses this in it, and waits."""
        numbers = [str(cpu_s), str(memory), str(written)]
        command = [sys.executable, "-S", "-E", str(USE), str(path), *numbers, *map(str, self.folders)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            yield process
            process.communicate("\n")


def _switch_on(root: Path) -> None:
    """Switches on the controllers that cgroup v2 has: some hosts leave this to systemd."""
    for name in (root / "cgroup.controllers").read_text().split():
        if name in ("cpu", "io", "memory", "pids"):
            (root / "cgroup.subtree_control").write_text(f"+{name}")


@pytest.fixture
def made() -> Iterator[Made]:
    with Made(f"/scope-test-{os.getpid()}.service") as cgroup:
        yield cgroup


def _used(process: subprocess.Popen[str]) -> dict[str, int]:
    assert process.stdout
    used: dict[str, int] = json.loads(process.stdout.readline())
    return used


def test_time_on_cpus(made: Made, tmp_path: Path) -> None:
    """The row has at least the time that the program counted, and at most all that the kernel counted for it."""
    with made.using(tmp_path / "file", cpu_s=0.3) as process:
        used = _used(process)["cpu_ns"]
        row = made.row()
        run_ns = int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])
        assert used - ROUNDING_NS <= row["cpu_percent"] * SECOND / 100 <= run_ns + ROUNDING_NS
        assert row["user_percent"] + row["system_percent"] > 0
        assert row["unit"] == made.path[1:]
        assert row["threads"] == 1 if made.has("pids.current") else "threads" not in row
    if "cgroup2" in Path("/proc/self/mountinfo").read_text():
        assert row["cgroup_id"] == made.folders[0].stat().st_ino
        (usage,) = [line for line in made.folders[0].joinpath("cpu.stat").read_text().splitlines() if "usage" in line]
        assert row["cpu_percent"] * SECOND / 100 <= int(usage.split()[1]) * 1000 + ROUNDING_NS


def test_memory(made: Made, tmp_path: Path) -> None:
    """The row has the memory that the program touched, at least, and not much more than the kernel counts for it."""
    made.write(str(97 * MIB), "memory.max", "memory.limit_in_bytes")
    with made.using(tmp_path / "file", memory=37 * MIB) as process:
        _used(process)
        row = made.row()
        (anon,) = [
            int(line.split()[1]) << 10
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if line.startswith("RssAnon")
        ]
        assert 37 * MIB <= row["anon_bytes"] <= anon + 2 * MIB, "the kernel adds up batches of pages of each CPU"
        assert row["anon_bytes"] <= row["memory_bytes"] <= 97 * MIB
        assert row["memory_limit_bytes"] == 97 * MIB
        assert row["oom_kills"] == 0
        if "memory_peak_bytes" in row:  # Linux 5.19
            assert row["memory_peak_bytes"] >= row["memory_bytes"]


def test_processes_that_are_killed_for_memory(made: Made, tmp_path: Path) -> None:
    """The kernel kills the program that needs more than the limit, and the row says so."""
    made.write(str(16 * MIB), "memory.max", "memory.limit_in_bytes")
    made.write("0", "memory.swap.max", "memory.swappiness")
    with made.using(tmp_path / "file", memory=64 * MIB) as process:
        assert process.wait() == -signal.SIGKILL
        row = made.row()
    assert row["oom_kills"] == 1
    if made.has("memory.events"):
        assert row["oom_events"] >= 1 <= row["memory_max_events"]


def test_disks(made: Made, tmp_path: Path) -> None:
    """The row has the bytes that the program wrote past the page cache, as the cgroup's file adds them up."""
    disk = tmp_path.stat().st_dev
    # With a limit, newer kernels count in cgroup v1, too.
    made.write(f"{os.major(disk)}:{os.minor(disk)} {1 << 40}", "blkio.throttle.write_bps_device")
    with made.using(tmp_path / "file", written=3 * MIB) as process:
        _used(process)
        row = made.row()
        if made.has("io.stat"):
            told = [int(word[7:]) for word in made.read("io.stat").split() if word.startswith("wbytes=")]
        else:
            lines = made.read("blkio.throttle.io_service_bytes_recursive").splitlines()
            told = [int(line.split()[2]) for line in lines if " Write " in line]
    assert row["written_bytes"] == sum(told) >= 3 * MIB
    assert row["writes"] >= 1


def test_a_limit_of_cpu_time(made: Made, tmp_path: Path) -> None:
    """Periods of the limit are those of the cgroup's file, and a program that burns has some."""
    made.write("10000 50000", "cpu.max")
    made.write("50000", "cpu.cfs_period_us")
    made.write("10000", "cpu.cfs_quota_us")
    with made.using(tmp_path / "file", cpu_s=0.1) as process:
        _used(process)
        row = made.row()
    assert row["limited_periods"] >= 1
    assert 0 <= row["throttled_periods"] <= row["limited_periods"]
    assert (row["throttled_percent"] > 0) == (row["throttled_periods"] > 0)


def test_hierarchies_are_found() -> None:
    """Each hierarchy is there once, at a mount point."""
    found: list[Hierarchy] = hierarchies()
    roots = [one.root for one in found]
    assert len(set(roots)) == len(roots) >= 1
    assert all(os.path.ismount(root) for root in roots)
    assert [one.is_unified for one in found] == sorted((one.is_unified for one in found), reverse=True)
