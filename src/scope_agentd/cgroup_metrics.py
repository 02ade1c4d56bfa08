"""What containers and systemd units use, from their cgroups' files.

A scrape reads some small files of each. Labels are few: of containers and units, the `MOST` that used most CPU time are
told, and how many are left out is a metric.
"""

import os
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scope_bpf.cgroups.files import Figures
from scope_bpf.cgroups.tree import Cgroup, Hierarchy, cgroups, hierarchies
from scope_bpf.containers.containers import Containers
from scope_bpf.containers.paths import named_by

MOST = 100
_LABELS = ("container", "pod", "namespace", "unit")
_COUNTERS = {
    "cpu": ("cpu_seconds", "Time on CPUs", 1e-9),
    "throttled": ("throttled_seconds", "Time of each CPU in which the cgroup's limit kept threads from running", 1e-9),
    "oom_kills": ("oom_kills", "Processes that were killed because memory was short", 1),
    "reads": ("disk_reads", "Reads of disks", 1),
    "read_bytes": ("disk_read_bytes", "Bytes read from disks", 1),
    "writes": ("disk_writes", "Writes to disks", 1),
    "written_bytes": ("disk_written_bytes", "Bytes written to disks", 1),
}
_GAUGES = {
    "memory_bytes": "Memory in use, with cached contents of files",
    "memory_limit_bytes": "Limit of memory; absent without one",
    "anon_bytes": "Memory of programs that is not of files",
    "swap_bytes": "Swap space in use",
    "threads": "Threads",
}
_RESOURCES = ("cpu", "memory", "io")


class CgroupCollector(Collector):
    """Reads the cgroups of containers and units at each scrape. What the kernel does not have is left out.

    Args:
        of: the hierarchies; None: those that are mounted.
    """

    def __init__(self, containers: Containers, of: Sequence[Hierarchy] | None = None) -> None:
        self._containers, self._of = containers, of

    def collect(self) -> Iterator[Metric]:
        """The current metrics."""
        found = [(cgroup, cgroup.counted()) for cgroup in cgroups(self._of or hierarchies()) if _is_named(cgroup.path)]
        found = [(cgroup, counted) for cgroup, counted in found if counted]  # the others have ended
        told: dict[tuple[str, ...], Figures] = {}
        for cgroup, counted in sorted(found, key=lambda one: -one[1].get("cpu", 0)):
            if len(told) == MOST:
                break
            labels = self._labels(cgroup)
            if labels not in told:  # users may have units with the same name
                told[labels] = counted | cgroup.details()
        yield from _families(told)
        yield GaugeMetricFamily(
            "scope_cgroups_left_out",
            "Containers and systemd units without metrics of their own",
            len(found) - len(told),
        )

    def _labels(self, cgroup: Cgroup) -> tuple[str, ...]:
        path = os.fsencode(cgroup.path).decode(errors="backslashreplace")
        member = self._containers.of(f"0::{path}\n")
        return tuple(member.shown(name) or "" for name in _LABELS)


def _is_named(path: str) -> bool:
    """Whether a cgroup is that of a container or unit, and not only below it."""
    named, outer = named_by(path), named_by(path.rpartition("/")[0])
    return bool(
        (named.container_id and named.container_id != outer.container_id) or (named.unit and named.unit != outer.unit)
    )


def _families(told: dict[tuple[str, ...], Figures]) -> Iterator[Metric]:
    for figure, (name, meaning, unit) in _COUNTERS.items():
        counter = CounterMetricFamily(f"scope_cgroup_{name}", meaning, labels=_LABELS)
        for labels, figures in told.items():
            if figure in figures:
                counter.add_metric(labels, figures[figure] * unit)
        yield counter
    for name, meaning in _GAUGES.items():
        gauge = GaugeMetricFamily(f"scope_cgroup_{name}", meaning, labels=_LABELS)
        for labels, figures in told.items():
            if name in figures:
                gauge.add_metric(labels, figures[name])
        yield gauge
    waited = CounterMetricFamily(
        "scope_cgroup_pressure_seconds",
        "Time in which some thread waited for the resource",
        labels=(*_LABELS, "resource"),
    )
    for labels, figures in told.items():
        for resource in _RESOURCES:
            if (figure := f"{resource}_pressure") in figures:
                waited.add_metric((*labels, resource), figures[figure] * 1e-9)
    yield waited
