"""Reads what the machine and its processes do, from /proc: what has changed since the last reading, and what is now."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from scope_bpf.cgroups.tree import hierarchies
from scope_bpf.code.proc import TICK_NS
from scope_bpf.containers.containers import Containers
from scope_bpf.errors import NotSupported
from scope_bpf.probes.system.cgroups import CgroupRows
from scope_bpf.probes.system.pace import Pace

Row = dict[str, Any]

_SECTOR = 512  # bytes, whatever the disk's own sectors are
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CPU = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_MEMORY = {
    "MemTotal": "memory_total_bytes",
    "MemAvailable": "memory_available_bytes",
    "Cached": "memory_cached_bytes",
    "Dirty": "memory_dirty_bytes",
    "SwapTotal": "swap_total_bytes",
    "SwapFree": "swap_free_bytes",
}
_VM = {
    "pswpin": ("swapped_in_bytes", _PAGE),
    "pswpout": ("swapped_out_bytes", _PAGE),
    "pgmajfault": ("major_faults", 1),
}
_DISK = {"reads": (0, 1), "read_bytes": (2, _SECTOR), "writes": (4, 1), "written_bytes": (6, _SECTOR)}
_BUSY_MS = 9
_IN_FLIGHT = 8
_NETWORK = {
    **{"received_bytes": 0, "received_packets": 1, "receive_errors": 2, "receive_drops": 3},
    **{"sent_bytes": 8, "sent_packets": 9, "send_errors": 10, "send_drops": 11},
}
_PRESSURE = {
    **{("cpu", "some"): "cpu_pressure_percent", ("memory", "some"): "memory_pressure_percent"},
    **{("memory", "full"): "memory_stalled_percent", ("io", "some"): "io_pressure_percent"},
    ("io", "full"): "io_stalled_percent",
}


class SystemSampler:
    """The sampler of the probe `system`. What is counted is told from the second sample on, as what is new.

    Raises:
        NotSupported: there is no /proc/stat.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self.source = str(proc)
        if not (proc / "stat").exists():
            raise NotSupported(f"{proc / 'stat'} is missing: mount proc there")
        self._machine: dict[str, int] = {}
        self._disks: dict[str, list[int]] = {}
        self._networks: dict[str, list[int]] = {}
        self._last_ns = 0
        self._paced = {
            "system_process": Pace(self._process_rows),
            "system_cgroup": Pace(CgroupRows(hierarchies(proc), Containers()).rows),
        }
        self._stats: dict[int, bytes] = {}  # the text of each process's stat, as it was read last

    def close(self) -> None:
        """Nothing is held."""

    def sample(self) -> Mapping[str, list[Row]]:
        """The current rows by stream."""
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        lasted_ns, self._last_ns = now_ns - self._last_ns if self._last_ns else 0, now_ns
        found = {
            "system": [self._system(lasted_ns)],
            "system_disk": self._disk_rows(lasted_ns),
            "system_network": self._network_rows(lasted_ns),
        }
        for stream, pace in self._paced.items():
            if (rows := pace.read(now_ns)) is not None:
                found[stream] = rows
        return found

    def _system(self, lasted_ns: int) -> Row:
        counts = self._counts()
        before, self._machine = self._machine, counts
        # The kernel's figures of idle CPUs may go back a little.
        new = {name: max(0, counts[name] - before[name]) for name in counts.keys() & before.keys()}
        row: Row = {"interval_ns": lasted_ns} | self._now()
        ticks = [new[state] for state in _CPU if state in new]
        for state in _CPU:
            if sum(ticks):
                row[f"{state}_percent"] = 100 * new.get(state, 0) / sum(ticks)
        for name in _PRESSURE.values():
            if name in new and lasted_ns:
                row[name] = min(100.0, new[name] * 1e5 / lasted_ns)  # from µs
        return row | {
            name: new[name] for name in ("context_switches", *(name for name, _ in _VM.values())) if name in new
        }

    def _counts(self) -> dict[str, int]:
        """What only grows."""
        counts: dict[str, int] = {}
        for line in self._lines("stat"):
            name, *numbers = line.split()
            if name == "cpu":
                counts |= zip(_CPU, map(int, numbers), strict=False)
            elif name == "ctxt":
                counts["context_switches"] = int(numbers[0])
        for line in self._lines("vmstat"):
            name, _, number = line.partition(" ")
            if name in _VM:
                counts[_VM[name][0]] = int(number) * _VM[name][1]
        for resource in dict.fromkeys(resource for resource, _ in _PRESSURE):
            for line in self._lines(f"pressure/{resource}"):
                if share := _PRESSURE.get((resource, line.partition(" ")[0])):
                    counts[share] = int(line.rpartition("total=")[2])
        return counts

    def _now(self) -> Row:
        """What holds at this moment."""
        sizes = {line.partition(":")[0]: int(line.split()[1]) << 10 for line in self._lines("meminfo")}
        row: Row = {name: sizes[key] for key, name in _MEMORY.items() if key in sizes}
        for line in self._lines("loadavg"):
            one, five, fifteen, threads, _ = line.split()
            runnable, _, all_ = threads.partition("/")
            row |= {"load_1": float(one), "load_5": float(five), "load_15": float(fifteen)}
            row |= {"runnable": int(runnable), "threads": int(all_)}
        row["cpus"] = sum(line[:3] == "cpu" for line in self._lines("stat")) - 1
        return row

    def _disk_rows(self, lasted_ns: int) -> list[Row]:
        now = {}
        for line in self._lines("diskstats"):
            _, _, disk, *numbers = line.split()
            now[disk] = [int(number) for number in numbers]
        before, self._disks = self._disks, {disk: values for disk, values in now.items() if any(values)}
        rows: list[Row] = []
        for disk, values in self._disks.items():
            row: Row = {"interval_ns": lasted_ns, "disk": disk, "in_flight": values[_IN_FLIGHT]}
            if (old := before.get(disk)) and lasted_ns:
                row |= {name: (values[at] - old[at]) * unit for name, (at, unit) in _DISK.items()}
                row["busy_percent"] = min(100.0, (values[_BUSY_MS] - old[_BUSY_MS]) * 1e8 / lasted_ns)
            rows.append(row)
        return rows

    def _network_rows(self, lasted_ns: int) -> list[Row]:
        now = {}
        for line in self._lines("net/dev")[2:]:
            interface, _, numbers = line.partition(":")
            now[interface.strip()] = [int(number) for number in numbers.split()]
        before, self._networks = self._networks, now
        return [
            {"interval_ns": lasted_ns, "interface": interface}
            | {name: values[at] - before[interface][at] for name, at in _NETWORK.items()}
            for interface, values in now.items()
            if interface in before
        ]

    def _process_rows(self, lasted_ns: int) -> list[Row]:
        """Of processes whose state has changed since the last reading; most have not, and are not looked into."""
        before, self._stats = self._stats, {}
        rows = []
        for name in os.listdir(self._proc):  # noqa: PTH208 - paths of a thousand processes take a while to make
            if not name.isdecimal():
                continue
            pid = int(name)
            with suppress(OSError):  # it has ended
                self._stats[pid] = text = self._read(f"{name}/stat")
                if text != before.get(pid) and lasted_ns:
                    rows.append(self._process(pid, text, before.get(pid, b""), lasted_ns))
        return rows

    def _process(self, pid: int, text: bytes, before: bytes, lasted_ns: int) -> Row:
        comm, values = _parsed(text)
        _, old = _parsed(before)
        used = sum(values[_USER : _SYSTEM + 1])
        if old and old[_START] == values[_START]:
            used -= sum(old[_USER : _SYSTEM + 1])
        row: Row = {
            "interval_ns": lasted_ns,
            "pid": pid,
            "start_ns": values[_START] * TICK_NS,
            "uid": (self._proc / str(pid)).stat().st_uid,
            "comm": comm,
            "cpu_percent": used * TICK_NS * 100 / lasted_ns,
            "rss_bytes": values[_RSS] * _PAGE,
            "virtual_bytes": values[_VIRTUAL],
            "threads": values[_THREADS],
        }
        with suppress(OSError):  # of another user, or it has ended
            sizes = dict(line.split(b": ") for line in self._read(f"{pid}/io").splitlines())
            row |= {"disk_read_bytes": int(sizes[b"read_bytes"]), "disk_written_bytes": int(sizes[b"write_bytes"])}
        return row

    def _read(self, name: str) -> bytes:
        fd = os.open(f"{self._proc}/{name}", os.O_RDONLY)
        try:
            return os.read(fd, 4096)
        finally:
            os.close(fd)

    def _lines(self, name: str) -> list[str]:
        try:
            return (self._proc / name).read_text().splitlines()
        except OSError:  # a kernel without it, or a mount that hides it
            return []


# Fields of /proc/PID/stat behind the name, proc(5).
_USER, _SYSTEM, _THREADS, _START, _VIRTUAL, _RSS = 11, 12, 17, 19, 20, 21


def _parsed(stat: bytes) -> tuple[str, list[int]]:
    """The name, which may contain anything, and the numbers behind it; the state, a letter, is 0."""
    _, _, rest = stat.partition(b"(")
    name, _, fields = rest.rpartition(b")")
    return name.decode(errors="backslashreplace"), [0, *map(int, fields.split()[1:])] if fields else []
