"""What the files of a cgroup say, as whole numbers by name: times in ns, sizes in bytes, counts.

Sources: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/{cpuacct,memory,blkio-controller,pids}.rst and
accounting/psi.rst of the kernel. The figures of a cgroup include those of the cgroups below it, except where a meaning
says otherwise.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Figures = dict[str, int]
Parse = Callable[[bytes], Figures]

# What only grows, and what holds now; each by the name of a column, without `_percent`.
TIMES = (
    *("cpu", "user", "system", "throttled", "cpu_pressure", "cpu_stalled"),
    *("memory_pressure", "memory_stalled", "io_pressure", "io_stalled"),
)
COUNTS = (
    *("limited_periods", "throttled_periods", "reads", "read_bytes", "writes", "written_bytes"),
    *("memory_low_events", "memory_high_events", "memory_max_events", "oom_events", "oom_kills", "oom_group_kills"),
)
SIZES = (
    *("memory_bytes", "memory_peak_bytes", "memory_limit_bytes", "anon_bytes", "file_bytes", "kernel_bytes"),
    *("swap_bytes", "threads"),
)

_BUFFER = 1 << 14  # bytes; few files are larger
_NO_LIMIT = 1 << 62  # cgroup v1 says LONG_MAX, rounded to pages
_NO_DISKS = ("loop", "ram", "zram")
_DEVICES = Path("/sys/dev/block")


@dataclass(frozen=True)
class Files:
    """Files by name.

    Attributes:
        always: what tells whether a cgroup did anything.
        details: what else there is to say of one that did.
    """

    always: Mapping[str, Parse]
    details: Mapping[str, Parse]


def read(folder: str, files: Mapping[str, Parse]) -> Figures:
    """The figures in those of the files that a cgroup has; none: it has ended."""
    found: Figures = {}
    for name, parse in files.items():
        try:
            fd = os.open(f"{folder}/{name}", os.O_RDONLY)
        except OSError:  # its controller is off, the kernel is older, or the cgroup has ended
            continue
        try:
            found |= parse(_text(fd))
        except OSError:  # it has ended meanwhile; pressure is not counted on this machine
            continue
        finally:
            os.close(fd)
    return found


def _text(fd: int) -> bytes:
    text = part = os.read(fd, _BUFFER)
    while len(part) == _BUFFER:
        text += (part := os.read(fd, _BUFFER))
    return text


def _keyed(**wanted: str | tuple[str, int]) -> Parse:
    """Of lines with a key and a number: by key, the figure, and the unit that the number has."""
    units = {key.encode(): name if isinstance(name, tuple) else (name, 1) for key, name in wanted.items()}

    def parse(text: bytes) -> Figures:
        found = {}
        for line in text.splitlines():
            key, _, number = line.partition(b" ")
            if key in units:
                name, unit = units[key]
                found[name] = int(number) * unit
        return found

    return parse


def _number(name: str) -> Parse:
    """One number, or that there is no limit."""

    def parse(text: bytes) -> Figures:
        number = _NO_LIMIT if text.startswith(b"max") else int(text)
        return {name: number} if number < _NO_LIMIT else {}

    return parse


def _pressure(resource: str) -> Parse:
    names = {b"some": f"{resource}_pressure", b"full": f"{resource}_stalled"}

    def parse(text: bytes) -> Figures:
        lines = (line.partition(b" ") for line in text.splitlines())
        return {names[kind]: int(rest.rpartition(b"total=")[2]) * 1000 for kind, _, rest in lines}

    return parse


def _io(text: bytes) -> Figures:
    """Of lines such as `8:0 rbytes=4096 wbytes=0 rios=1 wios=0`."""
    found = dict.fromkeys(_IO.values(), 0)
    for line in text.splitlines():
        device, *pairs = line.split()
        if _is_disk(device.decode()):
            for key, _, number in (pair.partition(b"=") for pair in pairs):
                if key in _IO:
                    found[_IO[key]] += int(number)
    return found


_IO = {b"rbytes": "read_bytes", b"wbytes": "written_bytes", b"rios": "reads", b"wios": "writes"}


def _blkio(read: str, written: str) -> Parse:
    """Of lines such as `8:0 Read 4096`, before a line with the total.

    Newer kernels count only where a cgroup has a limit of I/O (blk_throtl_activated): without lines, nothing is known.
    """
    names = {b"Read": read, b"Write": written}

    def parse(text: bytes) -> Figures:
        found: Figures = {}
        for device, kind, number in (words for line in text.splitlines() if len(words := line.split()) == 3):
            if kind in names and _is_disk(device.decode()):
                found[names[kind]] = found.get(names[kind], 0) + int(number)
        return found

    return parse


@cache
def _is_disk(device: str) -> bool:
    """Whether a device, by its numbers, stores what it gets itself.

    LVM, RAID and encryption send requests on to the devices below, where these count again; so do loop devices.
    """
    folder = _DEVICES / device
    try:
        return not folder.resolve().name.startswith(_NO_DISKS) and not any((folder / "slaves").iterdir())
    except OSError:  # a partition, or sysfs is hidden
        return True


UNIFIED = Files(
    always={
        "cpu.stat": _keyed(
            usage_usec=("cpu", 1000),
            user_usec=("user", 1000),
            system_usec=("system", 1000),
            nr_periods="limited_periods",
            nr_throttled="throttled_periods",
            throttled_usec=("throttled", 1000),
        ),
        "memory.current": _number("memory_bytes"),
        "memory.events": _keyed(
            low="memory_low_events",
            high="memory_high_events",
            max="memory_max_events",
            oom="oom_events",
            oom_kill="oom_kills",
            oom_group_kill="oom_group_kills",
        ),
        "io.stat": _io,
        **{f"{resource}.pressure": _pressure(resource) for resource in ("cpu", "memory", "io")},
    },
    details={
        "memory.peak": _number("memory_peak_bytes"),
        "memory.max": _number("memory_limit_bytes"),
        "memory.stat": _keyed(anon="anon_bytes", file="file_bytes", kernel="kernel_bytes"),
        "memory.swap.current": _number("swap_bytes"),
        "pids.current": _number("threads"),
    },
)

# Of cgroup v1, by controller.
CONTROLLERS = {
    "cpuacct": Files(
        always={
            "cpuacct.usage": _number("cpu"),
            "cpuacct.usage_user": _number("user"),
            "cpuacct.usage_sys": _number("system"),
        },
        details={},
    ),
    "cpu": Files(
        always={
            "cpu.stat": _keyed(
                nr_periods="limited_periods", nr_throttled="throttled_periods", throttled_time="throttled"
            )
        },
        details={},
    ),
    "memory": Files(
        always={
            "memory.usage_in_bytes": _number("memory_bytes"),
            "memory.oom_control": _keyed(oom_kill="oom_kills"),
        },
        details={
            "memory.max_usage_in_bytes": _number("memory_peak_bytes"),
            "memory.limit_in_bytes": _number("memory_limit_bytes"),
            "memory.stat": _keyed(total_rss="anon_bytes", total_cache="file_bytes", total_swap="swap_bytes"),
        },
    ),
    "blkio": Files(
        always={
            "blkio.throttle.io_service_bytes_recursive": _blkio("read_bytes", "written_bytes"),
            "blkio.throttle.io_serviced_recursive": _blkio("reads", "writes"),
        },
        details={},
    ),
    "pids": Files(always={}, details={"pids.current": _number("threads")}),
}
