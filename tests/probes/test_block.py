"""The `block` probe: requests to a loop device, compared with its own counters in /sys."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.probes.disks import (
    SECTOR,
    counters,
    counters_in,
    in_memory,
    knows_the_beginning,
    loop_disk,
    mounted,
    number,
    of,
    of_disk,
    python,
)
from tests.probes.recording import ONE_INTERVAL_MS, Record

from scope_bpf.catalogue.target import Target

DIRECT = """
import mmap, os, sys
open("/proc/self/comm", "w").write("disk-user")
disk = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
memory = mmap.mmap(-1, 1 << 20)
for n in range(101):
    os.pwritev(disk, [memoryview(memory)[: 4096 * (1 + n % 7)]], 65536 * n)
for n in range(211):
    os.preadv(disk, [memoryview(memory)[: 512 * (1 + n % 11)]], 65536 * n)
"""
WRITTEN = [4096 * (1 + n % 7) for n in range(101)]
READ = [512 * (1 + n % 11) for n in range(211)]

BUFFERED = """
import ctypes, os, sys
counted = open(sys.argv[2]).read()
file = os.open(sys.argv[1] + "/file", os.O_RDWR | os.O_CREAT)
for n in range(64):
    os.write(file, os.urandom(65536))
ctypes.CDLL(None).syncfs(file)  # the kernel's threads write, and it waits
open(sys.argv[3], "w").write(counted + open(sys.argv[2]).read())
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A disk of its own: a file of 64 MiB as a loop device."""
    with loop_disk(tmp_path / "disk") as device:
        yield device


def test_requests_are_those_of_the_program_and_of_the_disk(record: Record, disk: str) -> None:
    """Each direct read and write is one row with its size, pid and name, as the disk's own counters say."""
    before = counters(disk)
    recording = record("block", python(DIRECT, disk))
    counted = counters(disk) - before
    reads, writes = (of(recording.rows("block"), disk, operation) for operation in ("read", "write"))
    assert [row["bytes"] for row in writes] == WRITTEN
    assert [row["bytes"] for row in reads] == READ
    assert (counted["reads"], counted["writes"]) == (len(reads), len(writes))
    assert counted["read_sectors"] * SECTOR == sum(READ)
    assert counted["written_sectors"] * SECTOR == sum(WRITTEN)
    assert {(row["pid"], row["comm"], row["writeback"], row["failed"]) for row in reads + writes} == {
        (recording.pid, "disk-user", 0, 0)
    }
    assert [row["sector"] for row in writes] == [65536 // SECTOR * n for n in range(101)]
    assert {row["device"] for row in reads} == {number(of_disk(disk))}
    assert all(row["device_ns"] > 0 and row["issued"] for row in reads + writes)
    account = recording.accounts["block"]
    assert (account.emitted, account.lost) == (recording.count("block"), {})


def test_a_summary_adds_up(record: Record, disk: str) -> None:
    """Counts, bytes and histograms by process, disk and operation are those of the program."""
    recording = record("block", python(DIRECT, disk), mode="summary", interval_ms=ONE_INTERVAL_MS)
    rows = recording.rows("block_summary")
    for operation, sizes in [("read", READ), ("write", WRITTEN)]:
        (row,) = of(rows, disk, operation)
        assert (row["pid"], row["count"], row["bytes"], row["failed"]) == (recording.pid, len(sizes), sum(sizes), 0)
        assert sum(row["queue"]) == sum(row["device"]) == len(sizes)


def test_write_back_is_flagged(record: Record, disk: str, tmp_path: Path) -> None:
    """What kernel threads write for a program is flagged; with all others, these requests are what the disk counts: no
    fewer than while the program ran, no more than while it was recorded, when the file system may write, too."""
    said = tmp_path / "said"
    with mounted(disk, tmp_path / "mounted") as folder:
        os.sync()
        before = counters(disk)
        recording = record("block", python(BUFFERED, folder, of_disk(disk) / "stat", said), target=Target())
        most = counters(disk) - before
    began, ended = map(counters_in, said.read_text().splitlines())
    least = ended - began
    writes = of(recording.rows("block"), disk, "write")
    flushes = [row for row in of(recording.rows("block"), disk, "flush") if not row["issued"]]  # empty writes, to it
    assert 0 < least["writes"] <= len(writes + flushes) <= most["writes"]
    written = sum(row["bytes"] for row in writes)
    assert least["written_sectors"] * SECTOR <= written <= most["written_sectors"] * SECTOR
    later = [row for row in writes if row["writeback"]]
    assert sum(row["bytes"] for row in later) >= 64 * 65536
    assert recording.pid not in {row["pid"] for row in later}


FAILING = """
import mmap, os, sys
disk = os.open(sys.argv[1], os.O_WRONLY | os.O_DIRECT)
memory = mmap.mmap(-1, 4096)
failed = []
for n in range(37):
    try: os.pwritev(disk, [memory], 65536 * n)
    except OSError: failed.append(n)
print(*failed)
"""


def test_a_failed_request_says_so(record: Record, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Writes for which the disk has no room have failed = 1, and no others: those whose error the program saw."""
    with in_memory(tmp_path / "full", "64k") as folder, loop_disk(folder / "disk") as disk:
        recording = record("block", python(FAILING, disk))
    failed = set(map(int, capfd.readouterr().out.split()))
    rows = of(recording.rows("block"), disk, "write")
    lost = sum(recording.accounts["block"].lost.values())  # such as runs that the kernel left out on a busy machine
    assert 0 < len(failed) < 37
    assert {row["sector"] for row in rows if row["failed"]} <= {65536 // SECTOR * n for n in failed}
    assert {row["sector"] for row in rows if not row["failed"]}.isdisjoint({65536 // SECTOR * n for n in failed})
    assert len(rows) <= 37 <= len(rows) + lost


FLUSHES = "import os, sys\ndisk = os.open(sys.argv[1], os.O_RDWR)\nfor n in range(13): os.fsync(disk)"


def test_a_flush_belongs_to_the_process(record: Record, disk: str) -> None:
    """Each fsync() of the disk is a flush of the process that called it, although the block layer makes the request."""
    if not knows_the_beginning():
        pytest.skip("before 6.5, a flush has only the row of the block layer, which the next test is about")
    recording = record("block", python(FLUSHES, disk))
    rows = of(recording.rows("block"), disk, "flush")
    assert Counter((row["pid"], row["issued"], row["bytes"]) for row in rows) == {(recording.pid, 0, 0): 13}


def test_a_flush_of_the_block_layer(record: Record, disk: str) -> None:
    """Each flush that the disk does is a row of the block layer; the disk counts as many, one for each fsync()."""
    before = counters(disk)
    recording = record("block", python(FLUSHES, disk), target=Target())
    counted = counters(disk) - before
    rows = [row for row in of(recording.rows("block"), disk, "flush") if row["issued"]]
    assert len(rows) == counted["flushes"] == 13
    assert recording.pid not in {row["pid"] for row in rows}
