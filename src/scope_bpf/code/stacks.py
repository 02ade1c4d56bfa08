"""Stacks as text: function names, outermost first, separated by semicolons, the format of flame graphs.

A function without a symbol becomes file, offset and build id, so it can be named later with the debug file of that
build. If the debug file arrives while the stack is in use, later rows have the names.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.stacks import COLUMNS
from scope_bpf.catalogue.stream import Rows, Stream
from scope_bpf.code.frame_names import FrameNames
from scope_bpf.code.history import History, Listener, Mapped, Process
from scope_bpf.code.kept_stacks import KeptStacks, Known, Named
from scope_bpf.code.kernel_symbols import MARK, KernelSymbols, before_switch
from scope_bpf.code.modules import Module, Modules
from scope_bpf.code.python.codes import Codes
from scope_bpf.code.python.merging import Group, Native, merged
from scope_bpf.code.python.processes import PythonProcesses
from scope_bpf.code.unwinding import Unwinding
from scope_bpf.layout.records import enum_values
from scope_catalogue.stream import Mode

CUT = "[cut]"  # replaces frames for which the kernel had no space
NO_STACK = Named(None, None, None, None)
_MOST_FRAMES = 1 << 15  # of a process, whose names are remembered by address
_AGE = np.uint64(0x9E3779B97F4A7C15)  # mixes the age into a stack's number


class StackResolver:
    """A resolver of stacks only; see `scope_bpf.code.resolver.Resolver`.

    Args:
        all_processes: stacks may be of any process, not only of those that use a file with attached functions.
        is_walked: whether Python frames of the interpreter in a file are wanted.
    """

    def __init__(
        self,
        object_: BpfObject,
        modules: Modules,
        *,
        all_processes: bool = False,
        is_walked: Callable[[Module], bool] = lambda _: True,
    ) -> None:
        self._stacks, self._all_processes = StackNames(object_, modules.history, is_walked), all_processes

    def add_module(self, module: Module) -> bool:
        """Keeps a file if every process that maps it may have stacks."""
        self._stacks.add_module(module)
        return self._all_processes

    def find_functions(self, module: Module) -> dict[str, int]:
        """No functions: only stacks are resolved."""
        return {}

    def drop_module(self, module: Module) -> None:
        """Forgets a file that no process maps any more."""
        self._stacks.drop_module(module)

    def add_process(self, process: Process) -> None:
        """Nothing: the modules' history has the process's mappings."""

    def notes(self) -> list[str]:
        """Which interpreters' frames cannot be walked."""
        return self._stacks.notes()

    def settle(self, timeout_s: float) -> None:
        """Waits until the code that processes have mapped can be unwound, but not longer than `timeout_s`."""
        self._stacks.settle(timeout_s)

    def close(self) -> None:
        """Reads no more files. May be called again."""
        self._stacks.close()

    def resolve(self, stream: Stream, rows: Rows) -> dict[str, pa.Array]:
        """The stream's columns about stacks."""
        return self._stacks.columns(stream, rows)


class StackNames:
    """Texts of the stacks in a probe's map `scope_stacks` (stack.bpf.h); each text is made once.

    For the thread that makes columns; another thread writes `history`, and calls `drop_module`.

    Args:
        is_walked: whether Python frames of the interpreter in a file are wanted.
    """

    def __init__(
        self, object_: BpfObject, history: History, is_walked: Callable[[Module], bool] = lambda _: True
    ) -> None:
        self._kept, self._history = KeptStacks(object_, history), history
        self._flags = enum_values(object_.btf, "scope_stack_flag")
        self._entered_at = enum_values(object_.btf, "python_entered")["PYTHON_ENTERED_AT"]
        self._codes, self._pythons = Codes(object_), PythonProcesses(object_, is_walked)
        self._unwinding, self._kernel, self._names = Unwinding(object_), KernelSymbols(), FrameNames()
        history.listener = _Told(self._pythons, self._unwinding)

    def add_module(self, module: Module) -> None:
        """Gets ready for a file that a process may map soon."""
        self._unwinding.prepare(module)

    def drop_module(self, module: Module) -> None:
        """Forgets a file that no process maps any more."""
        self._pythons.drop(module)
        self._unwinding.drop(module)

    def notes(self) -> list[str]:
        """Which stacks are missing, which Python frames cannot be walked, for which code there was no room, and which
        names cannot be had."""
        return self._kept.notes() + self._pythons.notes() + self._unwinding.notes() + self._names.notes()

    def settle(self, timeout_s: float) -> None:
        """Waits until the code that processes have mapped can be unwound, but not longer than `timeout_s`."""
        self._unwinding.settle(timeout_s)

    def close(self) -> None:
        """Reads no more files. May be called again."""
        self._unwinding.close()
        self._names.close()
        self._kept.close()

    def columns(self, stream: Stream, rows: Rows) -> dict[str, pa.Array]:
        """Those of `stack`, `function`, `python` and `walked` that the stream has (scope_bpf.catalogue.stacks), by
        `stack_id`, process and time; null if the row has no stack."""
        if "stack" not in stream.made.resolved:
            return {}
        # Another stream may mean something else by the name of one of the others.
        wanted = ["stack", *(name for name in Named._fields[1:] if stream.made.resolved.get(name) is COLUMNS[name])]
        self._history.catch_up_to(int(rows["ktime_ns"].max(initial=0)))
        numbers = np.array(rows["stack_id"])
        if stream.mode is Mode.EVENTS and self._history.has_replaced:
            numbers ^= self._history.ages(rows).astype(np.uint64) * _AGE
        keys = pa.array(numbers).dictionary_encode()  # a stack's number is unique per process
        _, first = np.unique(keys.indices.to_numpy(), return_index=True)
        found = [self._find(rows[index], stream) for index in first.tolist()]
        self._kept.count(stream, rows, np.array([one is not NO_STACK for one in found], bool)[keys.indices.to_numpy()])
        self._kept.make_room()
        self._codes.make_room()
        return {
            name: pa.array([getattr(one, name) for one in found], pa.string()).take(keys.indices).dictionary_encode()
            for name in wanted
        }

    def _find(self, row: Any, stream: Stream) -> Named:
        pid, start_ns, number = int(row["pid"]), int(row["start_ns"]), int(row["stack_id"])
        if not number:
            return NO_STACK
        process = self._history.following(pid, start_ns)
        time_ns = int(row["ktime_ns"]) if stream.mode is Mode.EVENTS else 0  # stacks of states are older than the rows
        age = process.age_at(time_ns) if process else 0
        arrived = self._names.arrived
        known = self._kept.known(process, number, age) if process else None
        if known and known.arrived in (None, arrived):
            known.lasts |= stream.is_gauge
            return known.named
        stack = self._kept.read(pid, start_ns, number)
        if stack is None:
            return known.named if known else NO_STACK
        native = self._native(process, stack, time_ns or int(stack["ktime_ns"]))
        named = self._named(process, pid, start_ns, stack, native)
        if process:
            until = None if all(frame.is_named for frame in native) else arrived
            self._kept.keep(process, number, age, Known(named, until, lasts=stream.is_gauge))
        return named

    def _named(self, process: Process | None, pid: int, start_ns: int, stack: Any, native: list[Native]) -> Named:
        flags = {kind for kind, bit in self._flags.items() if int(stack["flags"]) & bit}
        python = self._python(process, pid, start_ns, stack)
        if "STACK_BY_FRAME_POINTERS" in flags and len(sure := native[: _known(native)]) < len(native):
            native = sure
            flags.add("STACK_CUT_USER")
        frames = merged(native, python)
        if "STACK_CUT_PYTHON" in flags or (not python and "STACK_CUT_USER" in flags):
            frames.insert(0, CUT)
        if "kernel" in (stack.dtype.names or ()):
            frames += [CUT] if "STACK_CUT_KERNEL" in flags else []
            kernel = self._kernel.names(stack["kernel"][: int(stack["kernel_depth"])][::-1])
            frames += before_switch(kernel) if "STACK_AT_SWITCH" in flags else kernel
        walked = "frame_pointers" if "STACK_BY_FRAME_POINTERS" in flags else "eh_frame"
        return Named(
            ";".join(frames),
            _innermost(frames, "STACK_AT_SWITCH" in flags),
            python[0].texts[0] if python else None,
            walked if stack["user_depth"] else None,
        )

    def _native(self, process: Process | None, stack: Any, time_ns: int) -> list[Native]:
        """The frames of the user stack, innermost first."""
        addresses = stack["user"][: int(stack["user_depth"])].tolist()
        # A return address may already be in the next function, so look up the byte before it, inside the call.
        is_told = self._history.told_ns >= time_ns
        if process and not is_told and not all(process.at(address - 1, time_ns) for address in addresses):
            self._history.catch_up(process.pid)
        return [self._frame(process, address, time_ns) for address in addresses]

    def _frame(self, process: Process | None, address: int, time_ns: int) -> Native:
        there = process.at(address - 1, time_ns) if process else None
        module = there.module if there else None
        if not process or not there or not module:
            return Native(f"{address:#x}", is_known=there is not None)
        known: Native | None = process.frames.get((there, address))
        if known:
            return known
        text, is_named = self._names.at(module, address - 1 - there.start + there.offset)
        frame = Native(text, self._pythons.is_in(module), is_named=is_named)
        if is_named:
            if len(process.frames) >= _MOST_FRAMES:
                process.frames = {}
            process.frames[there, address] = frame
        return frame

    def _python(self, process: Process | None, pid: int, start_ns: int, stack: Any) -> list[Group]:
        """The Python frames, innermost first, in groups: one C function runs the frames of a group."""
        frames = stack["python"][: int(stack["python_depth"])]
        version = self._pythons.version(process) if process and len(frames) else None
        groups, texts = [], []
        for frame in frames:
            texts.append(self._codes.text(pid, start_ns, frame, version).replace(";", ","))
            if entered := int(frame["entered"]):
                place = entered - self._entered_at
                groups.append(Group(tuple(texts), place if place >= 0 else None))
                texts = []
        return [*groups, Group(tuple(texts))] if texts else groups


def _innermost(frames: Sequence[str], at_switch: bool) -> str | None:
    """The innermost frame. Every thread leaves the CPU in the same function of the kernel, so at a switch it is that of
    the program; threads of the kernel have none."""
    own = next((frame for frame in reversed(frames) if not frame.endswith(MARK)), None) if at_switch else None
    return own or (frames[-1] if frames else None)


def _known(native: Sequence[Native]) -> int:
    """The number of frames before the first one outside of all mapped code, which is none."""
    return next((index for index, frame in enumerate(native) if not frame.is_known), len(native))


class _Told(Listener):
    """Tells both what a history notes."""

    def __init__(self, pythons: PythonProcesses, unwinding: Unwinding) -> None:
        self._pythons, self._unwinding = pythons, unwinding

    def mapped(self, process: Process, mapped: Mapped) -> None:
        """A process has mapped code."""
        self._pythons.note(process, mapped)
        self._unwinding.note(process, mapped)

    def forked(self, parent: Process, child: Process) -> None:
        """A process has the same code as its parent."""
        for mapped in child.mapped:
            self._pythons.note(child, mapped)
        self._unwinding.note_fork(parent, child)

    def pruned(self, process: Process) -> None:
        """Mappings of a process are gone."""
        self._unwinding.note_pruned(process)

    def ended(self, process: Process) -> None:
        """A process has ended."""
        self._unwinding.note_end(process)

    def told(self) -> None:
        """All news so far were noted."""
        self._unwinding.write()
