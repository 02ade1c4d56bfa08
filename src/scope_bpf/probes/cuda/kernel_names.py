"""From what a launch was given to the name of its kernel: right, or said not to be known."""

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.stream import Rows
from scope_bpf.code.demangle import demangle
from scope_bpf.code.modules import Module, Modules
from scope_bpf.code.proc import stat_of
from scope_bpf.probes.cuda.registrations import FATBIN, REGISTER, find_handles, find_kernels
from scope_bpf.probes.cuda.stripped import find_launch_functions

log = logging.getLogger(__name__)

REGISTRATION, SYMBOL, DRIVER, OFFSET, HANDLE = "registration", "symbol", "driver", "offset", "handle"

_HANDLE_KEY = np.dtype([("stack", "<u8"), ("ticks", "<u8"), ("handle", "<u8"), ("pid", "<i4"), ("pad", "<u4")])
_HANDLE = np.dtype([("inode", "<u8"), ("offset", "<u8"), ("name", "<u4"), ("pad", "<u4")])
_NAME_KEY = np.dtype([("start_ns", "<u8"), ("pid", "<i4"), ("number", "<u4")])  # cuda_names_key
_LAUNCHED = np.dtype([("inode", "<u8"), ("offset", "<u8"), ("handle", "<u8"), ("named", _NAME_KEY)])
_MOST_KNOWN = 1 << 16
_NOW = 1 << 63  # later than all that is known


@dataclass(frozen=True)
class Name:
    """A kernel's name, the file that it is from (empty: not known), and what gave the name."""

    kernel: str
    module: str
    source: str


@dataclass
class KernelsOfModule:
    """The kernels that a file registers, read once somebody asks."""

    module: Module

    @cached_property
    def names(self) -> dict[int, str]:
        """Mangled names by address of the host function."""
        found = find_kernels(self.module.elf)
        log.info("kernels of a file", extra={"file": self.module.path, "kernels": len(found)})
        return found

    @cached_property
    def handles(self) -> dict[int, int]:
        """Host functions by address of the variable that holds the kernel's handle."""
        return find_handles(self.module.elf, self.names)


class KernelNames:
    """The names of what is launched in the watched processes. For the thread that polls."""

    def __init__(self, object_: BpfObject, modules: Modules) -> None:
        self._handles, self._names = object_.map("cuda_handles"), object_.map("cuda_names")
        self._modules = modules
        self._kernels: dict[int, KernelsOfModule] = {}
        self._known: dict[int, dict[bytes, Name]] = {}  # by inode

    def add_module(self, module: Module) -> bool:
        """Keeps files that have kernels."""
        if not module.elf.has_section(FATBIN):
            return False
        self._kernels[module.inode] = KernelsOfModule(module)
        return True

    def forget_module(self, module: Module) -> None:
        """Lets go of a file and its kernels."""
        self._kernels.pop(module.inode, None)
        self._known.pop(module.inode, None)

    def find_functions(self, module: Module) -> dict[str, int]:
        """Offsets by name of what launches a module's kernels, if its own runtime was stripped of names."""
        if module.elf.slots(REGISTER) or module.elf.functions([REGISTER]):
            return {}
        found = find_launch_functions(module.elf, self._kernels[module.inode].names)
        missing = "cudaLaunchKernel" not in found
        log.warning(
            "a program has the CUDA runtime linked in and was stripped: of it %s",
            "only calls of the driver are seen" if missing else "launches and calls of the driver are seen",
            extra={"file": module.path},
        )
        return found

    def add_process(self, pid: int, modules: Mapping[int, Module]) -> None:
        """Tells the programs which handles the process has got already."""
        key = np.zeros((), _HANDLE_KEY)
        try:
            stat = stat_of(pid)
            key["pid"], key["ticks"], key["stack"] = pid, stat.start_ticks, stat.start_stack
            memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # it has ended
        try:
            for base, module in modules.items():
                if module.inode in self._kernels:
                    self._add_handles(memory, base, module, key)
        finally:
            os.close(memory)

    def _add_handles(self, memory: int, base: int, module: Module, key: Rows) -> None:
        value = np.zeros((), _HANDLE)
        value["inode"] = module.inode
        for variable, function in self._kernels[module.inode].handles.items():
            try:
                handle = int.from_bytes(os.pread(memory, 8, base + variable), sys.byteorder)
            except OSError:
                return
            offset = module.elf.offset_of(function)
            if handle and offset is not None:
                key["handle"], value["offset"] = handle, offset
                self._handles.update(key.tobytes(), value.tobytes())

    def columns(self, rows: Rows) -> dict[str, pa.Array]:
        """`kernel`, `module` and `name_source` of launches; each is looked up once."""
        launched = np.zeros(len(rows), _LAUNCHED)
        launched["inode"], launched["offset"] = rows["inode"], rows["offset"]
        named = rows["name"] > 0
        launched["named"]["number"] = rows["name"]
        for name in ("start_ns", "pid"):
            launched["named"][name] = np.where(named | (rows["inode"] == 0), rows[name], 0)
        launched["handle"] = np.where((rows["inode"] == 0) & ~named, rows["handle"], 0)
        buffer = pa.py_buffer(launched)
        keys = pa.Array.from_buffers(pa.binary(_LAUNCHED.itemsize), len(rows), [None, buffer]).dictionary_encode()
        names = [self._name(key) for key in keys.dictionary.to_pylist()]

        def column(texts: list[str | None]) -> pa.Array:
            return pa.array(texts, pa.string()).take(keys.indices).dictionary_encode()

        return {
            "kernel": column([name.kernel for name in names]),
            "module": column([name.module or None for name in names]),
            "name_source": column([name.source for name in names]),
        }

    def _name(self, key: bytes) -> Name:
        launched = np.frombuffer(key, _LAUNCHED)[0]
        inode, offset, handle = (int(launched[name]) for name in ("inode", "offset", "handle"))
        known = self._known.setdefault(inode, {})
        if key in known:
            return known[key]
        found = self._look_up(inode, offset, handle, launched["named"])
        if found.module or found.source == DRIVER:  # else the next time may know more
            if len(known) >= _MOST_KNOWN:  # the driver's names, of processes that came and went
                known.clear()
            known[key] = found
        return found

    def _look_up(self, inode: int, offset: int, handle: int, named: Any) -> Name:
        text = self._names.get(named.tobytes()) if named["number"] else None
        if text is not None:
            return Name(demangle(text.partition(b"\0")[0].decode(errors="backslashreplace")), "", DRIVER)
        if inode and inode not in self._modules.by_inode:
            self._modules.history.catch_up(0)
        if not inode:
            inode, offset = self._find_code(named, handle)
        module = self._modules.by_inode.get(inode)
        if not module:
            return Name(f"handle:{handle:#x}" if not inode else f"?+{offset:#x}", "", OFFSET if inode else HANDLE)
        kernels = self._kernels.get(inode)
        if kernels and (mangled := kernels.names.get(module.elf.address_of(offset) or 0)):
            return Name(demangle(mangled), module.path, REGISTRATION)
        if symbol := module.name_at(offset, begin=True):
            return Name(symbol, module.path, SYMBOL)
        return Name(module.place_of(offset), module.path, OFFSET)

    def _find_code(self, named: Any, address: int) -> tuple[int, int]:
        """The inode and offset of a host function that the kernel was too busy to look up; zeros: it is none."""
        process = self._modules.history.find(int(named["pid"]), int(named["start_ns"]))
        there = process.at(address, _NOW) if process else None
        if not there or not there.module:
            return 0, 0
        return there.module.inode, address - there.start + there.offset
