"""Finds the name of a launched kernel. The name is right, or marked as unknown."""

import logging
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from threading import Event, RLock
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.binding.demangle import demangle
from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.stream import Rows
from scope_bpf.code.effort import give_up_at
from scope_bpf.code.history import Process
from scope_bpf.code.modules import Module, Modules
from scope_bpf.errors import GivenUp
from scope_bpf.probes.cuda.categories import category_of
from scope_bpf.probes.cuda.process_handles import ProcessHandles
from scope_bpf.probes.cuda.registrations import FATBIN, REGISTER, Handles, Kernels, find_handles, find_kernels
from scope_bpf.probes.cuda.stripped import find_launch_functions

log = logging.getLogger(__name__)

REGISTRATION, SYMBOL, DRIVER, OFFSET, HANDLE = "registration", "symbol", "driver", "offset", "handle"

_MOST_KNOWN = 1 << 16  # cached names per file
_MOST_FILES = 5  # named in a note
_NOW = 1 << 63  # later than any known time


@dataclass(frozen=True)
class Name:
    """A kernel's name, its file (empty: unknown), and the source of the name."""

    kernel: str
    module: str
    source: str

    @property
    def category(self) -> str | None:
        """What the kernel computes; None: its name is unknown."""
        return None if self.source in (OFFSET, HANDLE) else category_of(self.kernel)


@dataclass
class KernelsOfModule:
    """The kernels that a file registers, read at the first use. For any thread: the first one reads, others wait."""

    module: Module
    _lock: RLock = field(default_factory=RLock, repr=False)

    @property
    def names(self) -> Kernels:
        """The kernels and their names."""
        with self._lock:
            return self._names

    @property
    def handles(self) -> Handles:
        """The variables that hold the kernels' handles."""
        with self._lock:
            return self._handles

    @cached_property
    def _names(self) -> Kernels:
        found = find_kernels(self.module.elf)
        log.info("kernels of a file", extra={"file": self.module.path, "kernels": len(found)})
        return found

    @cached_property
    def _handles(self) -> Handles:
        return find_handles(self.module.elf, self._names)


class KernelNames:
    """Names of the kernels launched in watched processes.

    The attaching thread adds and drops files, which is fast. Files are read later (1 s per gigabyte): by a background
    thread that reads the handles of running processes, or earlier if a launch or `find_functions` needs them. Names are
    looked up by one thread.

    Args:
        named: dtype of the keys of the map `cuda_names`.
    """

    def __init__(self, object_: BpfObject, modules: Modules, named: np.dtype[Any]) -> None:
        self._names = object_.map("cuda_names")
        self._modules = modules
        self._kernels: dict[int, KernelsOfModule] = {}
        self._handles = ProcessHandles()
        self._closing = Event()
        self._reading = ThreadPoolExecutor(1, "scope-handles", give_up_at, (self._closing,))
        self._last_reading: Future[None] | None = None
        self._known: dict[int, dict[bytes, Name]] = {}  # by inode
        self._stripped: set[str] = set()
        self._launched = np.dtype([("inode", "<u8"), ("offset", "<u8"), ("handle", "<u8"), ("named", named)])

    def add_module(self, module: Module) -> bool:
        """Keeps a file if it has kernels."""
        if not module.elf.has_section(FATBIN):
            return False
        self._kernels.setdefault(module.inode, KernelsOfModule(module))
        return True

    def drop_module(self, module: Module) -> None:
        """Forgets a file, since its inode address may be reused. The file may never have been added."""
        self._known.pop(module.inode, None)
        if self._kernels.pop(module.inode, None):
            self._handles.drop_module(module)
            self._known.pop(0, None)  # kernels launched by handle

    def find_functions(self, module: Module) -> dict[str, int]:
        """Offsets by name of the functions that launch a module's kernels, if its own runtime was stripped.

        Reads the file in that case; otherwise returns at once.
        """
        if module.elf.slots(REGISTER) or module.elf.functions([REGISTER]):
            return {}
        registered = self._kernels.get(module.inode)  # the module may be dropped meanwhile
        if not registered or not len(kernels := registered.names):
            return {}
        found = find_launch_functions(module.elf, kernels)
        self._stripped.add(module.path)
        log.info("the file has the CUDA runtime statically linked and was stripped", extra={"file": module.path})
        return found

    def notes(self) -> list[str]:
        """Which files have a stripped runtime of their own."""
        if not (paths := sorted(self._stripped.copy())):
            return []
        more = f" and {len(paths) - _MOST_FILES:,} more" if len(paths) > _MOST_FILES else ""
        return [
            "the CUDA runtime is stripped in some files, of which only launches and calls of the driver are recorded: "
            + ", ".join(paths[:_MOST_FILES])
            + more
        ]

    def add_process(self, process: Process) -> None:
        """Reads the handles of a running process in the background: the process may have ended when they are needed."""
        if files := self._files_of(process):
            self._last_reading = self._reading.submit(self._read_handles, process.pid, files)

    def _read_handles(self, pid: int, files: dict[int, KernelsOfModule]) -> None:
        try:
            self._handles.read(pid, files)
        except GivenUp:
            log.info("the handles of a process were not read to their end", extra={"pid": pid})
        except Exception:  # any process may have made the file; a launch that needs it will report the error
            log.exception("cannot read the handles of a process", extra={"pid": pid})

    def settle(self, timeout_s: float) -> None:
        """Waits until the handles of all added processes were read, but not longer than `timeout_s`."""
        if self._last_reading:
            wait([self._last_reading], timeout_s)

    def close(self) -> None:
        """Stops reading. May be called again."""
        self._closing.set()
        self._reading.shutdown(cancel_futures=True)

    def columns(self, rows: Rows) -> dict[str, pa.Array]:
        """The columns `kernel`, `module`, `name_source` and `category` of launches; each distinct kernel is looked up
        once.
        """
        launched = np.zeros(len(rows), self._launched)
        launched["inode"], launched["offset"] = rows["inode"], rows["offset"]
        named, of_file = rows["name"] > 0, rows["inode"] > 0
        launched["named"]["number"] = rows["name"]
        for name in ("start_ns", "pid"):
            launched["named"][name] = np.where(named | ~of_file, rows[name], 0)
        launched["handle"] = np.where(named | of_file, 0, rows["handle"])
        buffer = pa.py_buffer(launched)
        keys = pa.Array.from_buffers(pa.binary(launched.itemsize), len(rows), [None, buffer]).dictionary_encode()
        names = [self._name(key) for key in keys.dictionary.to_pylist()]

        def column(texts: list[str | None]) -> pa.Array:
            return pa.array(texts, pa.string()).take(keys.indices).dictionary_encode()

        return {
            "kernel": column([name.kernel for name in names]),
            "module": column([name.module or None for name in names]),
            "name_source": column([name.source for name in names]),
            "category": column([name.category for name in names]),
        }

    def _name(self, key: bytes) -> Name:
        launched = np.frombuffer(key, self._launched)[0]
        inode, offset, handle = (int(launched[name]) for name in ("inode", "offset", "handle"))
        known = self._known.setdefault(inode, {})
        if key in known:
            return known[key]
        found = self._look_up(inode, offset, handle, launched["named"])
        if found.module or found.source == DRIVER:  # otherwise a later lookup may find more
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[key] = found
        return found

    def _look_up(self, inode: int, offset: int, handle: int, named: Any) -> Name:
        text = self._names.get(named.tobytes()) if named["number"] else None
        if text is not None:
            return Name(demangle(text.partition(b"\0")[0].decode(errors="backslashreplace")), "", DRIVER)
        if not inode:
            place = self._place_of(int(named["pid"]), int(named["start_ns"]), handle)
            return self._of_function(*place) if place else Name(f"handle:{handle:#x}", "", HANDLE)
        if inode not in self._modules.by_inode:
            self._modules.history.catch_up(0)
        module = self._modules.by_inode.get(inode)
        if not module:
            return Name(f"?+{offset:#x}", "", OFFSET)
        return self._of_function(module, module.elf.address_of(offset) or 0)

    def _place_of(self, pid: int, start_ns: int, handle: int) -> tuple[Module, int] | None:
        """The file and the address of the host function for a handle.

        The handle may be the host function itself, if the kernel was too busy to look that up.
        """
        process = self._modules.history.following(pid, start_ns)
        if not process:
            return None
        if place := self._handles.find(pid, start_ns, handle, self._files_of(process)):
            return place
        there = process.at(handle, _NOW)
        if not there or not there.module:
            return None
        function = there.module.elf.address_of(handle - there.start + there.offset)
        return None if function is None else (there.module, function)

    def _files_of(self, process: Process) -> dict[int, KernelsOfModule]:
        """Files with kernels, by their start address in a process's memory."""
        files: dict[int, KernelsOfModule] = {}
        for mapped in process.mapped:
            file = self._kernels.get(mapped.module.inode) if mapped.module else None
            if file and (address := file.module.elf.address_of(mapped.offset)) is not None:
                files[mapped.start - address] = file
        return files

    def _of_function(self, module: Module, function: int) -> Name:
        kernels = self._kernels.get(module.inode)
        if kernels and (mangled := kernels.names.name_of(function)):
            return Name(demangle(mangled), module.path, REGISTRATION)
        offset = module.elf.offset_of(function) or 0
        if symbol := module.name_at(offset, begin=True):
            return Name(symbol, module.path, SYMBOL)
        return Name(module.place_of(offset), module.path, OFFSET)
