"""Attached programs."""

import errno
import os
from typing import Any

from scope_bpf.binding.ffi import check, ffi, lib, libbpf_log
from scope_bpf.binding.map import possible_cpus
from scope_bpf.errors import KernelError, MissingCapability

NO_PACKETS = "programs for packets take CAP_NET_ADMIN; run as root, or grant it"


class Link:
    """Attaches a loaded program to the hook in its section name, until `close`.

    Args:
        cgroup_fd: a directory of cgroup v2, for programs that run for a cgroup and its children; else -1.
    """

    def __init__(self, program: Any, name: str, cgroup_fd: int = -1) -> None:
        libbpf_log()
        self.program_fd: int = lib.bpf_program__fd(program)
        if cgroup_fd < 0:
            self._link = lib.bpf_program__attach(program)
        else:
            self._link = lib.bpf_program__attach_cgroup(program, cgroup_fd)
        if self._link == ffi.NULL:
            if cgroup_fd >= 0 and ffi.errno == errno.EPERM:
                raise MissingCapability(NO_PACKETS)
            raise KernelError(f"cannot attach the BPF program '{name}'", ffi.errno, libbpf_log())

    def close(self) -> None:
        """Detaches. May be called again."""
        if self._link != ffi.NULL:
            lib.bpf_link__destroy(self._link)
            self._link = ffi.NULL


class SoftwareEventLink:
    """Attaches a loaded program to an event that the kernel counts in software, on every CPU, until `close`.

    Args:
        event: one of PERF_COUNT_SW_*, include/uapi/linux/perf_event.h; 0: the clock of each CPU.
        rate: how often a second the program runs; 0: at each of these events.
    """

    def __init__(self, program: Any, name: str, event: int = 0, rate: int = 0) -> None:
        self.program_fd: int = lib.bpf_program__fd(program)
        self._links: list[Any] = []
        for cpu in range(possible_cpus()):
            libbpf_log()
            link = lib.scope_attach_software_event(program, event, rate, cpu)
            if link != ffi.NULL:
                self._links.append(link)
            elif ffi.errno != errno.ENODEV:  # a CPU that is offline
                error = KernelError(f"cannot attach the BPF program '{name}'", ffi.errno, libbpf_log())
                self.close()
                raise error

    def close(self) -> None:
        """Detaches. May be called again."""
        while self._links:
            lib.bpf_link__destroy(self._links.pop())


class Iterator(Link):
    """Attaches a loaded program that visits every kernel object of one kind, at each `run`."""

    def __init__(self, program: Any, name: str) -> None:
        super().__init__(program, name)
        self._name = name

    def run(self) -> None:
        """Runs the program once for each object.

        Raises:
            KernelError: the kernel refused.
        """
        fd = check(lib.bpf_iter_create(lib.bpf_link__fd(self._link)), f"cannot run the BPF program '{self._name}'")
        try:
            while os.read(fd, 4096):  # reading runs the program
                pass
        finally:
            os.close(fd)
