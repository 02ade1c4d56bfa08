"""What the machine does as a whole, from /proc: processors, memory, disks, network, pressure.

A scrape reads some small files. Labels are few: devices are whole disks, and interfaces are those that have a link, at
most `MOST` of each; beyond, the busiest are told.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

MOST = 32  # disks, and interfaces
_SECTOR = 512  # bytes, whatever the disk's own sectors are
_TICKS = os.sysconf("SC_CLK_TCK")
_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_MEMORY = {
    "MemTotal": ("memory_total_bytes", "Memory of the machine"),
    "MemAvailable": ("memory_available_bytes", "Memory that programs could get without swapping"),
    "Cached": ("memory_cached_bytes", "Memory with contents of files"),
    "Dirty": ("memory_dirty_bytes", "Memory that is to be written to disks"),
    "SwapTotal": ("swap_total_bytes", "Swap space"),
    "SwapFree": ("swap_free_bytes", "Unused swap space"),
}
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PAGING = {
    "pswpin": ("swapped_in_bytes", "Memory read back from swap space", _PAGE),
    "pswpout": ("swapped_out_bytes", "Memory written to swap space", _PAGE),
    "pgmajfault": ("major_faults", "Page faults that read from a disk", 1),
}
_DISK = {
    0: ("disk_reads", "Completed reads", 1.0),
    2: ("disk_read_bytes", "Bytes read", float(_SECTOR)),
    4: ("disk_writes", "Completed writes", 1.0),
    6: ("disk_written_bytes", "Bytes written", float(_SECTOR)),
    9: ("disk_busy_seconds", "Time in which the disk had requests", 1e-3),
}
_NETWORK = {
    0: ("network_received_bytes", "Bytes received"),
    1: ("network_received_packets", "Packets received"),
    2: ("network_receive_errors", "Packets that were received with an error"),
    3: ("network_receive_drops", "Received packets that were dropped"),
    8: ("network_sent_bytes", "Bytes sent"),
    9: ("network_sent_packets", "Packets sent"),
    10: ("network_send_errors", "Packets that could not be sent because of an error"),
    11: ("network_send_drops", "Packets that were dropped before they were sent"),
}
_PRESSURE = ("cpu", "memory", "io")


class HostCollector(Collector):
    """Reads the machine's counters at each scrape. What the kernel does not have is left out."""

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._proc, self._sys = proc, sys

    def collect(self) -> Iterator[Metric]:
        """The current metrics."""
        yield from self._processors()
        yield from self._memory()
        yield from self._disks()
        yield from self._network()
        yield from self._pressure()

    def _processors(self) -> Iterator[Metric]:
        lines = self._lines("stat")
        modes = CounterMetricFamily("scope_host_cpu_seconds", "Time of all CPUs by mode", labels=["mode"])
        for line in lines:
            kind, *numbers = line.split()
            if kind == "cpu":
                # A guest's time is in user and nice, too.
                for mode, ticks in zip(_MODES, numbers, strict=False):
                    modes.add_metric([mode], int(ticks) / _TICKS)
        yield modes
        cpus = sum(line.startswith("cpu") for line in lines) - 1
        yield GaugeMetricFamily("scope_host_cpus", "CPUs that are on", max(cpus, 0))
        counted = {
            name: int(value) for name, value, *_ in (line.split() for line in lines) if name in ("ctxt", "btime")
        }
        yield CounterMetricFamily("scope_host_context_switches", "Switches of threads", counted.get("ctxt", 0))
        yield GaugeMetricFamily(
            "scope_host_boot_time_seconds", "Start of the kernel, since 1970", counted.get("btime", 0)
        )
        for line in self._lines("loadavg"):
            for minutes, load in zip((1, 5, 15), line.split(), strict=False):
                meaning = f"Mean number of runnable and blocked threads in {minutes} min"
                yield GaugeMetricFamily(f"scope_host_load{minutes}", meaning, float(load))

    def _memory(self) -> Iterator[Metric]:
        sizes = {line.partition(":")[0]: int(line.split()[1]) << 10 for line in self._lines("meminfo")}
        for key, (name, meaning) in _MEMORY.items():
            if key in sizes:
                yield GaugeMetricFamily(f"scope_host_{name}", meaning, sizes[key])
        for line in self._lines("vmstat"):
            key, _, number = line.partition(" ")
            if key in _PAGING:
                name, meaning, unit = _PAGING[key]
                yield CounterMetricFamily(f"scope_host_{name}", meaning, int(number) * unit)

    def _disks(self) -> Iterator[Metric]:
        found: dict[str, list[int]] = {}
        for line in self._lines("diskstats"):
            _, _, device, *numbers = line.split()
            values = [int(number) for number in numbers]
            if any(values) and self._is_disk(device):
                found[device] = values
        yield from self._counted(found, "device", _DISK)

    def _network(self) -> Iterator[Metric]:
        found: dict[str, list[int]] = {}
        for line in self._lines("net/dev")[2:]:
            interface, _, numbers = line.partition(":")
            values = [int(number) for number in numbers.split()]
            if any(values) and interface.strip() != "lo":
                found[interface.strip()] = values
        yield from self._counted(found, "interface", {place: (*named, 1.0) for place, named in _NETWORK.items()})

    def _pressure(self) -> Iterator[Metric]:
        families = {
            kind: CounterMetricFamily(f"scope_host_{name}_seconds", meaning, labels=["resource"])
            for kind, name, meaning in (
                ("some", "pressure", "Time in which some task waited for the resource"),
                ("full", "stalled", "Time in which all tasks waited for the resource"),
            )
        }
        for resource in _PRESSURE:
            for line in self._lines(f"pressure/{resource}"):
                kind, _, rest = line.partition(" ")
                families[kind].add_metric([resource], int(rest.rpartition("total=")[2]) * 1e-6)
        yield from families.values()

    def _counted(
        self, found: dict[str, list[int]], label: str, places: dict[int, tuple[str, str, float]]
    ) -> Iterator[Metric]:
        busiest = sorted(found, key=lambda name: -sum(found[name]))[:MOST]
        for place, (name, meaning, unit) in places.items():
            family = CounterMetricFamily(f"scope_host_{name}", meaning, labels=[label])
            for one in sorted(busiest):
                if place < len(found[one]):
                    family.add_metric([one], found[one][place] * unit)
            yield family

    def _is_disk(self, device: str) -> bool:
        # Neither a partition nor a part of another disk: those would count twice.
        block = self._sys / "block" / device.replace("/", "!")
        return block.exists() and not device.startswith(("loop", "ram", "dm-", "md", "zram"))

    def _lines(self, name: str) -> list[str]:
        try:
            return (self._proc / name).read_text().splitlines()
        except OSError:  # a kernel without it, or a mount that hides it
            return []
