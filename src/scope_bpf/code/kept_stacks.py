"""The stacks of a running probe: as addresses in the kernel's map, and as texts, once a row has needed them.

The map is small and a machine's stacks are many, so stacks with a text are taken out of the map again and again. After
that, programs put a stack into the map once more when it recurs; so texts that no row has needed for long can go, too.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.stream import Rows, Stream
from scope_bpf.code.history import History, Process
from scope_bpf.layout.records import record_dtype
from scope_catalogue.stream import Mode

_MOST_TEXTS = 1 << 16  # about 64 MB
_FIRST = (0).to_bytes(4, "little")


class Named(NamedTuple):
    """A stack as text; see `scope_bpf.catalogue.stacks.COLUMNS`."""

    stack: str | None
    function: str | None
    python: str | None
    walked: str | None


@dataclass(slots=True)
class Known:
    """The text of a stack.

    Attributes:
        arrived: if some frame may get a name later, the number of debug files that had arrived before.
        used: the round in which a row last needed it.
        lasts: states have it, which are told as long as they last.
    """

    named: Named
    arrived: int | None
    used: int = -1
    lasts: bool = False


class KeptStacks:
    """The map `scope_stacks` of an object (stack.bpf.h), and the texts of its stacks. For one thread, except `notes`.

    Texts belong to processes (`Process.texts`), by number and age; see `Process.age_at`.
    """

    def __init__(self, object_: BpfObject, history: History) -> None:
        self._map, self._history = object_.map("scope_stacks"), history
        self._rounds, self._refusals = object_.map(".data.round"), object_.map(".data.unkept")
        self._key, self._stack = record_dtype(object_.btf, "scope_stacks_key"), record_dtype(object_.btf, "scope_stack")
        self._unkept = record_dtype(object_.btf, "stacks_unkept")
        self._round = 0
        self._entries = 0  # in the map at least, that have a text
        self._full = 0  # stacks without room, when room was last made
        self._seen = self._gone = 0
        self._last: Any = None

    def count(self, stream: Stream, rows: Rows, found: Rows) -> None:
        """Counts the rows' stacks; of a summary, each row stands for several.

        Args:
            found: shape (rows,), bool: the row has a text.
        """
        if stream.is_gauge:
            return
        is_summary = stream.mode is Mode.SUMMARY and "count" in (rows.dtype.names or ())
        weights = rows["count"].astype(np.int64) if is_summary else np.ones(len(rows), np.int64)
        has = rows["stack_id"] != 0
        self._seen += int(weights[has].sum())
        self._gone += int(weights[has & ~found].sum())

    def known(self, process: Process, number: int, age: int) -> Known | None:
        """The text of a stack, which a row needs; None: it has none yet."""
        known: Known | None = process.texts.get((number, age))
        if known:
            self._use(known)
        return known

    def keep(self, process: Process, number: int, age: int, known: Known) -> None:
        """Sets the text of a stack, which a row needs."""
        process.texts[number, age] = known
        self._use(known)

    def _use(self, known: Known) -> None:
        if known.used != self._round:
            self._entries += 1  # a program may have put it in again
        known.used = self._round

    def read(self, pid: int, start_ns: int, number: int) -> Any | None:
        """The record of a stack; None: it is not in the map."""
        value = self._map.get(self._packed(pid, start_ns, number))
        return None if value is None else np.frombuffer(value, self._stack)[0]

    def _packed(self, pid: int, start_ns: int, number: int) -> bytes:
        key = np.zeros((), self._key)
        key["start_ns"], key["number"], key["pid"] = start_ns, number, pid
        return key.tobytes()

    def make_room(self) -> None:
        """Takes stacks with a text out of the map if they may be many, or if a program found no room.

        If that is not enough, the oldest others go: of threads that will tell them late, or of rows that were not read.
        """
        full = int(self._read_unkept()["full"])
        if self._entries < self._map.max_entries // 4 and full == self._full:
            return
        self._entries, self._full = 0, full
        keys = np.frombuffer(b"".join(self._map.list_keys()), self._key)
        over = np.array([self._has_text(key) for key in keys], bool)
        others = keys[~over]
        if len(others) > self._map.max_entries // 4 * 3:
            times = np.array([self._time_of(key) for key in others])
            self._delete(others[times <= np.median(times)])
        self._delete(keys[over])
        self._round += 1
        self._rounds.update(_FIRST, self._round.to_bytes(8, "little"))
        self._forget()

    def _has_text(self, key: Any) -> bool:
        process = self._history.find(int(key["pid"]), int(key["start_ns"]))
        if not process:
            return False
        return any((int(key["number"]), age) in process.texts for age in (0, len(process.replaced_ns)))

    def _time_of(self, key: Any) -> int:
        value = self._map.get(key.tobytes())
        return int(np.frombuffer(value, self._stack)[0]["ktime_ns"]) if value else 0

    def _delete(self, keys: Rows) -> None:
        self._map.delete_all(np.ascontiguousarray(keys).view(np.uint8).reshape(-1, self._map.key_size))

    def _forget(self) -> None:
        """Forgets the texts that were not needed for longest, so that about half of them stay."""
        processes = self._history.known()
        used = [known.used for known in chain.from_iterable(process.texts.values() for process in processes)]
        if len(used) <= _MOST_TEXTS:
            return
        since = int(np.median(used))
        for process in processes:
            process.texts = {key: known for key, known in process.texts.items() if known.used > since or known.lasts}

    def _read_unkept(self) -> Any:
        return np.frombuffer(self._refusals.lookup(_FIRST), self._unkept)[0]

    def notes(self) -> list[str]:
        """How many stacks are missing, and why."""
        unkept = self._last if self._last is not None else self._read_unkept()
        full, refused = int(unkept["full"]), int(unkept["refused"])
        reasons = {
            "the kernel's map had no room": full,
            "the kernel had no memory, or was changing the map": refused,
            "they had to leave the map before their rows were read": self._gone,
        }
        missing, whole = full + refused + self._gone, full + refused + self._seen
        if not missing:
            return []
        said = "; ".join(f"{reason} ({count:,})" for reason, count in reasons.items() if count)
        return [f"{missing:,} of {whole:,} stacks are missing ({missing / whole:.1%}): {said}"]

    def close(self) -> None:
        """Reads the kernel's counts for the last time. May be called again."""
        if self._last is None:
            self._last = self._read_unkept()
