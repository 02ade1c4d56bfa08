"""Tells the BPF programs how to unwind the stacks of processes: each file's unwind table, and what is mapped where.

Tables are made by a thread of their own; until a file's table is there, its code is unwound by frame pointers.
"""

import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
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
        self._free = list(range(self._slots.max_entries))[::-1]
        self._rows = 0
        self._lock = threading.Lock()
        self._tables: dict[Module, _Table] = {}
        self._making: dict[Module, Future[None]] = {}
        self._mapped: WeakKeyDictionary[Process, list[Mapped]] = WeakKeyDictionary()
        self._unwritten: set[Process] = set()
        self._maker = ThreadPoolExecutor(1, "scope-unwind")
        self._left_out: set[str] = set()
        self._is_closed = False
        self._is_used = object_.has_loaded("unwind_fork")  # not if the options have chosen no stacks

    def note(self, process: Process, mapped: Mapped) -> None:
        """Notes that a process has mapped code, in place of what was there."""
        if not self._is_used:
            return
        with self._lock:
            before = self._mapped.get(process, [])
            kept = [one for one in before if one.end <= mapped.start or one.start >= mapped.end]
            self._mapped[process] = [*kept, mapped]
            self._unwritten.add(process)
            if mapped.module:
                self._submit(mapped.module)

    def note_fork(self, parent: Process, child: Process) -> None:
        """Notes that a process has the same code as its parent; the kernel has told the BPF programs."""
        with self._lock:
            if parent in self._mapped:
                self._mapped[child] = self._mapped[parent]
                if parent in self._unwritten:
                    self._unwritten.add(child)

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
        mapped = sorted(self._mapped[process], key=lambda one: one.start)
        if process.ended is not None:
            return
        if len(mapped) > self._most_mappings:
            self._left_out.add(f"process {process.pid} has mapped more than {self._most_mappings} pieces of code")
        record = np.zeros((), self._process)
        record["count"] = min(len(mapped), self._most_mappings)
        for place, one in zip(record["mappings"], mapped, strict=False):
            place["start"], place["end"] = one.start, one.end
            table = self._tables.get(one.module) if one.module else None
            shift = one.module.elf.shift_of(one.start, one.offset) if one.module and table else None
            if table and shift is not None and one.module:
                place["bias"] = (shift + _base(one.module)) % (1 << 64)
                place["table"], place["rows"] = table.slot, table.rows
        try:
            self._processes.update(process.pid.to_bytes(4, "little"), record.tobytes())
        except KernelError as error:
            log.warning("cannot unwind the stacks of a process", extra={"pid": process.pid, "reason": str(error)})

    def _make(self, module: Module) -> None:
        """Makes a file's table, then tells it to the processes that have mapped the file."""
        try:
            address, section = module.elf.section(".eh_frame")
            rows = unwind_rows(section, address, _base(module), self._row)
            with self._lock:
                if len(rows) and module in self._making and not self._is_closed:
                    self._put(module, rows)
        except (KernelError, OSError) as error:
            self._left_out.add(f"{module.path}: {error}")
        except Exception:
            log.exception("cannot read how to unwind a file's code", extra={"file": module.path})

    def _put(self, module: Module, rows: np.ndarray[Any, np.dtype[Any]]) -> None:
        if not self._free or self._rows + len(rows) > _MOST_ROWS:
            self._left_out.add(f"{module.path}: its table has {len(rows):,} rows, and there is no room for them")
            return
        slot = self._free.pop()
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

    def notes(self) -> list[str]:
        """Which code is unwound by frame pointers only."""
        return [f"unwound by frame pointers: {text}" for text in sorted(self._left_out)]

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


def _base(module: Module) -> int:
    """The address that the rows of a file's table count from."""
    return min((part.address for part in module.elf.segments), default=0)
