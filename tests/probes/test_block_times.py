"""The `block` probe's times: those of a disk that is slow on purpose, beside the disk's own counters."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
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


@contextmanager
def throttled(disk: str) -> Iterator[Path]:
    """A cgroup whose processes get few reads a second from a disk, until the end of the block."""
    major, minor = (of_disk(disk) / "dev").read_text().strip().split(":")
    for root, limit, text in (
        (Path("/sys/fs/cgroup/blkio"), "blkio.throttle.read_iops_device", f"{major}:{minor} {A_SECOND}"),
        (Path("/sys/fs/cgroup"), "io.max", f"{major}:{minor} riops={A_SECOND}"),
    ):
        folder = root / f"scope-test-{os.getpid()}"
        if not (root / "cgroup.procs").exists():
            continue
        with suppress(OSError):  # it has been switched on, or cannot be
            (root / "cgroup.subtree_control").write_text("+io")
        folder.mkdir()
        try:
            if (folder / limit).exists():
                (folder / limit).write_text(text)
                yield folder
                return
        finally:
            folder.rmdir()
    pytest.skip("no cgroup can limit reads here")


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A disk that takes a few requests at once and keeps the others in its queue, and a cgroup for which it is slow.

    It is a loop device above another one: the limit is on the lower one, so that the upper one has the requests
    meanwhile. Without a scheduler, a change of nr_requests changes how many it takes at once.
    """
    with (
        loop_disk(tmp_path / "disk") as lower,
        loop_disk(Path(lower), "--direct-io=on") as upper,
        throttled(lower) as group,
    ):
        queue = of_disk(upper) / "queue"
        (queue / "scheduler").write_text("none")
        (queue / "nr_requests").write_text(str(DEPTH))
        (queue / "scheduler").write_text("mq-deadline")
        yield upper, group


def test_a_request_alone_waits_for_the_device_only(
    record: Record, slow: tuple[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """Of requests one after the other, the time is in the device, which does 50 a second; together with the time in
    the queue it is what the disk counts, and no more than what the program waits. They are charged to its cgroup."""
    disk, group = slow
    before = counters(disk)
    recording = record("block", python(READS, disk, group, "1", "41"))
    counted = counters(disk) - before
    rows = of(recording.rows("block"), disk, "read")
    queue, device = (sum(row[name] for row in rows) for name in ("queue_ns", "device_ns"))
    reads, waited = map(int, capfd.readouterr().out.split())
    assert len(rows) == counted["reads"] == reads == 41
    assert queue < device / 10
    assert device > (41 - 2 * A_SECOND // 10) / A_SECOND * 1e9, "the limit is kept by tenths of a second"
    assert queue + device <= waited
    assert_counted(counted["read_ms"], queue + device)
    assert {row["charged_cgroup_id"] for row in rows} == {group.stat().st_ino}


def test_a_long_queue(record: Record, slow: tuple[str, Path]) -> None:
    """Of requests by many threads at once, most time is in the queue: the device never has more than it takes. Both
    together are what the disk counts."""
    disk, group = slow
    before = counters(disk)
    recording = record("block", python(READS, disk, group, "23", "3"))
    counted = counters(disk) - before
    rows = of(recording.rows("block"), disk, "read")
    queue, device = (sum(row[name] for row in rows) for name in ("queue_ns", "device_ns"))
    assert len(rows) == counted["reads"] == 23 * 3
    assert queue > device > 0
    assert_counted(counted["read_ms"], queue + device)
    changes = sorted(
        change for row in rows for change in ((row["ktime_ns"] - row["device_ns"], 1), (row["ktime_ns"], -1))
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
