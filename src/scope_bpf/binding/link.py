"""An attached program."""

from typing import Any

from scope_bpf.binding.ffi import ffi, lib, libbpf_log
from scope_bpf.errors import KernelError


class Link:
    """Attaches a loaded program to the hook in its section name, until `close`."""

    def __init__(self, program: Any, name: str) -> None:
        libbpf_log()
        self.program_fd: int = lib.bpf_program__fd(program)
        self._link = lib.bpf_program__attach(program)
        if self._link == ffi.NULL:
            raise KernelError(f"cannot attach the BPF program '{name}'", ffi.errno, libbpf_log())

    def close(self) -> None:
        """Detaches. May be called again."""
        if self._link != ffi.NULL:
            lib.bpf_link__destroy(self._link)
            self._link = ffi.NULL
