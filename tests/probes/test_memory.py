"""The `memory` probe: faults beside the kernel's own account of a process, known mappings, a cgroup at its limit."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.probes.cgroups import ROOT, limited
from tests.probes.recording import Record
from tests.tracefs import seen

from scope_bpf.probes import probe_named

PYTHON = [sys.executable, "-S", "-E", "-c"]
PAGE = os.sysconf("SC_PAGE_SIZE")

FAULTS = """
import mmap, os, sys
child = os.fork()
if not child:
    open("/proc/self/comm", "w").write("fau\\x1b[31mlts")
    memory = mmap.mmap(-1, 4096 * 1009, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, len(memory), 4096):
        memory[at] = 1
    with open(sys.executable, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        sum(mapped[at] for at in range(0, len(mapped), 65536))
    os._exit(0)
_, _, used = os.wait4(child, 0)
print(child, used.ru_minflt, used.ru_majflt)
"""


def test_faults_are_those_that_the_kernel_counts(record: Record, capfd: pytest.CaptureFixture[str]) -> None:
    """The faults of a process, from its begin to its end, are those that wait4(2) tells its parent; 1,009 of them are
    writes to new pages."""
    recording = record("memory", [*PYTHON, FAULTS])
    child, minor, major = map(int, capfd.readouterr().out.split())
    last = [row for row in recording.rows("memory_faults") if row["pid"] == child][-1]
    assert (last["minor"], last["major"], last["ended"]) == (minor, major, 1)
    causes = ("by_read", "by_write", "by_copy", "by_exec", "by_kernel")
    assert sum(last[cause] for cause in causes) == minor + major
    assert last["by_write"] >= 1009
    assert last["by_copy"] > 0, "the child writes to pages that it shares with its parent"
    assert not any(account.lost for account in recording.accounts.values())


MAPPINGS = f"""
import ctypes
c = ctypes.CDLL(None, use_errno=True)
c.mmap.restype = c.sbrk.restype = c.mremap.restype = ctypes.c_void_p
c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
c.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
c.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
for n in range(17):
    at = c.mmap(None, 1009 * {PAGE} - 5, 3, 0x22, -1, 0)
    if n < 13:
        c.munmap(at, 1009 * {PAGE})
for n in range(7):
    c.mremap(c.mmap(None, 11 * {PAGE}, 3, 0x22, -1, 0), 11 * {PAGE}, 4999 * {PAGE}, 1)
c.mmap(None, 1 << 62, 3, 0x22, -1, 0)
"""


@pytest.mark.parametrize("stacks", [True, False])
def test_known_mappings(record: Record, stacks: bool) -> None:
    """Each call is one row with the growth that it made, in whole pages; one that fails has its error."""
    recording = record("memory", [*PYTHON, MAPPINGS], stacks=stacks)
    rows = recording.rows("mapping")
    grown = Counter((row["call"], row["grown_bytes"] // PAGE) for row in rows if not row["error"])
    assert grown["mmap", 1009] == 17
    assert grown["munmap", -1009] == 13
    assert grown["mmap", 11] == 7
    assert grown["mremap", 4999 - 11] == 7
    (refused,) = [row for row in rows if row["error"]]
    assert (refused["call"], refused["error"], refused["grown_bytes"]) == ("mmap", -errno.ENOMEM, 0)
    assert {row["anonymous"] for row in rows if row["length_bytes"] == 1009 * PAGE - 5} == {1}


MAPPED_BY = """
#include <sys/mman.h>
#include <unistd.h>
#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")
#define NAMED __attribute__((noinline, noclone)) void
static void *volatile kept;
NAMED by_mmap(void) { kept = mmap(0, 1009 << 12, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
NAMED by_munmap(void) { munmap(kept, 1009 << 12); }
int main(void)
{
	for (int i = 0; i < 53; i++) {
		by_mmap();
		by_munmap();
		usleep(20000);
	}
}
"""


def test_stacks_that_map_memory(record: Record, tmp_path: Path) -> None:
    """Each call that maps memory, or gives it back, has the stack of its caller; before the C library's code can be
    unwound, which has no frame pointers, without the caller itself."""
    (tmp_path / "maps.c").write_text(MAPPED_BY)
    program = str(tmp_path / "maps")
    subprocess.run(["gcc", "-O1", "-o", program, tmp_path / "maps.c"], check=True)
    rows = record("memory", [program]).rows("mapping")
    for call, grown in (("mmap", 1009), ("munmap", -1009)):
        stacks = [row["stack"] for row in rows if (row["call"], row["grown_bytes"]) == (call, grown << 12)]
        assert len(stacks) == 53
        assert f"by_{call};{call}" in {stack.rpartition("main;")[2] for stack in stacks} <= {f"by_{call};{call}", call}


@pytest.fixture
def small_cgroup() -> Iterator[Path]:
    """A cgroup whose processes may use 24 MiB together, and no swap."""
    most = str(24 << 20)
    version_1 = {"memory.limit_in_bytes": most, "memory.memsw.limit_in_bytes": most}
    limits = {ROOT / "memory": version_1, ROOT: {"memory.max": most, "memory.swap.max": "0"}}
    with limited("memory", limits) as folder:
        yield folder


HUNGRY = """
import mmap, os, sys
child = os.fork()
if not child:
    open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
    open("/proc/self/comm", "w").write("hun\\x1b[31mgry")
    open("/proc/self/oom_score_adj", "w").write("137")
    memory = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, len(memory), 4096):
        memory[at] = 1
    os._exit(0)
_, status = os.waitpid(child, 0)
print(child, status)
"""


def test_a_process_beyond_its_cgroups_limit(
    record: Record, small_cgroup: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A process that wants more than its cgroup may have is held up while it reclaims, then killed: with the limit, and
    with itself as the one that wanted the memory."""
    recording = record("memory", [*PYTHON, HUNGRY, str(small_cgroup)])
    child, status = map(int, capfd.readouterr().out.split())
    assert os.WTERMSIG(status) == signal.SIGKILL
    (killed,) = recording.rows("oom_kill")
    assert (killed["pid"], killed["comm"], killed["reason"]) == (child, "hun\x1b[31mgry", "cgroup")
    assert (killed["trigger_pid"], killed["trigger_comm"]) == (child, "hun\x1b[31mgry")
    assert killed["limit_bytes"] == 24 << 20 >= killed["usage_bytes"] > 23 << 20
    assert killed["total_bytes"] > 64 << 20
    assert killed["score_adj"] == 137
    stalls = [row for row in recording.rows("reclaim") if row["pid"] == child and row["kind"] == "cgroup"]
    assert stalls and all(row["duration_ns"] > 0 and row["reclaimed_bytes"] is not None for row in stalls)
    assert recording.accounts["oom_kill"].lost == {}


def test_kills_that_cannot_be_recorded_are_counted(record: Record, small_cgroup: Path) -> None:
    """On an older kernel that does not allow fentry, either, a note tells how many kills there were."""
    probe = probe_named("memory")
    (older,) = [way for way in probe.alternatives if way.unseen]
    recording = record(replace(probe, alternatives=(older,)), [*PYTHON, HUNGRY, str(small_cgroup)], stacks=False)
    assert recording.notes == ["not recorded by memory: 1 kills for lack of memory"]
    assert recording.rows("oom_kill") == []


READS = """
import os, sys
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
with open(sys.argv[2], "rb", buffering=0) as file:
    while file.read(1 << 20):
        pass
"""


def test_stalls_of_a_cgroup_are_the_kernels(record: Record, small_cgroup: Path, tmp_path: Path) -> None:
    """A process that reads more than its cgroup may keep in memory stalls as often, and gets back as much each time, as
    the kernel's own trace says."""
    data = tmp_path / "data"
    with data.open("wb") as file:
        file.write(os.urandom(64 << 20))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with seen("vmscan/mm_vmscan_memcg_reclaim_end") as lines:
        recording = record("memory", [*PYTHON, READS, str(small_cgroup), str(data)], stacks=False)
    told = [int(line.partition("nr_reclaimed=")[2]) * PAGE for line in lines if is_of(line, recording.pid)]
    rows = [row for row in recording.rows("reclaim") if row["kind"] == "cgroup"]
    assert [row["reclaimed_bytes"] for row in rows] == told != []
    assert {(row["pid"], row["order"]) for row in rows} == {(recording.pid, 0)}
    assert sum(told) > 32 << 20


def test_compaction_is_the_kernels(record: Record) -> None:
    """A process that has the kernel compact memory is held up once for each zone, as the kernel's own trace says; it
    wants no pages itself."""
    compact = Path("/proc/sys/vm/compact_memory")
    if not compact.exists():
        pytest.skip("the kernel has no compaction")
    with seen("compaction/mm_compaction_begin") as lines:
        began = time.monotonic_ns()
        recording = record("memory", ["sh", "-c", f"echo 1 > {compact}"], stacks=False)
        took = time.monotonic_ns() - began
    rows = [row for row in recording.rows("reclaim") if row["kind"] == "compaction"]
    assert len(rows) == sum(is_of(line, recording.pid) for line in lines) > 0
    assert {(row["pid"], row["order"], row["reclaimed_bytes"]) for row in rows} == {(recording.pid, None, None)}
    assert 0 < sum(row["duration_ns"] for row in rows) < took


def is_of(line: str, pid: int) -> bool:
    """Whether a line of the kernel's trace is of a thread: `sh-123 [000] ..... 4.5: event: ...`."""
    return f"-{pid} " in line.partition("[")[0]
