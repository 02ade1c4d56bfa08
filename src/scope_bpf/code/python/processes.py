"""Tells the BPF programs which processes run Python, and where its interpreter keeps what."""

import logging
from collections.abc import Callable
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from scope_bpf.binding.object import BpfObject
from scope_bpf.code.history import Mapped, Process
from scope_bpf.code.modules import Module
from scope_bpf.code.python.interpreter import Interpreter, interpreter_in
from scope_bpf.code.python.versions import Version
from scope_bpf.errors import KernelError
from scope_bpf.layout.records import enum_values, record_dtype

log = logging.getLogger(__name__)

_NAMES = ("python", "libpython")  # of files that may have an interpreter; others are not searched for its symbols


class PythonProcesses:
    """Writes the map `python_processes` (python_interpreter.bpf.h).

    `note` and `drop` are for the thread that reads news of mappings.

    Args:
        is_walked: whether frames of the interpreter in a file are wanted.
    """

    def __init__(self, object_: BpfObject, is_walked: Callable[[Module], bool]) -> None:
        self._is_walked = is_walked
        self._map = object_.map("python_processes")
        self._record = record_dtype(object_.btf, "python_process")
        self._ways = enum_values(object_.btf, "python_instruction")
        self._in: dict[Module, Interpreter | None] = {}
        self._versions: WeakKeyDictionary[Process, Version | None] = WeakKeyDictionary()
        self._is_used = object_.has_loaded("python_fork")  # not if the options have chosen no stacks

    def note(self, process: Process, mapped: Mapped) -> None:
        """Notes that a process has mapped a file."""
        module = mapped.module
        if not self._is_used or not module or not Path(module.path).name.startswith(_NAMES):
            return
        if module not in self._in:
            self._in[module] = interpreter_in(module.elf)
        interpreter = self._in[module]
        shift = module.elf.shift_of(mapped.start, mapped.offset)
        if not interpreter or interpreter.unknown or shift is None or not self._is_walked(module):
            return
        self._versions[process] = interpreter.version  # an exec may have replaced another one
        record = np.zeros((), self._record)
        for name, address in (("runtime", interpreter.runtime), ("code_type", interpreter.code_type)):
            record[name] = (address + shift) % (1 << 64)  # a file may tell any address
        for name, value in interpreter.offsets.items():
            record["at"][name] = self._ways[value] if isinstance(value, str) else value
        try:
            self._map.update(process.pid.to_bytes(4, "little"), record.tobytes())
        except KernelError as error:
            log.warning("cannot walk Python frames", extra={"pid": process.pid, "reason": str(error)})

    def version(self, process: Process) -> Version | None:
        """The version that a process runs; None: none that is known."""
        return self._versions.get(process)

    def is_in(self, module: Module) -> bool:
        """Whether a file contains an interpreter."""
        return self._in.get(module) is not None

    def drop(self, module: Module) -> None:
        """Forgets a file that no process maps any more."""
        self._in.pop(module, None)

    def notes(self) -> list[str]:
        """Which interpreters' frames cannot be walked."""
        unknown = {(one.unknown, module.path) for module, one in list(self._in.items()) if one and one.unknown}
        return [f"no Python frames of {path}: {reason} is not known" for reason, path in sorted(unknown)]
