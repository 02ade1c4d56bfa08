"""Stacks as text: function names, outermost first, separated by semicolons, the format of flame graphs.

Code without a symbol becomes file, offset and build id, so it can be resolved later with the debug information of that
build.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.stream import Mode, Rows, Stream
from scope_bpf.code.history import History, Process
from scope_bpf.code.modules import Module, Modules
from scope_bpf.layout.records import record_dtype

CUT = "[cut]"  # replaces frames for which the kernel had no space
_AGE = np.uint64(0x9E3779B97F4A7C15)  # mixes the age into a stack's number


class StackResolver:
    """A resolver of stacks only; see `scope_bpf.code.resolver.Resolver`."""

    def __init__(self, object_: BpfObject, modules: Modules) -> None:
        self._stacks = StackNames(object_, modules.history)

    def add_module(self, module: Module) -> bool:
        """Keeps no module open."""
        return False

    def find_functions(self, module: Module) -> dict[str, int]:
        """No functions: only stacks are resolved."""
        return {}

    def drop_module(self, module: Module) -> None:
        """Nothing: no module is kept."""

    def add_process(self, process: Process) -> None:
        """Nothing: the modules' history has the process's mappings."""

    def notes(self) -> list[str]:
        """None."""
        return []

    def settle(self, timeout_s: float) -> None:
        """Nothing: no work is done in the background."""

    def close(self) -> None:
        """Nothing: no resources are held."""

    def resolve(self, stream: Stream, rows: Rows) -> dict[str, pa.Array]:
        """The stream's column `stack`."""
        return {"stack": self._stacks.column(stream, rows)} if "stack" in stream.resolved else {}


class StackNames:
    """Texts of the stacks in a probe's map `scope_stacks` (stack.bpf.h); each text is made once.

    For the thread that makes columns; another thread writes `history`.
    """

    def __init__(self, object_: BpfObject, history: History) -> None:
        self._map, self._history = object_.map("scope_stacks"), history
        self._key = record_dtype(object_.btf, "scope_stacks_key")
        self._stack = record_dtype(object_.btf, "scope_stack")

    def column(self, stream: Stream, rows: Rows) -> pa.Array:
        """The text of each row's stack, by `stack_id`, process and time; null if the row has no stack."""
        self._history.catch_up_to(int(rows["ktime_ns"].max(initial=0)))
        numbers = np.array(rows["stack_id"])
        if stream.mode is Mode.EVENTS and self._history.has_replaced:
            numbers ^= self._history.ages(rows).astype(np.uint64) * _AGE
        keys = pa.array(numbers).dictionary_encode()  # a stack's number is unique per process
        _, first = np.unique(keys.indices.to_numpy(), return_index=True)
        texts = [self._text(rows[index], stream.mode is Mode.EVENTS) for index in first.tolist()]
        return pa.array(texts, pa.string()).take(keys.indices).dictionary_encode()

    def _text(self, row: Any, is_event: bool) -> str | None:
        pid, start_ns, number = int(row["pid"]), int(row["start_ns"]), int(row["stack_id"])
        if not number:
            return None
        process = self._history.following(pid, start_ns)
        time_ns = int(row["ktime_ns"]) if is_event else 0  # stacks of states are older than the rows
        age = process.age_at(time_ns) if process else 0
        if process and (number, age) in process.texts:
            return process.texts[number, age]
        key = np.zeros((), self._key)
        key["start_ns"], key["number"], key["pid"] = start_ns, number, pid
        value = self._map.get(key.tobytes())
        if value is None:
            return None
        stack = np.frombuffer(value, self._stack)[0]
        text = self._named(process, stack, time_ns or int(stack["ktime_ns"]))
        if process:
            process.texts[number, age] = text
        return text

    def _named(self, process: Process | None, stack: Any, time_ns: int) -> str:
        addresses = stack["addresses"][: int(stack["depth"])].tolist()[::-1]
        # A return address may already be in the next function, so look up the byte before it, inside the call.
        if process and not all(process.at(address - 1, time_ns) for address in addresses):
            self._history.catch_up(process.pid)
        frames = [CUT] if stack["cut"] else []
        for address in addresses:
            there = process.at(address - 1, time_ns) if process else None
            if there and there.module:
                frames.append(there.module.frame_at(address - 1 - there.start + there.offset))
            else:
                frames.append(f"{address:#x}")
        return ";".join(frames)
