"""The resolver of `ggml`: results of operations, stacks, and which processes replay CUDA graphs."""

from collections import deque
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.stream import Rows, Stream
from scope_bpf.code.function_names import plain_name
from scope_bpf.code.history import History
from scope_bpf.code.modules import Module, Modules
from scope_bpf.code.stacks import StackResolver
from scope_bpf.errors import LayoutMismatch
from scope_bpf.layout.records import record_dtype
from scope_bpf.probes.ggml.functions import CUDA_FUNCTIONS
from scope_bpf.probes.ggml.replays import Replays
from scope_bpf.probes.ggml.tensors import TYPES, Tensors, tensors_of

_NAME = 64  # bytes: GGML_MAX_NAME
_MOST_NOTES = 64
_LIBRARY, _FUNCTION = "ggml", "ggml_cuda_"  # in the names of files and functions of CUDA backends
_SYMBOLS = {function.symbol for function in CUDA_FUNCTIONS}
_NAMES = {plain_name(symbol) for symbol in _SYMBOLS}
_SIZES = {f"ne{number}": f"size{number}" for number in range(4)}  # column -> member


class GgmlResolver(StackResolver):
    """The resolved columns of the probe's streams; see `scope_bpf.code.resolver.Resolver`."""

    def __init__(self, object_: BpfObject, modules: Modules) -> None:
        super().__init__(object_, modules)
        layout = record_dtype(object_.btf, "ggml_tensor")
        members = {name: int(field[1]) for name, field in (layout.fields or {}).items()}
        self._builds = Builds(modules.history, members)
        self._replays = Replays(object_, modules.history)

    def add_module(self, module: Module) -> bool:
        """Plans to look for functions of a CUDA backend that cannot be attached to; attaching is not to wait for it."""
        if _LIBRARY in Path(module.path).name:
            self._builds.unchecked.append(module)
        return super().add_module(module)

    def drop_module(self, module: Module) -> None:
        """Forgets a file that no process maps any more."""
        self._builds.drop(module)
        super().drop_module(module)

    def notes(self) -> list[str]:
        """Which processes replay graphs, of which the tensors are unknown, and what is to be said of stacks."""
        return self._replays.notes() + self._builds.notes() + super().notes()

    def close(self) -> None:
        """Reads no more files and maps. May be called again."""
        self._replays.close()
        self._builds.notes()  # reads what is not read yet
        super().close()

    def resolve(self, stream: Stream, rows: Rows) -> dict[str, pa.Array]:
        """Columns about stacks or, of operations, about the tensor of the result."""
        if "tensor" not in stream.made.resolved:
            return super().resolve(stream, rows)
        return _tensors(self._builds, rows)


class Builds:
    """What is known of the tensors of processes. `notes` may be called from any thread, the rest from one at a time.

    Args:
        members: offsets of the members of struct ggml_tensor.

    Attributes:
        unchecked: files whose functions are not looked at yet.
    """

    def __init__(self, history: History, members: dict[str, int]) -> None:
        self._history, self._members = history, members
        self.unchecked: deque[Module] = deque()
        self._known: dict[Module, Tensors | None] = {}
        self._unknown: WeakSet[Module] = WeakSet()  # have ggml
        self._notes: dict[str, None] = {}

    def catch_up_to(self, time_ns: int) -> None:
        """Makes sure that the files that processes have mapped until a time are known."""
        self._history.catch_up_to(time_ns)

    def of(self, pid: int, start_ns: int) -> Tensors | None:
        """What the files of a process say; None: unknown."""
        process = self._history.following(pid, start_ns)
        modules = {one.module for one in list(process.mapped) if one.module} if process else set()
        found = {known for module in modules if (known := self._tensors(module))}
        is_unknown = any(module in self._unknown for module in modules)
        if len(found) + is_unknown > 1:
            self._note(f"process {pid}: tensors are unknown: it has builds of ggml that differ")
        elif not found and not is_unknown:
            self._note(f"process {pid}: tensors are unknown: none of its files has ggml_op_name")
        return found.pop() if len(found) == 1 and not is_unknown else None

    def _note(self, text: str) -> None:
        if len(self._notes) < _MOST_NOTES:
            self._notes[text] = None

    def _tensors(self, module: Module) -> Tensors | None:
        if module not in self._known:
            self._known[module] = None
            try:
                self._known[module] = tensors_of(module.elf, self._members)
            except LayoutMismatch as error:
                self._unknown.add(module)
                self._note(f"{module.path}: {error}")
        return self._known[module]

    def drop(self, module: Module) -> None:
        """Forgets a file."""
        self._known.pop(module, None)

    def notes(self) -> list[str]:
        """What is unknown, and why."""
        while self.unchecked:
            with suppress(IndexError, OSError):  # another thread has taken it; no process maps it any more
                self._check(self.unchecked.popleft())
        return list(self._notes)

    def _check(self, module: Module) -> None:
        """Notes functions that have a known name, but whose arguments are not those of any known version."""
        symbols = {name for name, _ in module.elf.functions_containing(_FUNCTION) if "." not in name}
        unknown = {plain_name(each) for each in symbols - _SYMBOLS} & _NAMES
        unknown -= {plain_name(each) for each in symbols & _SYMBOLS}
        if unknown:
            self._note(f"{module.path}: not recorded, since their arguments are unknown: {', '.join(sorted(unknown))}")


def _tensors(builds: Builds, rows: Rows) -> dict[str, pa.Array]:
    """The columns about the tensor of each row; all null where its layout is unknown."""
    builds.catch_up_to(int(rows["ktime_ns"].max(initial=0)))
    known, name_at, op_at = np.zeros(len(rows), bool), np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    operations: list[str] = []
    keys = np.zeros(len(rows), [("pid", "<i8"), ("start_ns", "<u8")])
    keys["pid"], keys["start_ns"] = rows["pid"], rows["start_ns"]
    with_tensor = rows["has_tensor"] != 0
    for key in np.unique(keys[with_tensor]):
        found = builds.of(int(key["pid"]), int(key["start_ns"]))
        if found:
            own = np.flatnonzero(with_tensor & (keys == key) & (rows["op_id"] < len(found.operations)))
            known[own], name_at[own], op_at[own] = True, found.name_at, rows["op_id"][own] + len(operations)
            operations += found.operations
    names = pa.array(operations, pa.string())
    return {
        "op": names.take(pa.array(op_at, mask=~known)).dictionary_encode(),
        "data_type": _types(rows, known),
        "tensor": _names(rows, known, name_at),
        **{column: pa.array(np.array(rows[member]), mask=~known) for column, member in _SIZES.items()},
    }


def _types(rows: Rows, known: Rows) -> pa.Array:
    present, places = np.unique(rows["type_id"], return_inverse=True)
    names = pa.array([TYPES.get(number) for number in present.tolist()], pa.string())
    return names.take(pa.array(places, mask=~known)).dictionary_encode()


def _names(rows: Rows, known: Rows, name_at: Rows) -> pa.Array:
    """The names, each up to its NUL."""
    copied = np.ascontiguousarray(rows["names"]).view(np.uint8).reshape(len(rows), -1)
    texts = np.take_along_axis(copied, name_at[:, None] + np.arange(_NAME), axis=1)
    texts[np.maximum.accumulate(texts == 0, axis=1)] = 0
    packed = texts.reshape(-1).view(f"S{_NAME}") if len(rows) else np.empty(0, f"S{_NAME}")
    present, places = np.unique(packed, return_inverse=True)
    names = pa.array([text.decode(errors="backslashreplace") or None for text in present.tolist()], pa.string())
    return names.take(pa.array(places, mask=~known)).dictionary_encode()
