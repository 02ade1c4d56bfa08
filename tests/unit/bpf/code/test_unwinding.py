"""What the kernel is told about processes stays right when processes fork, end, and map other code meanwhile."""

import os
import threading
import time
from typing import Any

import numpy as np
import pytest

from scope_bpf.code import unwinding as unwinding_module
from scope_bpf.code.history import History, Listener, Mapped, Process
from scope_bpf.code.unwinding import Unwinding
from scope_bpf.errors import KernelError
from scope_bpf.layout.records import record_dtype
from scope_bpf.probes import probe_named

BTF = probe_named("profile").btf
RECORD = record_dtype(BTF, "unwind_process")
ROW = record_dtype(BTF, "unwind_row")
MOST = int(RECORD["mappings"].shape[0])


class KernelMap(dict[bytes, bytes]):
    """A map in place of the kernel's."""

    def __init__(self, entries: int) -> None:
        super().__init__()
        self.max_entries = entries
        self.changes = 0

    def update(self, key: bytes, value: bytes) -> None:  # type: ignore[override]
        if len(self) >= self.max_entries and key not in self:
            raise KernelError("no room", 7)
        self[key] = value
        self.changes += 1

    def delete(self, key: bytes) -> None:
        self.pop(key, None)


class Object:
    """A loaded object in place of the kernel's."""

    btf = BTF

    def __init__(self) -> None:
        self.maps = {"unwind_processes": KernelMap(16), "unwind_tables": KernelMap(4)}

    def map(self, name: str) -> KernelMap:
        return self.maps[name]

    def has_loaded(self, program: str) -> bool:
        return True

    def create_like(self, name: str, entries: int) -> int:
        return os.open("/dev/null", os.O_RDONLY)

    def record(self, pid: int) -> list[tuple[int, int, int]]:
        """What the kernel knows of a process: start, end and slot + 1 of each mapping; 0: no table."""
        found = np.frombuffer(self.maps["unwind_processes"][pid.to_bytes(4, "little")], RECORD)[0]
        return [
            (int(one["start"]), int(one["end"]), int(one["table"]) + 1 if one["rows"] else 0)
            for one in found["mappings"][: int(found["count"])]
        ]


class File:
    """A file whose table has some rows; it is made when `ready` is set."""

    def __init__(self, rows: int = 1, ready: bool = True) -> None:
        self.path, self.rows, self.elf, self.segments = f"file of {rows}", rows, self, ()
        self.ready = threading.Event()
        if ready:
            self.ready.set()

    def section(self, name: str) -> tuple[int, bytes]:
        self.ready.wait()
        return self.rows, b""

    def shift_of(self, start: int, offset: int) -> int:
        return start - offset


class Told(Listener):
    """As in scope_bpf.code.stacks, without interpreters."""

    def __init__(self, unwinding: Unwinding) -> None:
        self.mapped, self.forked = unwinding.note, unwinding.note_fork  # type: ignore[method-assign]
        self.pruned, self.ended = unwinding.note_pruned, unwinding.note_end  # type: ignore[method-assign]
        self.told = unwinding.write  # type: ignore[method-assign]


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Object:
    monkeypatch.setattr(unwinding_module, "unwind_rows", lambda *arguments: np.zeros(arguments[1], arguments[3]))
    monkeypatch.setattr(unwinding_module, "fill_array", lambda *_: None)
    return Object()


@pytest.fixture
def unwinding(kernel: Object) -> Any:
    made = Unwinding(kernel)  # type: ignore[arg-type]
    yield made
    made.close()


@pytest.fixture
def history(unwinding: Unwinding) -> History:
    made = History()
    made.listener = Told(unwinding)
    return made


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def maps(history: History, process: Process, *places: tuple[int, int, Any], offset: int = 0) -> None:
    for start, end, file in places:
        history.add(process, Mapped(now_ns(), start, end, offset, file))
    history.listener.told()


def test_a_table_reaches_a_child_that_was_not_known_yet(kernel: Object, unwinding: Unwinding, history: History) -> None:
    """The kernel has copied the parent's record before the table was there, and the fork is told after that."""
    file: Any = File(ready=False)
    parent = history.begin(1, now_ns())
    maps(history, parent, (10, 20, file))
    copied_ns = now_ns()  # the fork
    records = kernel.maps["unwind_processes"]
    records[bytes([2, 0, 0, 0])] = records[bytes([1, 0, 0, 0])]
    file.ready.set()
    unwinding.settle(60)
    assert kernel.record(2) == [(10, 20, 0)]
    history.begin(2, copied_ns, parent)
    history.listener.told()
    assert kernel.record(1) == kernel.record(2) == [(10, 20, 1)]


def test_a_fork_costs_nothing_if_the_copy_is_right(kernel: Object, unwinding: Unwinding, history: History) -> None:
    parent = history.begin(1, now_ns())
    maps(history, parent, (10, 20, File()))
    unwinding.settle(60)
    changes = kernel.maps["unwind_processes"].changes
    history.begin(2, now_ns() + 1, parent)
    history.listener.told()
    assert kernel.maps["unwind_processes"].changes == changes


def test_what_has_ended_is_forgotten(kernel: Object, unwinding: Unwinding, history: History) -> None:
    """Also if it was written after the kernel had forgotten it: else the map would fill up."""
    file: Any = File(ready=False)
    for pid in range(1, 100):
        process = history.begin(pid, now_ns())
        maps(history, process, (10, 20, file))
        history.end(process)
        history.listener.told()
    file.ready.set()
    unwinding.settle(60)
    assert kernel.maps["unwind_processes"] == {}
    assert unwinding.notes() == []


def test_a_pid_that_is_used_again(kernel: Object, history: History) -> None:
    """The end of the former process does not take away what the kernel has copied for the next one."""
    file: Any = File()
    parent, former = history.begin(1, now_ns()), history.begin(2, now_ns())
    maps(history, parent, (10, 20, file))
    maps(history, former, (30, 40, file))
    forked_ns = now_ns()
    history.end(former)
    history.begin(2, forked_ns, parent)
    history.listener.told()
    assert [one[:2] for one in kernel.record(2)] == [(10, 20)]


def test_parts_of_a_mapping_stay(kernel: Object, history: History) -> None:
    """When something else is mapped into its middle; both parts lie where they lay."""
    file, other = File(), File()
    process = history.begin(1, now_ns())
    maps(history, process, (100, 200, file), (140, 160, other))
    assert [one[:2] for one in kernel.record(1)] == [(100, 140), (140, 160), (160, 200)]
    biases = np.frombuffer(kernel.maps["unwind_processes"][bytes([1, 0, 0, 0])], RECORD)[0]["mappings"]["bias"]
    assert biases[0] == biases[2]


def test_what_is_unmapped_takes_no_room(kernel: Object, unwinding: Unwinding, history: History) -> None:
    """A program that makes code again and again, as interpreters do, keeps its libraries."""
    file: Any = File()
    process = history.begin(1, now_ns())
    maps(history, process, (10_000_000, 10_001_000, file))
    unwinding.settle(60)
    for number in range(2 * MOST):
        maps(history, process, (number * 100, number * 100 + 50, None))
    assert kernel.record(1)[-1] == (10_000_000, 10_001_000, 1), "a file with a table comes first"
    assert len(kernel.record(1)) == MOST
    assert unwinding.notes() == [
        f"unwound by frame pointers: some code of 1 processes that have more than {MOST} pieces of it"
    ]
    for _ in range(2):
        history.prune(process, {10_000_000}, grace_s=0)
    history.listener.told()
    assert kernel.record(1) == [(10_000_000, 10_001_000, 1)]
    assert unwinding.notes() == []


@pytest.mark.parametrize("limit", ["rows", "slots"])
def test_a_file_gets_the_room_of_another(
    kernel: Object, unwinding: Unwinding, history: History, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no room is told until there is some."""
    if limit == "rows":
        monkeypatch.setattr(unwinding_module, "_MOST_ROWS", 8)
    files: list[Any] = [File(2) for _ in range(5)]
    process = history.begin(1, now_ns())
    maps(history, process, *((number * 10, number * 10 + 5, file) for number, file in enumerate(files)))
    unwinding.settle(60)
    assert [one[2] for one in kernel.record(1)] == [1, 2, 3, 4, 0]
    assert unwinding.notes() == ["unwound by frame pointers: file of 2: no room for a table of 2 rows"]
    unwinding.drop(files[1])
    unwinding.settle(60)
    assert [one[2] for one in kernel.record(1)] == [1, 3, 4, kernel.record(1)[3][2]]
    assert kernel.record(1)[3][2] > 0
    assert unwinding.notes() == []


def test_a_full_kernel_map_is_told(unwinding: Unwinding, history: History) -> None:
    for pid in range(1, 20):
        maps(history, history.begin(pid, now_ns()), (10, 20, None))
    assert unwinding.notes() == ["unwound by frame pointers: processes that the kernel had no room for (3 times)"]


def test_many_files_are_told_in_few_words(
    unwinding: Unwinding, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes may be asked for while another thread makes tables."""

    def refuse(*_: object) -> None:
        raise KernelError("cannot make unwind rows", 7)

    monkeypatch.setattr(unwinding_module, "unwind_rows", refuse)
    process = history.begin(1, now_ns())
    maps(history, process, *((number * 10, number * 10 + 5, File(number)) for number in range(300)))
    told = [len(unwinding.notes()) for _ in range(300)]
    assert told == sorted(told)
    unwinding.settle(60)
    assert len(unwinding.notes()) == 21
    assert unwinding.notes()[-1] == "unwound by frame pointers: 280 more files"
