"""The `block` probe's times: those of a disk that is slow on purpose, beside the disk's own counters."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.probes.cgroups import ROOT, limited
from tests.probes.disks import assert_counted, counters, loop_disk, of, of_disk, python
from tests.probes.recording import ONE_INTERVAL_MS, Record

A_SECOND = 50  # requests that the slow disk does
DEPTH = 4  # requests that it takes at once

# Each of some threads reads the disk, one page after the other. Tells for how long they waited, together.
READS = """
import mmap, os, sys, threading, time
name, group, threads, reads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
open(group + "/cgroup.procs", "w").write(str(os.getpid()))
disk = os.open(name, os.O_RDONLY | os.O_DIRECT)
waited = []
def read(thread):
    memory = mmap.mmap(-1, 4096)
    for n in range(thread * reads, (thread + 1) * reads):
        begin = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        os.preadv(disk, [memory], 65536 * n)
        waited.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME) - begin)
running = [threading.Thread(target=read, args=(n,)) for n in range(threads)]
for thread in running: thread.start()
for thread in running: thread.join()
print(len(waited), sum(waited))
"""


def few_reads(disk: str) -> dict[Path, dict[str, str]]:
    """The limits of a cgroup whose processes get few reads a second from a disk."""
    number = (of_disk(disk) / "dev").read_text().strip()
    version_1 = {"blkio.throttle.read_iops_device": f"{number} {A_SECOND}"}
    return {ROOT / "blkio": version_1, ROOT: {"io.max": f"{number} riops={A_SECOND}"}}


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A disk that takes a few requests at once and keeps the others in its queue, and a cgroup for which it is slow.

    It is a loop device above another one: the limit is on the lower one, so that the upper one has the requests
    meanwhile. Without a scheduler, a change of nr_requests changes how many it takes at once.
    """
    with (
        loop_disk(tmp_path / "disk") as lower,
        loop_disk(Path(lower), "--direct-io=on") as upper,
        limited("io", few_reads(lower)) as group,
    ):
        queue = of_disk(upper) / "queue"
        (queue / "scheduler").write_text("none")
        (queue / "nr_requests").write_text(str(DEPTH))
        (queue / "scheduler").write_text("mq-deadline")
        yield upper, group


@dataclass(frozen=True)
class Reads:
    """What was recorded of reads, in ns, and the disk's own counters of them."""

    rows: list[dict[str, Any]]
    queue: int
    device: int
    counted: Counter[str]


def recorded(record: Record, disk: str, group: Path, threads: int, each: int) -> Reads:
    """Records that so many threads read, each so many times."""
    before = counters(disk)
    recording = record("block", python(READS, disk, group, str(threads), str(each)))
    counted = counters(disk) - before
    rows = of(recording.rows("block"), disk, "read")
    queue, device = (sum(row[name] for row in rows) for name in ("queue_ns", "device_ns"))
    return Reads(rows, queue, device, counted)


def test_a_request_alone_waits_for_the_device_only(
    record: Record, slow: tuple[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """Of requests one after the other, the time is in the device, which does 50 a second; together with the time in
    the queue it is what the disk counts, and no more than what the program waits. They are charged to its cgroup."""
    disk, group = slow
    found = recorded(record, disk, group, 1, 41)
    reads, waited = map(int, capfd.readouterr().out.split())
    assert len(found.rows) == found.counted["reads"] == reads == 41
    assert found.queue < found.device / 10
    assert found.device > (41 - 2 * A_SECOND // 10) / A_SECOND * 1e9, "the limit is kept by tenths of a second"
    assert found.queue + found.device <= waited
    assert_counted(found.counted["read_ms"], found.queue + found.device)
    assert {row["charged_cgroup_id"] for row in found.rows} == {group.stat().st_ino}


def test_a_long_queue(record: Record, slow: tuple[str, Path]) -> None:
    """Of requests by many threads at once, most time is in the queue: the device never has more than it takes. Both
    together are what the disk counts."""
    disk, group = slow
    found = recorded(record, disk, group, 23, 3)
    assert len(found.rows) == found.counted["reads"] == 23 * 3
    assert found.queue > found.device > 0
    assert_counted(found.counted["read_ms"], found.queue + found.device)
    changes = sorted(
        change for row in found.rows for change in ((row["ktime_ns"] - row["device_ns"], 1), (row["ktime_ns"], -1))
    )
    within = [sum(change for _, change in changes[: n + 1]) for n in range(len(changes))]
    assert max(within) == DEPTH


def test_sums_of_times(record: Record, slow: tuple[str, Path]) -> None:
    """A summary has the same times as sums, and each request in both histograms at the right size."""
    disk, group = slow
    before = counters(disk)
    recording = record("block", python(READS, disk, group, "23", "3"), mode="summary", interval_ms=ONE_INTERVAL_MS)
    counted = counters(disk) - before
    (row,) = of(recording.rows("block_summary"), disk, "read")
    assert row["count"] == counted["reads"] == 23 * 3
    assert row["queue_ns"] > row["device_ns"] > 0
    assert_counted(counted["read_ms"], row["queue_ns"] + row["device_ns"])
    for sum_, histogram in ((row["queue_ns"], row["queue"]), (row["device_ns"], row["device"])):
        assert sum(histogram) == row["count"]
        least = sum(count << size for size, count in enumerate(histogram) if count)
        assert least <= sum_ < 2 * least, "each power of two is that of its requests"
