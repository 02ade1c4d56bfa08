"""A BPF object: opened from bytes, configured, loaded, closed."""

import errno
import os
import re
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np

from scope_bpf.binding.ffi import check, ffi, lib, libbpf_log
from scope_bpf.binding.link import NO_PACKETS, Iterator, Link, SoftwareEventLink
from scope_bpf.binding.map import Map, memory_of
from scope_bpf.errors import KernelError, LayoutMismatch, MissingCapability, VerifierError
from scope_bpf.host import cgroup_root, may_see_packets
from scope_bpf.layout.btf import Btf

_OF_CGROUPS = ("cgroup_skb/", "cgroup/")
_REFUSED = re.compile(r"prog '(\w+)': -- BEGIN PROG LOAD LOG --")


class BpfObject:
    """Owns the programs and maps of one object, and its links from `attach`; `close` frees all of them.

    Attributes:
        btf: the object's types.
    """

    def __init__(self, elf: bytes, btf: Btf, name: str) -> None:
        self.name = name
        self.btf = btf
        self._elf = ffi.from_buffer(elf)
        self._links: list[Link | SoftwareEventLink] = []
        self._has_cgroup_programs = False
        self._object = lib.scope_object_open(self._elf, len(elf), name.encode())
        if self._object == ffi.NULL:
            raise KernelError(f"cannot open the BPF object of '{name}'", ffi.errno, libbpf_log())

    def set_constants(self, values: Mapping[str, Any]) -> None:
        """Sets the values of read-only variables; an array shorter than in C is padded with 0. Before `load`.

        Raises:
            LayoutMismatch: the object has no such variable, or the value does not fit.
        """
        size = ffi.new("size_t *")
        rodata = lib.bpf_map__initial_value(self.map(".rodata")._map, size)
        for name, value in values.items():
            variable = self.btf.variables.get(name)
            if variable is None or variable.section != ".rodata":
                raise LayoutMismatch(f"probe '{self.name}': C has no constant '{name}'")
            data = value.tobytes() if isinstance(value, np.ndarray) else int(value).to_bytes(variable.size, "little")
            if isinstance(value, np.ndarray):
                data = data.ljust(variable.size, b"\0")
            if len(data) != variable.size:
                raise LayoutMismatch(f"probe '{self.name}': constant '{name}' is {variable.size} bytes in C")
            ffi.memmove(rodata + variable.offset, data, len(data))

    def select_programs(self, names: Collection[str]) -> None:
        """Selects the programs that `load` loads. Before `load`."""
        program = lib.bpf_object__next_program(self._object, ffi.NULL)
        while program != ffi.NULL:
            name: bytes = ffi.string(lib.bpf_program__name(program))
            lib.bpf_program__set_autoload(program, name.decode() in names)
            self._has_cgroup_programs |= name.decode() in names and self._is_of_cgroups(name.decode())
            program = lib.bpf_object__next_program(self._object, program)

    def expect_uprobes(self, names: Collection[str]) -> None:
        """Declares which programs will be attached to many functions at once. Before `load`."""
        for name in names:
            lib.scope_expect_uprobes(self.program(name))

    def load(self) -> None:
        """Creates the maps and loads the programs, which the kernel verifies.

        Raises:
            MissingCapability: a program is one of cgroups, and takes a capability that this process lacks.
            VerifierError: the kernel refused a program.
            KernelError: any other failure.
        """
        libbpf_log()
        result = lib.bpf_object__load(self._object)
        if result == 0:
            return
        if -result == errno.EPERM and self._has_cgroup_programs and not may_see_packets():
            raise MissingCapability(NO_PACKETS)
        log = libbpf_log()
        refused = _REFUSED.search(log)
        if refused:
            raise VerifierError(refused[1], -result, log)
        raise KernelError(f"cannot load the BPF object of '{self.name}'", -result, log)

    def attach(self, program: str) -> None:
        """Attaches a loaded program to the hook in its section name; one of cgroups, to the root of cgroup v2.

        Raises:
            KernelError: the kernel refused; or the program is one of cgroups, and no cgroup v2 is mounted.
        """
        if not self._is_of_cgroups(program):
            self._links.append(Link(self.program(program), program))
            return
        root = cgroup_root()
        if root is None:
            raise KernelError("no cgroup v2 is mounted; run mount -t cgroup2 cgroup2 /sys/fs/cgroup", errno.ENODEV)
        fd = os.open(root, os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._links.append(Link(self.program(program), program, fd))
        finally:
            os.close(fd)

    def attach_to_software_event(self, program: str, event: int) -> None:
        """Attaches a loaded perf_event program to one of PERF_COUNT_SW_*, for every process.

        Raises:
            KernelError: the kernel refused.
        """
        self._links.append(SoftwareEventLink(self.program(program), program, event))

    def attach_to_clock(self, program: str, rate: int) -> None:
        """Attaches a loaded perf_event program, which then runs `rate` times a second on every CPU.

        Raises:
            KernelError: the kernel refused.
        """
        self._links.append(SoftwareEventLink(self.program(program), program, rate=rate))

    def iterator(self, program: str) -> Iterator:
        """A loaded iter program, ready to be run; the caller's to close.

        Raises:
            KernelError: the kernel refused.
        """
        return Iterator(self.program(program), program)

    def is_iterator(self, program: str) -> bool:
        """Whether a program is an iter program.

        Raises:
            LayoutMismatch: the object has none with this name.
        """
        return self._section(program).startswith("iter/")

    def _is_of_cgroups(self, program: str) -> bool:
        return self._section(program).startswith(_OF_CGROUPS)

    def _section(self, program: str) -> str:
        name: bytes = ffi.string(lib.bpf_program__section_name(self.program(program)))
        return name.decode()

    def run(self, program: str, argument: int) -> None:
        """Runs a loaded raw_tp program once, in this thread, with one argument.

        Raises:
            KernelError: the kernel refused.
        """
        fd = self.program_fd(program)
        check(lib.scope_run_raw_tp(fd, argument), f"cannot run the BPF program '{program}'")

    def detach(self) -> None:
        """Detaches all programs, in reverse order."""
        while self._links:
            self._links.pop().close()

    def program_fds(self) -> list[int]:
        """File descriptors of the attached programs."""
        return [link.program_fd for link in self._links]

    def has_loaded(self, name: str) -> bool:
        """Whether a program was selected and loaded.

        Raises:
            LayoutMismatch: the object has none with this name.
        """
        return bool(lib.bpf_program__fd(self.program(name)) >= 0)

    def program_fd(self, name: str) -> int:
        """The file descriptor of a loaded program.

        Raises:
            LayoutMismatch: the object has none with this name.
        """
        return int(lib.bpf_program__fd(self.program(name)))

    def map(self, name: str) -> Map:
        """A map by name; a data section by its name (".data.filter").

        Raises:
            LayoutMismatch: the object has none with this name.
        """
        found = lib.bpf_object__find_map_by_name(self._object, name.encode())
        if found == ffi.NULL:
            raise LayoutMismatch(f"probe '{self.name}': the object has no map '{name}'")
        return Map(found, name)

    def memory_bytes(self) -> int:
        """The kernel's memory for the loaded maps."""
        maps = (self.map(name) for name, variable in self.btf.variables.items() if variable.section == ".maps")
        return sum(memory_of(one.fd) for one in maps if one.fd >= 0)

    def create_like(self, name: str, entries: int) -> int:
        """Creates another map like the one with this name; returns its file descriptor, which the caller closes.

        Raises:
            KernelError: the kernel refused, for example with ENOMEM.
        """
        fd = lib.scope_create_like(self._object, self.map(name)._map, entries)
        return check(fd, f"cannot make a map like '{name}'")

    def close(self) -> None:
        """Detaches and frees everything. May be called again."""
        self.detach()
        if self._object != ffi.NULL:
            lib.bpf_object__close(self._object)
            self._object = ffi.NULL

    def program(self, name: str) -> Any:
        """libbpf's handle of a program, owned by the object.

        Raises:
            LayoutMismatch: the object has none with this name.
        """
        program = lib.bpf_object__find_program_by_name(self._object, name.encode())
        if program == ffi.NULL:
            raise LayoutMismatch(f"probe '{self.name}': the object has no program '{name}'")
        return program

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
