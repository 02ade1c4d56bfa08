"""Rows of cgroups: what each that did something used since the last reading, and what it holds now."""

import os
from collections.abc import Sequence
from typing import Any

from scope_bpf.cgroups.files import COUNTS, SIZES, TIMES, Figures
from scope_bpf.cgroups.tree import Cgroup, Hierarchy, cgroups
from scope_bpf.containers.containers import Containers
from scope_catalogue.stream import OF_PROCESS

Row = dict[str, Any]

_SHARES = tuple(name for name in TIMES if name.endswith(("_pressure", "_stalled")))  # of one time, not of each CPU's


class CgroupRows:
    """Remembers the last reading of each cgroup."""

    def __init__(self, hierarchies: Sequence[Hierarchy], containers: Containers) -> None:
        self._hierarchies, self._containers = hierarchies, containers
        self._known: dict[tuple[str, tuple[int, ...]], Figures] = {}

    def rows(self, lasted_ns: int) -> list[Row]:
        """Of cgroups whose figures have changed since the last reading; in the first one, of all that used anything.

        Args:
            lasted_ns: since the last reading; 0: this is the first one.
        """
        before, self._known = self._known, {}
        rows = []
        for cgroup in cgroups(self._hierarchies):
            key = cgroup.path, cgroup.identity
            if counted := cgroup.counted():
                self._known[key] = counted
                if counted != before.get(key) and any(counted.values()):
                    rows.append(self._row(cgroup, counted, before.get(key, {}), lasted_ns))
        return rows

    def _row(self, cgroup: Cgroup, counted: Figures, before: Figures, lasted_ns: int) -> Row:
        path = os.fsencode(cgroup.path).decode(errors="backslashreplace")
        member = self._containers.of(f"0::{path}\n")
        figures = counted | cgroup.details()
        row: Row = {"interval_ns": lasted_ns, "cgroup_id": cgroup.id_ or None, "cgroup": path}
        row |= {name: member.shown(name) for name in OF_PROCESS}
        row |= {name: figures[name] for name in SIZES if name in figures}
        if not lasted_ns:
            return row
        # A cgroup that is new has no figures before: all is new. A controller may have been switched on meanwhile.
        new = {name: max(0, counted[name] - before.get(name, 0)) for name in counted if name in before or not before}
        row |= {name: new[name] for name in COUNTS if name in new}
        for name in TIMES:
            if name in new:
                share = 100 * new[name] / lasted_ns
                row[f"{name}_percent"] = min(100.0, share) if name in _SHARES else share
        return row
