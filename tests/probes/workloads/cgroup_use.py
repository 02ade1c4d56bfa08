"""Joins cgroups, then uses what it is told to: CPU time, memory, a disk. Prints what it used as JSON, and waits.

Arguments: a file to write, seconds of CPU time, bytes of memory, bytes to write, and folders of cgroups.
"""

import json
import mmap
import os
import sys
import time
from pathlib import Path

BLOCK = 1 << 16


def main(path: str, cpu_s: float, memory: int, written: int, *folders: str) -> None:
    """Uses what it is told to."""
    for folder in folders:
        Path(folder, "cgroup.procs").write_text(str(os.getpid()))
    begin = time.process_time_ns()
    held = mmap.mmap(-1, max(memory, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, memory, mmap.PAGESIZE):
        held[at] = 1
    if written:
        page_aligned = mmap.mmap(-1, BLOCK)
        disk = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
        for at in range(0, written, BLOCK):
            os.pwrite(disk, page_aligned, at)
        os.close(disk)
    while time.process_time_ns() - begin < cpu_s * 1e9:
        pass
    print(json.dumps({"cpu_ns": time.process_time_ns() - begin}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
