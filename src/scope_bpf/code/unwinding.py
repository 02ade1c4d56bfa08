"""Tells the BPF programs how to unwind the stacks of processes: each file's unwind table, and what is mapped where.

Tables are made by a thread of their own; until a file's table is there, its code is unwound by frame pointers.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from scope_bpf.binding.map import fill_array
from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.unwind import unwind_rows
from scope_bpf.code.history import Mapped, Process
from scope_bpf.code.modules import Module
from scope_bpf.errors import KernelError
from scope_bpf.layout.records import record_dtype

log = logging.getLogger(__name__)

_MOST_ROWS = 16 << 20  # of all tables: 128 MB of kernel memory
_MOST_TOLD = 20  # files in notes


@dataclass(frozen=True)
class _Table:
    """A file's table: its slot in `unwind_tables`, and the number of rows; 0: it has none."""

    slot: int
    rows: int


class Unwinding:
    """Writes the maps of unwind.bpf.h. From any thread."""

    def __init__(self, object_: BpfObject) -> None:
        self._object = object_
        self._processes, self._slots = object_.map("unwind_processes"), object_.map("unwind_tables")
        self._row, self._process = record_dtype(object_.btf, "unwind_row"), record_dtype(object_.btf, "unwind_process")
        self._most_mappings = int(self._process["mappings"].shape[0])
        # A slot is used again as late as possible: a process that nobody knows of may still refer to it.
        self._free = deque(range(self._slots.max_entries))
        self._rows = 0
        self._lock = threading.Lock()
        self._tables: dict[Module, _Table] = {}
        self._making: dict[Module, Future[None]] = {}
        self._mapped: WeakKeyDictionary[Process, list[Mapped]] = WeakKeyDictionary()
        self._unwritten: set[Process] = set()
        self._maker = ThreadPoolExecutor(1, "scope-unwind")
        self._too_large: dict[Module, int] = {}  # files without a table for lack of room, and their rows
        self._unread: dict[Module, str] = {}  # files without a table, and the reason
        self._cut: set[Process] = set()  # those with more code than a record has room for
        self._refused = 0  # times that a process could not be told
        self._changed_ns = 0  # when a record was last changed here, CLOCK_BOOTTIME
        self._is_closed = False
        self._is_used = object_.has_loaded("unwind_fork")  # not if the options have chosen no stacks

    def note(self, process: Process, mapped: Mapped) -> None:
        """Notes that a process has mapped code, in place of what was there."""
        if not self._is_used:
            return
        with self._lock:
            before = self._mapped.get(process, [])
            self._mapped[process] = [*(rest for one in before for rest in _without(one, mapped)), mapped]
            self._unwritten.add(process)
            if mapped.module:
                self._submit(mapped.module)

    def note_fork(self, parent: Process, child: Process) -> None:
        """Notes that a process has the same code as its parent. The BPF programs have copied the parent's record; what
        was changed after the fork is not in the copy."""
        with self._lock:
            if parent in self._mapped:
                self._mapped[child] = self._mapped[parent]
                if parent in self._unwritten or child.known_ns <= self._changed_ns:
                    self._unwritten.add(child)

    def note_pruned(self, process: Process) -> None:
        """Notes that mappings of a process are gone."""
        with self._lock:
            if before := self._mapped.get(process):
                left = {_key(one) for one in process.mapped}
                self._mapped[process] = [one for one in before if _key(one) in left]
                self._unwritten.add(process)

    def note_end(self, process: Process) -> None:
        """Notes that a process has ended. The BPF programs have forgotten it, but it may have been written after that;
        who gets its pid is written when it is noted."""
        with self._lock:
            if self._mapped.pop(process, None) is not None and not self._is_closed:
                self._unwritten.discard(process)
                self._cut.discard(process)
                self._processes.delete(process.pid.to_bytes(4, "little"))
                self._note_change()

    def write(self) -> None:
        """Tells the BPF programs what was noted."""
        with self._lock:
            while self._unwritten:
                self._write(self._unwritten.pop())

    def prepare(self, module: Module) -> None:
        """Makes a file's table, before a process maps it."""
        with self._lock:
            self._submit(module)

    def _submit(self, module: Module) -> None:
        if module not in self._making and not self._is_closed and self._is_used:
            self._making[module] = self._maker.submit(self._make, module)

    def _write(self, process: Process) -> None:
        mapped = self._mapped.get(process)
        if mapped is None or process.ended is not None:
            return
        if len(mapped) > self._most_mappings:
            self._cut.add(process)
            mapped = sorted(mapped, key=lambda one: one.module in self._tables)[-self._most_mappings :]
        else:
            self._cut.discard(process)
        record = np.zeros((), self._process)
        record["count"] = len(mapped)
        for place, one in zip(record["mappings"], sorted(mapped, key=lambda one: one.start), strict=False):
            place["start"], place["end"] = one.start, one.end
            table = self._tables.get(one.module) if one.module else None
            shift = one.module.elf.shift_of(one.start, one.offset) if one.module and table else None
            if table and shift is not None and one.module:
                place["bias"] = (shift + _base(one.module)) % (1 << 64)
                place["table"], place["rows"] = table.slot, table.rows
        try:
            self._processes.update(process.pid.to_bytes(4, "little"), record.tobytes())
        except KernelError as error:
            self._refused += 1
            log.warning("cannot unwind the stacks of a process", extra={"pid": process.pid, "reason": str(error)})
        self._note_change()

    def _note_change(self) -> None:
        self._changed_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def _make(self, module: Module) -> None:
        """Makes a file's table, then tells it to the processes that have mapped the file."""
        try:
            address, section = module.elf.section(".eh_frame")
            rows = unwind_rows(section, address, _base(module), self._row)
            with self._lock:
                if len(rows) and module in self._making and not self._is_closed:
                    self._put(module, rows)
                elif (left_out := module.elf.left_out.get(".eh_frame")) and module in self._making:
                    self._unread[module] = f"too large, {left_out}"
        except (KernelError, OSError) as error:
            log.warning("cannot unwind a file's code", extra={"file": module.path, "reason": str(error)})
            with self._lock:
                if module in self._making:
                    self._unread[module] = str(error)
        except Exception:
            log.exception("cannot read how to unwind a file's code", extra={"file": module.path})

    def _put(self, module: Module, rows: np.ndarray[Any, np.dtype[Any]]) -> None:
        if not self._free or self._rows + len(rows) > _MOST_ROWS:
            self._too_large[module] = len(rows)
            log.warning("no room to unwind a file's code", extra={"file": module.path, "rows": len(rows)})
            return
        self._too_large.pop(module, None)
        slot = self._free.popleft()
        fd = self._object.create_like("unwind_first", len(rows))
        try:
            fill_array(fd, rows)
            self._slots.update(slot.to_bytes(4, "little"), fd.to_bytes(4, "little"))
        finally:
            os.close(fd)
        self._rows += len(rows)
        self._tables[module] = _Table(slot, len(rows))
        for process, mapped in list(self._mapped.items()):
            if any(one.module is module for one in mapped):
                self._write(process)

    def drop(self, module: Module) -> None:
        """Forgets a file that no process maps any more."""
        with self._lock:
            self._making.pop(module, None)
            self._too_large.pop(module, None)
            self._unread.pop(module, None)
            table = self._tables.pop(module, None)
            if not table or self._is_closed:
                return
            for process, mapped in list(self._mapped.items()):
                if any(one.module is module for one in mapped):
                    self._mapped[process] = [one for one in mapped if one.module is not module]
                    self._write(process)
            self._slots.delete(table.slot.to_bytes(4, "little"))
            self._rows -= table.rows
            self._free.append(table.slot)
            fits = (one for one, rows in self._too_large.items() if self._rows + rows <= _MOST_ROWS)
            if waiting := next(fits, None):
                del self._making[waiting]
                self._submit(waiting)

    def notes(self) -> list[str]:
        """Which code is unwound by frame pointers only."""
        with self._lock:
            files = [
                *(f"{one.path}: {reason}" for one, reason in self._unread.items()),
                *(f"{one.path}: no room for a table of {rows:,} rows" for one, rows in self._too_large.items()),
            ]
            cut, refused = len(self._cut), self._refused
        told = [*sorted(files)[:_MOST_TOLD]]
        if len(files) > _MOST_TOLD:
            told.append(f"{len(files) - _MOST_TOLD:,} more files")
        if cut:
            told.append(f"some code of {cut:,} processes that have more than {self._most_mappings} pieces of it")
        if refused:
            told.append(f"processes that the kernel had no room for ({refused:,} times)")
        return [f"unwound by frame pointers: {text}" for text in told]

    def settle(self, timeout_s: float) -> None:
        """Waits until all tables are made, but not longer than `timeout_s`."""
        with self._lock:
            making = list(self._making.values())
        wait(making, timeout_s)

    def close(self) -> None:
        """Makes no more tables. May be called again."""
        with self._lock:
            self._is_closed = True
        self._maker.shutdown(cancel_futures=True)


def _key(one: Mapped) -> tuple[int, int, Module | None]:
    """What a mapping, and each part that is left of it, have in common."""
    return one.since_ns, one.start - one.offset, one.module


def _without(old: Mapped, new: Mapped) -> Iterator[Mapped]:
    """What is left of a mapping when another one comes."""
    if old.end <= new.start or old.start >= new.end:
        yield old
        return
    if old.start < new.start:
        yield replace(old, end=new.start)
    if old.end > new.end:
        yield replace(old, start=new.end, offset=old.offset + new.end - old.start)


def _base(module: Module) -> int:
    """The address that the rows of a file's table count from."""
    return min((part.address for part in module.elf.segments), default=0)
