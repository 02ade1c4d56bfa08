"""The `block` probe's flags: those that the kernel's own trace of the same requests has, and those of partitions."""

import os
import re
import stat
import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.probes.disks import (
    SECTOR,
    assert_counted,
    counters,
    ended_in_init,
    knows_the_beginning,
    loop_disk,
    mounted,
    number,
    of,
    of_disk,
    python,
)
from tests.probes.recording import Record, Recording
from tests.tracefs import seen

from scope_bpf.catalogue.target import Target

MOST_ATTEMPTS = 5
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
LINE = re.compile(r"block_io_start: (?P<disk>\d+,\d+) (F?)([RWDN])(F?)(A?)(S?)(M?) ")
OPERATIONS = {"R": "read", "W": "write", "D": "discard", "N": "write_zeroes"}
FLAGS = ("readahead", "sync", "metadata")


def traced(lines: list[str], device: str) -> Counter[tuple[object, ...]]:
    """How many requests of which kind the kernel's own trace has of a disk: operation, flushes, FLAGS."""
    found = Counter[tuple[object, ...]]()
    for line in lines:
        request = LINE.search(line)
        assert request or "block_io_start" not in line, line
        if request and request["disk"] == device:
            before, operation, after, *flags = request.groups()[1:]
            found[OPERATIONS[operation], int(bool(before or after)), *(int(bool(flag)) for flag in flags)] += 1
    return found


@pytest.fixture
def everything(record: Record, tmp_path: Path) -> Iterator[tuple[str, Recording, list[str], Counter[str]]]:
    """A disk, what was recorded of all that a file system asks of it, the kernel's trace, and the disk's counters."""
    if not knows_the_beginning():
        pytest.skip("the kernel has no block_io_start (since 6.5)")
    for attempt in count():
        files = tmp_path / str(attempt)
        files.mkdir()
        with loop_disk(files / "disk") as disk, mounted(disk, files / "mounted") as folder:
            os.sync()
            before = counters(disk)
            with seen("block/block_io_start") as lines, seen("block/block_rq_complete", in_init=True) as ends:
                recording = record("block", python(EVERYTHING, disk, folder), target=Target())
            if not ended_in_init(ends, disk):
                yield disk, recording, lines, counters(disk) - before
                return
        assert attempt < MOST_ATTEMPTS, "each time, requests ended in init, where programs may not run"


def test_flags_are_those_of_the_kernels_own_trace(
    everything: tuple[str, Recording, list[str], Counter[str]],
) -> None:
    """Of the requests of a file system, as many are synchronous, of metadata, ahead, and beyond the cache as the kernel
    says; all of these occur. Flushes, discards and their bytes are those that the disk counts, and so is the time."""
    disk, recording, lines, counted = everything
    rows = of(recording.rows("block"), disk)
    device = number(of_disk(disk))
    expected = traced(lines, f"{device >> 20},{device & 0xFFFFF}")
    of_layer = [row for row in rows if row["operation"] == "flush" and row["issued"]]
    asked = [row for row in rows if row not in of_layer]
    found = Counter(
        (
            "write" if row["operation"] == "flush" else row["operation"],  # empty, and says that it flushes
            *(row[name] for name in ("flushes", *FLAGS)),
        )
        for row in asked
    )
    assert found == expected
    for place, name in enumerate(("flushes", *FLAGS), 1):
        assert {kind[place] for kind in expected} == {0, 1}, name
    assert {kind[0] for kind in expected} >= {"read", "write", "discard"}
    assert {row["flushes"] for row in rows if row["operation"] == "flush"} == {1}
    discards = of(rows, disk, "discard")
    assert (len(discards), sum(row["bytes"] for row in discards)) == (
        counted["discards"],
        counted["discarded_sectors"] * SECTOR,
    )
    assert len(of_layer) == counted["flushes"]
    writes = [row for row in asked if row["operation"] in ("write", "flush")]
    assert len(writes) == counted["writes"]
    assert sum(row["bytes"] for row in writes) == counted["written_sectors"] * SECTOR
    assert_counted(counted["write_ms"], sum(row["queue_ns"] + row["device_ns"] for row in writes))


BEGINS = (2048, 8192)
PARTITIONED = """
import mmap, os, sys
for name, reads in zip(sys.argv[1:], (7, 11, 13)):
    disk = os.open(name, os.O_RDONLY | os.O_DIRECT)
    memory = mmap.mmap(-1, 4096)
    for n in range(reads):
        os.preadv(disk, [memory], 4096 * n)
"""


def test_requests_to_partitions(record: Record, tmp_path: Path) -> None:
    """A request has the number of its partition, or of the disk if it goes to no partition, the disk's name and the
    sector of the disk."""
    with loop_disk(tmp_path / "disk", "--partscan") as disk:
        for n, begin in enumerate(BEGINS, 1):
            subprocess.run(["addpart", disk, str(n), str(begin), "4096"], check=True)
        folders = [of_disk(disk) / f"{Path(disk).name}p{n}" for n in (1, 2)]
        numbers = [number(folder) for folder in (*folders, of_disk(disk))]
        nodes = [tmp_path / str(n) for n in numbers]
        for node, device in zip(nodes, numbers, strict=True):  # where /dev may not be the kernel's own
            os.mknod(node, 0o600 | stat.S_IFBLK, os.makedev(device >> 20, device & 0xFFFFF))
        rows = of(record("block", python(PARTITIONED, *nodes)).rows("block"), disk)
        assert Counter(row["device"] for row in rows) == dict(zip(numbers, (7, 11, 13), strict=True))
        for device, begin in zip(numbers, (*BEGINS, 0), strict=True):
            assert min(row["sector"] for row in rows if row["device"] == device) == begin
