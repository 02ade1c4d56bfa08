"""From what a launch was given to the name of its kernel: right, or said not to be known."""

import logging
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.stream import Rows
from scope_bpf.code.demangle import demangle
from scope_bpf.code.modules import Module, Modules
from scope_bpf.probes.cuda.process_handles import ProcessHandles
from scope_bpf.probes.cuda.registrations import FATBIN, REGISTER, Handles, Kernels, find_handles, find_kernels
from scope_bpf.probes.cuda.stripped import find_launch_functions

log = logging.getLogger(__name__)

REGISTRATION, SYMBOL, DRIVER, OFFSET, HANDLE = "registration", "symbol", "driver", "offset", "handle"

_MOST_KNOWN = 1 << 16  # names of launches that are kept


@dataclass(frozen=True)
class Name:
    """A kernel's name, the file that it is from (empty: not known), and what gave the name."""

    kernel: str
    module: str
    source: str


@dataclass
class KernelsOfModule:
    """The kernels that a file registers, read once somebody asks. For any thread: the first one reads, others wait."""

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
    """The names of what is launched in the watched processes.

    The thread that attaches adds files and processes, which takes no time: files are read (1 s for a gigabyte) by a
    thread of its own for the handles of a process that runs already, or when a launch, or `find_functions`, needs them
    before. Names are asked for by one thread.

    Args:
        named: keys of the map `cuda_names`.
    """

    def __init__(self, object_: BpfObject, modules: Modules, named: np.dtype[Any]) -> None:
        self._names = object_.map("cuda_names")
        self._modules = modules
        self._kernels: dict[int, KernelsOfModule] = {}
        self._handles = ProcessHandles()
        self._reading = ThreadPoolExecutor(1, "scope-handles")
        self._last_reading: Future[None] | None = None
        self._known: dict[bytes, Name] = {}
        self._launched = np.dtype([("inode", "<u8"), ("offset", "<u8"), ("handle", "<u8"), ("named", named)])

    def add_module(self, module: Module) -> bool:
        """Keeps files that have kernels."""
        if not module.elf.has_section(FATBIN):
            return False
        self._kernels.setdefault(module.inode, KernelsOfModule(module))
        return True

    def drop_module(self, module: Module) -> None:
        """Forgets a file, whose inode may be another's from now on."""
        self._kernels.pop(module.inode, None)
        self._handles.drop_module(module)
        self._known.clear()

    def find_functions(self, module: Module) -> dict[str, int]:
        """Offsets by name of what launches a module's kernels, if its own runtime was stripped of names.

        At once for other files; else the file is read.
        """
        if module.elf.slots(REGISTER) or module.elf.functions([REGISTER]):
            return {}
        kernels = self._kernels[module.inode].names
        if not len(kernels):
            return {}
        found = find_launch_functions(module.elf, kernels)
        missing = "cudaLaunchKernel" not in found
        log.warning(
            "a program has the CUDA runtime linked in and was stripped: of it %s",
            "only calls of the driver are seen" if missing else "launches and calls of the driver are seen",
            extra={"file": module.path},
        )
        return found

    def add_process(self, pid: int, modules: Mapping[int, Module]) -> None:
        """Keeps where a process has the files that have kernels, and has its handles read."""
        files = {base: self._kernels.get(module.inode) for base, module in modules.items()}
        with_kernels = {base: file for base, file in files.items() if file}
        self._handles.add_process(pid, with_kernels)
        if with_kernels:
            self._last_reading = self._reading.submit(self._read_handles, pid)

    def _read_handles(self, pid: int) -> None:
        try:
            self._handles.read(pid)
        except Exception:  # a file is anybody's: a launch that needs it says what is wrong with it
            log.exception("cannot read the handles of a process", extra={"pid": pid})

    def settle(self, timeout_s: float) -> None:
        """Waits until the handles of all processes that were added are read, but not longer."""
        if self._last_reading:
            wait([self._last_reading], timeout_s)

    def close(self) -> None:
        """Reads no more. May be called again."""
        self._reading.shutdown(cancel_futures=True)

    def columns(self, rows: Rows) -> dict[str, pa.Array]:
        """`kernel`, `module` and `name_source` of launches; each is looked up once."""
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
        }

    def _name(self, key: bytes) -> Name:
        if known := self._known.get(key):
            return known
        launched = np.frombuffer(key, self._launched)[0]
        inode, offset, handle = (int(launched[name]) for name in ("inode", "offset", "handle"))
        found = self._look_up(inode, offset, handle, launched["named"])
        if found.module or found.source == DRIVER:  # else the next time may know more
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _look_up(self, inode: int, offset: int, handle: int, process: Any) -> Name:
        text = self._names.get(process.tobytes()) if process["number"] else None
        if text is not None:
            return Name(demangle(text.partition(b"\0")[0].decode(errors="backslashreplace")), "", DRIVER)
        if not inode:
            place = self._handles.find(int(process["pid"]), int(process["start_ns"]), handle)
            return self._of_function(*place) if place else Name(f"handle:{handle:#x}", "", HANDLE)
        module = self._modules.by_inode.get(inode)
        if not module:
            return Name(f"?+{offset:#x}", "", OFFSET)
        return self._of_function(module, module.elf.address_of(offset) or 0)

    def _of_function(self, module: Module, function: int) -> Name:
        kernels = self._kernels.get(module.inode)
        if kernels and (mangled := kernels.names.name_of(function)):
            return Name(demangle(mangled), module.path, REGISTRATION)
        offset = module.elf.offset_of(function) or 0
        if symbol := module.name_at(offset, begin=True):
            return Name(symbol, module.path, SYMBOL)
        return Name(module.place_of(offset), module.path, OFFSET)
