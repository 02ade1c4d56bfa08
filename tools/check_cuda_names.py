#!/usr/bin/env python3
"""Compares the kernels found in libraries with those that the libraries register; prints rows for docs/cuda-names.md.

The registered kernels are found by running the library's constructors on an emulated CPU, for any kind of runtime. This
needs neither a GPU nor the library's dependencies: imported functions return null or a block of zeros. For x86-64::

    pip install unicorn capstone pyelftools
    pip download --no-deps --only-binary :all: xgboost && unzip xgboost-*.whl '*.so'
    PYTHONPATH=src tools/check_cuda_names.py xgboost/lib/libxgboost.so

The last number of a row counts constructors that did not end within LIMIT seconds (5); their later registrations are
missing.
"""

import mmap
import os
import sys
import time
from collections import Counter
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from capstone import CS_ARCH_X86, CS_MODE_64, Cs
from elftools.elf.elffile import ELFFile
from unicorn import UC_ARCH_X86, UC_HOOK_BLOCK, UC_HOOK_INSN_INVALID, UC_MODE_64, UC_PROT_ALL, Uc, UcError
from unicorn import x86_const as x86

from scope_bpf.code.elf import ElfFile
from scope_bpf.probes.cuda.registrations import find_kernels

REGISTER, REGISTER_FILE = "__cudaRegisterFunction", "__cudaRegisterFatBinary"
RUNTIME = {REGISTER, REGISTER_FILE, "__cudaRegisterFatBinaryEnd", "__cudaRegisterVar"}
BASE, IMPORTS, HEAP, THREAD, STACK = 1 << 32, 1 << 28, 1 << 29, 3 << 29, 7 << 28
IMPORTS_SIZE, HEAP_SIZE, THREAD_SIZE, STACK_SIZE = 1 << 24, 3 << 28, 1 << 20, 1 << 24
PAGE = 4096
LIMIT = float(os.environ.get("LIMIT", "5"))  # seconds per constructor
ARGUMENTS = [x86.UC_X86_REG_RDI, x86.UC_X86_REG_RSI, x86.UC_X86_REG_RDX, x86.UC_X86_REG_RCX, x86.UC_X86_REG_R8]
ARGUMENTS += [x86.UC_X86_REG_R9, x86.UC_X86_REG_RSP]
RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
R_64, R_GLOB_DAT, R_JUMP_SLOT, R_RELATIVE = 1, 6, 7, 8


class Library:
    """A shared library in the memory of an emulated CPU, and the kernels that its constructors have registered.

    Attributes:
        kernels: for each registering function, how often it got each (host function, name).
        stopped: number of constructors that did not end.
    """

    def __init__(self, path: Path) -> None:
        self.kernels: dict[int, Counter[tuple[int, bytes]]] = {}
        self.stopped = 0
        with path.open("rb") as file:
            elf = ELFFile(file)
            parts = [part for part in elf.iter_segments() if part["p_type"] == "PT_LOAD"]
            self.size = max(part["p_vaddr"] + part["p_memsz"] for part in parts) + PAGE & -PAGE
            self.memory = np.frombuffer(mmap.mmap(-1, self.size), np.uint8)
            for part in parts:
                begin = part["p_vaddr"]
                file.seek(part["p_offset"])
                file.readinto(memoryview(self.memory)[begin : begin + part["p_filesz"]])
            self.code = [(part["p_vaddr"], part["p_vaddr"] + part["p_filesz"]) for part in parts if part["p_flags"] & 1]
            data = {
                section.name: section.data()
                for section in elf.iter_sections()
                if section.name.startswith((".rela", ".dyn"))
            }
            tags = {tag.entry.d_tag: tag.entry.d_val for tag in elf.get_section_by_name(".dynamic").iter_tags()}
            own = {symbol["st_value"]: symbol.name for symbol in self._runtime(elf)}
        self.imports: dict[str, int] = {}
        self._relocate(data)
        self.runtime = {BASE + address: name for address, name in own.items()}
        table = np.frombuffer(self._bytes(tags.get("DT_INIT_ARRAY", 0), tags.get("DT_INIT_ARRAYSZ", 0)), "<u8")
        self.constructors = [BASE + tags["DT_INIT"]] * ("DT_INIT" in tags) + table.tolist()
        self.heap = HEAP
        self._run()

    @staticmethod
    def _runtime(elf: Any) -> list[Any]:
        tables = [elf.get_section_by_name(name) for name in (".symtab", ".dynsym")]
        symbols = [symbol for table in tables if table for symbol in table.iter_symbols()]
        return [one for one in symbols if one.name in RUNTIME and one["st_shndx"] != "SHN_UNDEF"]

    def _bytes(self, address: int, size: int) -> bytes:
        return self.memory[address : address + size].tobytes()

    def _relocate(self, data: dict[str, bytes]) -> None:
        symbols, names = np.frombuffer(data[".dynsym"], SYMBOL), data[".dynstr"]
        for section in (".rela.dyn", ".rela.plt"):
            for kind, symbol, addend, offset in np.frombuffer(data.get(section, b""), RELOCATION)[
                ["type", "symbol", "addend", "offset"]
            ].tolist():
                if kind == R_RELATIVE:
                    value = BASE + addend
                elif kind in (R_64, R_GLOB_DAT, R_JUMP_SLOT):
                    one = symbols[symbol]
                    name = names[one["name"] : names.index(b"\0", one["name"])].decode()
                    imported = self.imports.setdefault(name, IMPORTS + 16 * (1 + len(self.imports)))
                    value = (BASE + int(one["value"]) if one["section"] else imported) + addend * (kind == R_64)
                else:
                    continue
                self.memory[offset : offset + 8] = np.frombuffer(value.to_bytes(8, "little"), np.uint8)

    def _run(self) -> None:
        self.processor = processor = Uc(UC_ARCH_X86, UC_MODE_64)
        processor.mem_map_ptr(BASE, self.size, UC_PROT_ALL, self.memory.ctypes.data)
        for begin, size in (
            (0, PAGE),
            (IMPORTS, IMPORTS_SIZE),
            (HEAP, HEAP_SIZE),
            (THREAD, THREAD_SIZE),
            (STACK, STACK_SIZE),
        ):
            processor.mem_map(begin, size)
        own = THREAD + THREAD_SIZE // 2
        processor.mem_write(own, own.to_bytes(8, "little"))
        processor.reg_write(x86.UC_X86_REG_FS_BASE, own)
        processor.hook_add(UC_HOOK_INSN_INVALID, self._skip)
        processor.hook_add(UC_HOOK_BLOCK, self._imported, None, IMPORTS, IMPORTS + IMPORTS_SIZE)
        for address in self.runtime:
            processor.hook_add(UC_HOOK_BLOCK, self._of_runtime, None, address, address + 1)
        if REGISTER not in {*self.imports, *self.runtime.values()}:
            processor.hook_add(UC_HOOK_BLOCK, self._called, None, BASE, BASE + self.size)
        self.named = {address: name for name, address in self.imports.items()}
        for constructor in self.constructors:
            stack = STACK + STACK_SIZE - PAGE - 8
            processor.mem_write(stack, IMPORTS.to_bytes(8, "little"))  # the return address
            processor.reg_write(x86.UC_X86_REG_RSP, stack)
            try:
                processor.emu_start(constructor, IMPORTS, timeout=int(LIMIT * 1e6))
            except UcError:
                self.stopped += 1
            else:
                self.stopped += processor.reg_read(x86.UC_X86_REG_RIP) != IMPORTS

    def _return(self, value: int) -> None:
        stack = self.processor.reg_read(x86.UC_X86_REG_RSP)
        self.processor.reg_write(x86.UC_X86_REG_RAX, value)
        self.processor.reg_write(x86.UC_X86_REG_RIP, int.from_bytes(self.processor.mem_read(stack, 8), "little"))
        self.processor.reg_write(x86.UC_X86_REG_RSP, stack + 8)

    def _block_of(self, size: int) -> int:
        begin = self.heap
        self.heap += min(size, 1 << 20) + 31 & -16
        return begin if self.heap < HEAP + HEAP_SIZE else 0

    def _skip(self, processor: Any, _: object) -> bool:
        """Skips instructions that Unicorn cannot run, such as AVX; this does not change registrations."""
        at = processor.reg_read(x86.UC_X86_REG_RIP)
        for instruction in Cs(CS_ARCH_X86, CS_MODE_64).disasm(bytes(processor.mem_read(at, 16)), at, 1):
            processor.reg_write(x86.UC_X86_REG_RIP, at + instruction.size)
            return True
        return False

    def _register(self, by: int, function: int, name: int) -> None:
        text = self._bytes(name - BASE, 1 << 16).partition(b"\0")[0]
        self.kernels.setdefault(by, Counter())[function - BASE, text] += 1

    def _imported(self, processor: Any, address: int, *_: object) -> None:
        rdi, rsi, rdx, *_others = processor.reg_read_batch(ARGUMENTS)
        name, value = self.named.get(address, ""), 0
        if name == REGISTER:
            self._register(0, rsi, rdx)
        elif name in ("malloc", "_Znwm", "_Znam"):
            value = self._block_of(rdi)
        elif name in ("calloc", "realloc"):
            value = self._block_of(rdi * rsi if name == "calloc" else rsi)
        elif name in ("memcpy", "memmove"):
            processor.mem_write(rdi, bytes(processor.mem_read(rsi, min(rdx, 1 << 20))))
            value = rdi
        elif name == "memset":
            processor.mem_write(rdi, bytes([rsi & 0xFF]) * min(rdx, 1 << 20))
            value = rdi
        elif name == "strlen":
            value = bytes(processor.mem_read(rdi, 256)).find(b"\0")
        elif name == "__tls_get_addr":
            value = THREAD + PAGE + int.from_bytes(processor.mem_read(rdi + 8, 8), "little")
        elif name == "pthread_once" and not int.from_bytes(processor.mem_read(rdi, 4), "little"):
            processor.mem_write(rdi, b"\1\0\0\0")
            processor.reg_write(x86.UC_X86_REG_RIP, rsi)
            return
        elif name == REGISTER_FILE or "locale" in name or name.startswith("__ctype"):
            value = self._block_of(PAGE)
        self._return(int(name == "__cxa_guard_acquire") or value)

    def _of_runtime(self, processor: Any, address: int, *_: object) -> None:
        """Skips calls of a statically linked runtime with symbols, and notes registrations."""
        if (name := self.runtime.get(address)) == REGISTER:
            self._register(0, *processor.reg_read_batch(ARGUMENTS)[1:3])
        if name:
            self._return(self._block_of(64))

    def _called(self, processor: Any, address: int, *_: object) -> None:
        """In a runtime without symbols, notes any function called with the arguments of a registration."""
        _, rsi, rdx, rcx, r8, r9, rsp = processor.reg_read_batch(ARGUMENTS)
        is_code = any(begin <= rsi - BASE < end for begin, end in self.code)
        if r8 & 0xFFFFFFFF == 0xFFFFFFFF and not r9 and rdx == rcx and is_code and BASE <= rdx < BASE + self.size:
            back = int.from_bytes(processor.mem_read(rsp, 8), "little")
            call = self._bytes(back - 5 - BASE, 5) if BASE <= back < BASE + self.size else b""
            if call[:1] == b"\xe8" and back + int.from_bytes(call[1:], "little", signed=True) == address:
                self._register(address, rsi, rdx)
                self._return(0)


def registered(path: Path) -> tuple[dict[int, str], int]:
    """Names by host function, and the number of constructors that did not end."""
    library = Library(path)
    found = max(library.kernels.values(), key=Counter.total, default=Counter())
    return {function: name.decode(errors="backslashreplace") for function, name in found}, library.stopped


def status(name: str) -> int:
    """A value of /proc/self/status, in bytes."""
    return int(Path("/proc/self/status").read_text().partition(f"{name}:")[2].split()[0]) << 10


def row(path: Path) -> str:
    """The table row of a library."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before, began = status("VmHWM"), time.process_time()
    with FileIO(path) as file:
        kernels = find_kernels(ElfFile(file))
        seconds, megabytes = time.process_time() - began, (status("VmHWM") - before) / 1e6
        found = {function: kernels.name_of(function) for function in kernels.functions.tolist()}
    true, stopped = registered(path)
    right = sum(found.get(function) == name for function, name in true.items())
    absent = len(true.keys() - found.keys())
    cells = [path.name, f"{path.stat().st_size / 1e9:.2f}", len(true), right, absent, len(true) - right - absent]
    cells += [len(found.keys() - true.keys()), f"{seconds:.2f}", f"{megabytes:.0f}", stopped]
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        if not (child := os.fork()):  # each in its own process, with its own peak
            print(row(Path(argument)), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
