"""What needs cgroup v2 with its controllers, or fentry: run in a guest, by tests/guest/test_cgroups.py.

The `block` probe of a cgroup has the write-back that the kernel charges to it, which version 2 alone does. The `memory`
probe has kills on kernels whose trace of them tells the pid alone.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.probes.cgroups import ROOT, limited
from tests.probes.disks import counters, loop_disk, mounted, number, of, of_disk, python
from tests.probes.recording import ONE_INTERVAL_MS, Record
from tests.probes.test_memory import HUNGRY, PYTHON

from scope_bpf.catalogue.target import Target
from scope_bpf.probes import probe_named

# A process of the cgroup and another one write to memory; then the other one has the kernel write it all to the disk.
WRITERS = """
import ctypes, os, sys
folder, group = sys.argv[1:]
if not os.fork():
    open(group + "/cgroup.procs", "w").write(str(os.getpid()))
    with open(folder + "/ours", "wb") as file:
        file.write(os.urandom(3 << 20))
    os._exit(0)
with open(folder + "/others", "wb") as file:
    file.write(os.urandom(5 << 20))
os.wait()
root = os.open(folder, os.O_RDONLY)
ctypes.CDLL(None).syncfs(root)
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup to which write-back is charged."""
    (ROOT / "cgroup.subtree_control").write_text("+io +memory")
    with limited("memory", {ROOT: {"memory.max": "max"}}) as folder:
        yield folder


def charged(group: Path, disk: str) -> int:
    """The bytes that the cgroup wrote to a disk, as the kernel says."""
    device = number(of_disk(disk))
    lines = dict(line.split(" ", 1) for line in (group / "io.stat").read_text().splitlines())
    figures = dict(pair.split("=") for pair in lines[f"{device >> 20}:{device & 0xFFFFF}"].split())
    return int(figures["wbytes"])


@pytest.mark.parametrize("mode", ["events", "summary"])
def test_write_back_belongs_to_the_cgroup_that_wrote(record: Record, group: Path, tmp_path: Path, mode: str) -> None:
    """A trace of a cgroup has the write-back of what its processes wrote, and of nothing that others wrote: as many
    bytes as the kernel counts for the cgroup. Kernel threads of the root cgroup make these requests."""
    with loop_disk(tmp_path / "disk") as disk, mounted(disk, tmp_path / "mounted") as folder:
        os.sync()
        before = counters(disk)
        options = {"mode": mode, "interval_ms": ONE_INTERVAL_MS}
        recording = record("block", python(WRITERS, folder, group), target=Target(cgroup=group.name), **options)
        rows = of(recording.rows("block" if mode == "events" else "block_summary"), disk, "write")
        assert sum(row["bytes"] for row in rows) == charged(group, disk) >= 3 << 20
        assert (counters(disk) - before)["written_sectors"] * 512 >= 8 << 20
    later = [row for row in rows if row["writeback"]]
    assert sum(row["bytes"] for row in later) >= 3 << 20
    assert group.stat().st_ino not in {row["cgroup_id"] for row in later}
    if mode == "events":
        assert {row["charged_cgroup_id"] for row in rows} == {group.stat().st_ino}


def test_kills_by_fentry(record: Record, group: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where the kernel's trace of kills tells the pid alone, the function around it tells the rest."""
    (group / "memory.max").write_text(str(24 << 20))
    (group / "memory.swap.max").write_text("0")
    probe = probe_named("memory")
    (by_fentry,) = [way for way in probe.alternatives if "oom_kills" in way.programs]
    recording = record(replace(probe, alternatives=(by_fentry,)), [*PYTHON, HUNGRY, str(group)])
    child, _ = map(int, capfd.readouterr().out.split())
    (killed,) = recording.rows("oom_kill")
    assert (killed["pid"], killed["comm"], killed["reason"]) == (child, "hun\x1b[31mgry", "cgroup")
    assert (killed["trigger_pid"], killed["limited_cgroup_id"]) == (child, group.stat().st_ino)
    assert killed["limit_bytes"] == 24 << 20
    assert killed["score_adj"] == 137
