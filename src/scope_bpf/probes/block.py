"""Disks: every request to a block device, with the thread that made it."""

from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Stream, Summary
from scope_catalogue.guide import Example, Guide
from scope_catalogue.shown import Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Failed, Quantiles, Sum, Table

_DISK = Column("name of the disk, such as nvme0n1; its partitions have no name of their own")
_OPERATION = Column("read, write, flush, discard, secure_erase, write_zeroes, zone_append, driver_in or driver_out")
_WRITEBACK = Column("1 if a kernel thread made the write, as it does with what processes have written to memory before")

GUIDE = Guide(
    examples=(
        Example(
            "scope trace block --duration 1",
            "requests to all disks: who made them, and how long they waited for the device and in it",
        ),
        Example(
            "scope trace block --mode summary --duration 1",
            "the same, added up by process, disk and operation, with histograms",
        ),
        Example(
            "scope trace block --lines -- dd if=/dev/zero of=/tmp/data bs=4096 count=7 conv=fsync status=none",
            "the requests of a command that waits for its data to be on the disk",
        ),
    ),
    notes=(
        "`queue_ns` is the time until the device got the request, `device_ns` the time from then on.",
        "`bytes` is the size when the device got the request, with what has been merged into it by then.",
        "pid and comm are those of the thread that made the request. For write-back this is a kernel thread: "
        "`charged_cgroup_id` tells whose pages they are, if the controller `io` is enabled.",
    ),
    limits=(
        "Reads from the page cache make no request: `scope trace files` shows them.",
        "Traces of a process miss the write-back of what it wrote, which kernel threads do. Those of a cgroup or a "
        "container, without another target, have what the kernel charges to it. For write-back, cgroup v2 needs the "
        "controllers `io` and `memory` there, and a file system that tells whose pages it writes, such as ext4, XFS or "
        "Btrfs. The write-back of a file that several cgroups write to is charged to one of them at a time.",
        "The wait for a place in a full queue, and that for a cgroup's own limit (`io.max`), come before the request: "
        "they are in neither time.",
        "Before Linux 6.5, the time begins when a request enters a queue or, without a scheduler, the device; and "
        "`flushes` may be 0 for what the block layer does in steps, and a flush has the block layer's row alone.",
        "A flush has a row for the process that waits for it, with `issued` 0, and one for the request that the block "
        "layer makes of one or several of them, with a kernel thread's name.",
    ),
)

PROBE = Probe(
    name="block",
    meaning="disk requests: time in the queue and in the device, size, operation, and who made them",
    streams=(
        Stream(
            "block",
            "one row per finished request, timed at its end",
            columns={
                "disk": _DISK,
                "device": Column(
                    "device number of the partition, or of the whole disk: major << 20 | minor", identity=True
                ),
                "operation": _OPERATION,
                "bytes": Column("size when the device got it", "bytes"),
                "sector": Column("first sector, of 512 bytes; 0 for flushes", identity=True),
                "queue_ns": Column("from its making until the device got it", "ns"),
                "device_ns": Column("from then until it was done, with a flush after it, if it needs one", "ns"),
                "failed": Column("1 if the device could not do it"),
                "writeback": _WRITEBACK,
                "sync": Column("1 if it is a write that a thread waits for; for reads, 0"),
                "metadata": Column("1 if it is about the file system's own data"),
                "readahead": Column("1 if it reads ahead of what a thread has asked for, or more than that"),
                "flushes": Column("1 if the data must be beyond the device's cache afterwards"),
                "issued": Column(
                    "0 if the device never got it itself: flushes that the block layer does at once for many"
                ),
                "charged_cgroup_id": Column(
                    "id of the cgroup that the request is charged to; absent if unknown", identity=True
                ),
            },
            null_unless={"charged_cgroup_id": "charged_cgroup_id"},
            failed="failed = 1",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "disk", "operation"),
                        (
                            Count(),
                            Failed(),
                            Sum("bytes"),
                            Sum("device_ns"),
                            Quantiles("queue_ns"),
                            Quantiles("device_ns"),
                        ),
                        ranked_by=("device_ns",),
                        title="requests by program and disk",
                    ),
                ),
                line=("disk", "operation", "sector", "bytes", "queue_ns", "device_ns"),
                timeline=Timeline(
                    slices=(
                        Slices(named=("operation",), lasting="device_ns", ending=True, on=("disk",), below="requests"),
                    )
                ),
            ),
            rollup=Rollup(by=("comm", "disk", "operation"), measured="device_ns"),
        ),
        Stream(
            "block_summary",
            "requests by process, disk and operation",
            columns={
                "disk": _DISK,
                "operation": _OPERATION,
                "writeback": _WRITEBACK,
                "count": Column("finished requests"),
                "bytes": Column("their bytes", "bytes"),
                "failed": Column("how many failed"),
                "queue_ns": Column("sum of the times until the device got them", "ns"),
                "device_ns": Column("sum of the times in the device", "ns"),
                "queue": Column("histogram of the times until the device got them, in powers of two", "ns"),
                "device": Column("histogram of the times in the device, in powers of two", "ns"),
            },
            summary=Summary(),
            failed="failed > 0",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid", "disk", "operation"),
                        (
                            Sum("count"),
                            Sum("failed"),
                            Sum("bytes"),
                            Sum("device_ns"),
                            Quantiles("queue"),
                            Quantiles("device"),
                        ),
                        ranked_by=("device_ns",),
                    ),
                )
            ),
            rollup=Rollup(
                by=("comm", "disk", "operation"),
                count="count",
                measured="device_ns",
                histogram="device",
            ),
        ),
    ),
    ring_bytes=4 << 20,
    alternatives=(
        Alternative(
            "tp_btf: block_io_start, block_rq_issue, block_rq_complete",
            ("request_done", "request_issued", "request_made"),
        ),
        Alternative(
            "tp_btf: block_rq_insert, block_rq_issue, block_rq_complete",
            ("request_done", "request_issued", "request_inserted"),
        ),
    ),
    guide=GUIDE,
)
