"""Paths of cgroups by the ids in rows: of all that are there, and of those that are made while somebody watches.

A container may be gone before a row of it is read. So the kernel keeps the path of each new cgroup, and a thread looks
at once what its engine says of the container: when the cgroup is made, and at the first exec in it.
"""

import logging
import os
import select
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from scope_bpf.binding.id_ring import IdRing
from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.probe import OBJECTS
from scope_bpf.errors import ScopeBpfError
from scope_bpf.host import cgroup_root
from scope_bpf.layout.btf import Btf

_NAME, _PROGRAMS = "cgroups", ("cgroup_made", "cgroup_runs")
_MOST_KNOWN = 8192
_WALK_EVERY_S = 5.0
_YOUNG_S = 10.0  # so long engines are asked about a new cgroup's container: at each exec in it, and every _AGAIN_S
_AGAIN_S = 0.1

log = logging.getLogger(__name__)


class CgroupWatch:
    """A context that may be entered several times, from any thread; the first starts it, the last ends it.

    Args:
        look: asks what runs in the cgroup v2 with this path; true if it knows all.
    """

    def __init__(self, look: Callable[[str], bool]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._entered = 0
        self._running: _Running | None = None
        self._known: OrderedDict[int, str] = OrderedDict()
        self._walks_at = 0.0

    def path(self, id_: int) -> str:
        """The path of the cgroup v2 with this id, which may be gone; empty: not known."""
        with self._lock:
            found = self._known.get(id_) or (self._running.path(id_) if self._running else "")
            if not found and time.monotonic() > self._walks_at:
                self._walk()
                self._walks_at = time.monotonic() + _WALK_EVERY_S
                found = self._known.get(id_, "")
            if found:
                self._keep(id_, found)
            return found

    def is_young(self, id_: int) -> bool:
        """Whether the cgroup was made a short time ago, and what runs in it is not known yet."""
        with self._lock:
            return bool(self._running and self._running.is_young(id_))

    def _walk(self) -> None:
        root = cgroup_root()
        for folder, _, _ in os.walk(root) if root else ():
            with suppress(OSError):  # it was removed meanwhile
                self._keep(Path(folder).stat().st_ino, f"/{folder.removeprefix(str(root)).strip('/')}")

    def _keep(self, id_: int, path: str) -> None:
        self._known[id_] = path
        self._known.move_to_end(id_)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def __enter__(self) -> Self:
        with self._lock:
            self._entered += 1
            if self._entered == 1:
                try:
                    self._running = _Running(self._look)
                except (ScopeBpfError, OSError) as error:
                    log.info("containers that end at once may stay without a name", extra={"reason": str(error)})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered or not self._running:
                return
            ended, self._running = self._running, None
        ended.close()


class _Running:
    """The program, and the thread that follows it."""

    def __init__(self, look: Callable[[str], bool]) -> None:
        self._look = look
        elf = (OBJECTS / f"{_NAME}.bpf.o").read_bytes()
        self._object = BpfObject(elf, Btf(elf), _NAME)
        try:
            self._object.load()
            ring = self._object.map("cgroups_made")
            self._ring = IdRing(ring.fd, ring.max_entries)
            self._paths = self._object.map("cgroup_paths")
            self._kept_young = self._object.map("cgroups_young")
            for program in _PROGRAMS:
                self._object.attach(program)
        except BaseException:
            self._object.close()
            raise
        self._ends = os.eventfd(0, os.EFD_CLOEXEC)
        self._young: dict[int, float] = {}
        self._thread = threading.Thread(target=self._run, args=(ring.fd,), name="containers", daemon=True)
        self._thread.start()

    def path(self, id_: int) -> str:
        """The path of a cgroup that was made while this runs."""
        found = self._paths.get(id_.to_bytes(8, sys.byteorder))
        return found.partition(b"\0")[0].decode(errors="backslashreplace") if found else ""

    def is_young(self, id_: int) -> bool:
        return self._kept_young.get(id_.to_bytes(8, sys.byteorder)) is not None

    def _run(self, ring_fd: int) -> None:
        waiting = select.poll()
        for fd in (ring_fd, self._ends):
            waiting.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in waiting.poll(int(1000 * _AGAIN_S) if self._young else None)}
            if self._ends in ready:
                return
            now = time.monotonic()
            for id_ in self._ring.take():
                self._young.setdefault(id_, now + _YOUNG_S)
            for id_, until in list(self._young.items()):
                path = self.path(id_)
                if not path or self._look(path) or now > until:
                    del self._young[id_]
                    self._kept_young.delete(id_.to_bytes(8, sys.byteorder))

    def close(self) -> None:
        """Ends both."""
        os.eventfd_write(self._ends, 1)
        self._thread.join()
        os.close(self._ends)
        self._ring.close()
        self._object.close()
