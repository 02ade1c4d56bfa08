"""The `block` probe's flags: those that the kernel's own trace of the same requests has, and those of partitions."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.probes.disks import loop_disk, mounted, number, of, of_disk, python
from tests.probes.recording import Record, Recording
from tests.tracefs import seen

from scope_bpf.catalogue.target import Target

# Everything that a file system asks of a disk: direct, synchronous and later writes, flushes, reads ahead, directories
# that are not in memory, and free space that is given back.
EVERYTHING = """
import fcntl, mmap, os, struct, subprocess, sys
disk, folder = sys.argv[1:]
def again():
    subprocess.run(["umount", folder], check=True)
    subprocess.run(["mount", disk, folder], check=True)
memory = mmap.mmap(-1, 65536)
direct = os.open(folder + "/direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
for n in range(7):
    os.pwritev(direct, [memory], 65536 * n)
os.fsync(direct)
later = os.open(folder + "/later", os.O_RDWR | os.O_CREAT)
os.write(later, os.urandom(1 << 20))
os.posix_fadvise(later, 0, 0, os.POSIX_FADV_DONTNEED)  # begins to write, and waits for nothing
for n in range(13):
    os.makedirs(f"{folder}/directories/{n}")
os.close(direct), os.close(later)
again()
os.listdir(folder + "/directories")
with open(folder + "/later", "rb") as file:
    file.read()
with open(folder + "/later", "rb") as file:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
os.unlink(folder + "/later")
root = os.open(folder, os.O_RDONLY)
os.fsync(root)
fcntl.ioctl(root, 0xC0185879, struct.pack("QQQ", 0, 1 << 40, 0))  # FITRIM
os.close(root)
"""
# "FWFSM", enclosed in blk_fill_rwbs(): a flush before, the operation, beyond the cache, ahead, synchronous, metadata.
LINE = re.compile(r"block_rq_complete: (\d+),(\d+) (F?)(FF|[A-Z]E?)(F?)(A?)(S?)(M?) \(.*\) (\d+) \+ (\d+) .*\[(-?\d+)\]")
OPERATIONS = {"R": "read", "W": "write", "D": "discard", "F": "flush"}
FLAGS = ("flushes", "readahead", "sync", "metadata")
