"""Names of launched kernels. The file is /bin/true; a dictionary stands in for the BPF map."""

import os
from collections.abc import Iterator
from ctypes import addressof, create_string_buffer
from io import FileIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scope_bpf.code.elf import ElfFile
from scope_bpf.code.history import History, Mapped
from scope_bpf.code.modules import Module
from scope_bpf.code.proc import TICK_NS, stat_of
from scope_bpf.probes.cuda import PROBE, kernel_names
from scope_bpf.probes.cuda.categories import category_of
from scope_bpf.probes.cuda.kernel_names import KernelNames
from scope_bpf.probes.cuda.registrations import Handles, Kernels

NAMED = PROBE.key_layout("cuda_names").dtype
ROW = np.dtype(
    [(name, "<u8") for name in ("inode", "offset", "handle", "start_ns")] + [("pid", "<i4"), ("name", "<u4")]
)
INODE, VARIABLE, HANDLE = 0xFFFF1234, 0, 0x7F1234


class Read:
    """Stands in for the search of kernels in files, and counts the searches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        monkeypatch.setattr(kernel_names, "find_kernels", self.kernels)
        monkeypatch.setattr(kernel_names, "find_handles", lambda _elf, kernels: self.handles(kernels))

    def kernels(self, elf: ElfFile) -> Kernels:
        """One kernel: its host function is at the start of the code, its name is the loader's path."""
        self.times += 1
        return Kernels(elf, np.array([elf.code[0].address]), np.array([elf.address_of(self.text(elf)) or 0]))

    @staticmethod
    def text(elf: ElfFile) -> int:
        return elf.read(0, 4096).index(elf.interpreter.encode())

    @staticmethod
    def handles(kernels: Kernels) -> Handles:
        return Handles(np.array([VARIABLE]), kernels.functions)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    return Read(monkeypatch)


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def names(read: Read, history: History, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[KernelNames, Module]]:
    with FileIO("/bin/true") as file:
        elf = ElfFile(file)
        module = Module("/bin/true", INODE, elf)
        key = np.zeros((), NAMED)
        key["start_ns"], key["pid"], key["number"] = 5, 6, 7
        texts = {key.tobytes(): b"_Z5addedPi\0rest"}
        maps: Any = SimpleNamespace(map=lambda _: texts)
        modules: Any = SimpleNamespace(by_inode={INODE: module}, history=history)
        found = KernelNames(maps, modules, NAMED)
        monkeypatch.setattr(ElfFile, "has_section", lambda *_: True)
        assert found.add_module(module)
        assert not read.times
        yield found, module


def columns(names: KernelNames, **row: int) -> dict[str, str | None]:
    rows = np.zeros(1, ROW)
    for name, value in row.items():
        rows[name] = value
    return {name: column.to_pylist()[0] for name, column in names.columns(rows).items()}


def resolved(names: KernelNames, **row: int) -> tuple[str | None, ...]:
    found = columns(names, **row)
    return found["kernel"], found["module"], found["name_source"]


def test_a_host_function(names: tuple[KernelNames, Module], read: Read) -> None:
    """A host function has the name of its registration. The file is read once, at the first launch."""
    found, module = names
    before = read.times
    for _ in range(3):
        kernel = resolved(found, inode=INODE, offset=module.elf.code[0].offset)
        assert kernel == (module.elf.interpreter, "/bin/true", "registration")
    assert (before, read.times) == (0, 1)
    assert resolved(found, inode=INODE, offset=0x10) == ("true+0x10", "/bin/true", "offset")


def test_a_handle_from_before(names: tuple[KernelNames, Module], history: History) -> None:
    """A handle that the process got before recording began is found in its variable, in the process's memory."""
    found, module = names
    memory, pid = create_string_buffer(HANDLE.to_bytes(8, "little"), 16), os.getpid()
    start_ns, base = stat_of(pid).start_ticks * TICK_NS, addressof(memory)
    history.add(history.begin(pid, start_ns), Mapped(0, base, base + 16, 0, module))
    expected = module.elf.interpreter, "/bin/true", "registration"
    assert resolved(found, pid=pid, start_ns=start_ns, handle=HANDLE) == expected
    assert resolved(found, pid=pid + 1, start_ns=start_ns, handle=HANDLE) == (f"handle:{HANDLE:#x}", None, "handle")
    assert resolved(found, pid=pid, start_ns=start_ns, handle=0x99) == ("handle:0x99", None, "handle")


def test_a_host_function_that_was_not_looked_up(names: tuple[KernelNames, Module], history: History) -> None:
    """If the kernel was too busy to look up the file of a host function, the process's mappings name the file.

    If a mapping is not known yet, the kernel's latest news is read first.
    """
    found, module = names
    (code, *_), begin = module.elf.code, 0x7F0000000000
    launch = {"pid": 6, "start_ns": 5, "handle": begin + 0x100}
    assert resolved(found, **launch)[2] == "handle"
    mapped = Mapped(0, begin, begin + 0x1000, code.offset - 0x100, module)
    history.catch_up = lambda pid: history.add(history.begin(pid, 5), mapped)
    assert resolved(found, **launch) == (module.elf.interpreter, "/bin/true", "registration")


def test_a_name_that_the_driver_was_told(names: tuple[KernelNames, Module]) -> None:
    """The name is used only for the process that gave it to the driver."""
    found, _ = names
    assert resolved(found, pid=6, start_ns=5, name=7) == ("added(int*)", None, "driver")
    assert resolved(found, pid=6, start_ns=4, name=7, handle=0x5)[2] == "handle"


def test_only_a_name_has_a_category(names: tuple[KernelNames, Module]) -> None:
    """A kernel that is shown as an offset or a handle has none, also if its text looks like one: the file `copy`."""
    found, module = names
    module.path = "/bin/copy"
    assert category_of("copy+0x10") == "copy"
    unknown = (columns(found, inode=INODE, offset=0x10), columns(found, pid=6, start_ns=4, handle=0x5))
    assert [(row["kernel"], row["category"]) for row in unknown] == [("copy+0x10", None), ("handle:0x5", None)]
    named = columns(found, pid=6, start_ns=5, name=7)
    assert (named["kernel"], named["category"]) == ("added(int*)", "elementwise")


def test_a_file_that_is_dropped(names: tuple[KernelNames, Module], read: Read) -> None:
    """All names of a dropped file are forgotten: another file may get its inode."""
    found, module = names
    offset = module.elf.code[0].offset
    assert resolved(found, inode=INODE, offset=offset)[2] == "registration"
    found.drop_module(module)
    assert resolved(found, inode=INODE, offset=offset) == (f"true+{offset:#x}", "/bin/true", "offset")
    assert read.times == 1
