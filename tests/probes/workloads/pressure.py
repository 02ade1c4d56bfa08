"""Uses up the memory of a machine of its own, and prints as JSON what the kernel says of it. Never run it on a host.

First it asks for more huge pages than there can be, so that the kernel reclaims and compacts memory for it. Then it
leaves little memory, and has two children that want more: one in a cgroup with a limit, and one without.
"""

import ctypes
import json
import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path

MIB = 1 << 20
MCL_CURRENT, MCL_FUTURE = 1, 2  # include/uapi/asm-generic/mman.h
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
GROUP = Path("/sys/fs/cgroup/hungry")
# "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),...,task=python3,pid=73,uid=0"
KILLED = re.compile(r"oom-kill:constraint=CONSTRAINT_(\w+),.*,pid=(\d+),")


def counted() -> dict[str, int]:
    """What the kernel has counted of stalls so far, of all threads."""
    lines = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    counters = {name: int(count) for name, count in lines}
    return {
        "machine": sum(count for name, count in counters.items() if name.startswith("allocstall")),
        "compaction": counters["compact_stall"],
    }


def hungry(group: Path | None) -> int:
    """A child that wants memory until it is killed; returns its pid."""
    child = os.fork()
    if not child:
        Path("/proc/self/oom_score_adj").write_text("1000")
        if group:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        memory = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1
    os.waitpid(child, 0)
    return child


def kernel_messages() -> Iterator[str]:
    """The lines of the kernel's log."""
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    while True:
        try:
            yield os.read(log, 8192).decode(errors="replace")
        except BlockingIOError:
            return
        except BrokenPipeError:  # the oldest lines are gone
            pass


def main() -> None:
    """Runs the steps."""
    ctypes.CDLL(None).mlockall(MCL_CURRENT | MCL_FUTURE)  # else its own code is read again and again
    before = counted()
    HUGE_PAGES.write_text("100000")
    stalls = {name: count - before[name] for name, count in counted().items()}
    HUGE_PAGES.write_text(str(int(HUGE_PAGES.read_text()) - 24))  # 48 MiB
    Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+memory")
    GROUP.mkdir()
    (GROUP / "memory.max").write_text(str(16 * MIB))
    killed = {"cgroup": hungry(GROUP), "machine": hungry(None)}
    said = [found.groups() for line in kernel_messages() if (found := KILLED.search(line))]
    told = {"stalls": stalls, "killed": killed, "log": said, "group": GROUP.stat().st_ino, "limit": 16 * MIB}
    HUGE_PAGES.write_text("0")
    print(json.dumps(told), flush=True)


main()
