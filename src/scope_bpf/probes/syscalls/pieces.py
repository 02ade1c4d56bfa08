"""What the programs have read of calls: the pieces in the tails of rows, found and turned into text for whole batches.

The kernel writes a row of pieces behind an event (struct syscall_piece, bpf/probes/syscalls/syscalls.h). They are
found in steps, the first pieces of all rows, then the second ones; each distinct one is turned into text once.
"""

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scope_bpf.catalogue.stream import Rows, Tails
from scope_bpf.layout.btf import Btf
from scope_bpf.layout.records import enum_values, record_dtype
from scope_bpf.probes.syscalls.piece_texts import PIECE_TEXTS, path_of

_FOUND = np.dtype([("row", "i8"), ("begin", "i8"), ("end", "i8"), ("slot", "u1"), ("text", "u1"), ("flags", "u1")])


class Layouts:
    """What the object's BTF says of pieces."""

    def __init__(self, btf: Btf) -> None:
        self.kinds = enum_values(btf, "syscall_text")
        self.slots = enum_values(btf, "syscall_slot")
        self.piece = record_dtype(btf, "syscall_piece")
        self.structs = {name: record_dtype(btf, name) for name in ("syscall_unnamed", "syscall_socket")}


class Pieces:
    """The pieces of a batch's rows, by slot: the number of an argument, or the name of another slot in C."""

    def __init__(self, tails: Tails, layouts: Layouts) -> None:
        self._layouts, self._data = layouts, tails.data
        self._found = _find(tails, layouts.piece)
        self._places = np.full((layouts.slots["SLOTS"], len(tails.starts) - 1), -1, np.int64)
        self._places[self._found["slot"], self._found["row"]] = np.arange(len(self._found))

    def texts(self, slot: int | str, rows: Rows) -> pa.Array:
        """What is shown of a slot in these rows, given by number; null where nothing was read."""
        codes, texts = self._texts
        return texts.take(codes.take(self._chosen(slot, rows)))

    def strings(self, slot: int | str, rows: Rows) -> pa.Array:
        """The strings that the program gave, as bytes; null where there is none."""
        return self._values.dictionary.take(self._values.indices.take(self._chosen(slot, rows, "TEXT_STRING")))

    def paths(self, slot: int | str, rows: Rows) -> pa.Array:
        """The absolute paths of the files that descriptors stand for, as bytes; null where there is none."""
        return self._paths.take(self._values.indices.take(self._chosen(slot, rows, "TEXT_FILE")))

    def _chosen(self, slot: int | str, rows: Rows, kind: str = "") -> pa.Array:
        """The numbers of the pieces in a slot, of this kind or of any; null where there is none."""
        places = self._places[slot if isinstance(slot, int) else self._layouts.slots[slot]][rows]
        chosen = pa.array(places, mask=places < 0)
        if not kind:
            return chosen
        kinds = pa.array(self._found["text"]).take(chosen)
        return pc.if_else(pc.equal(kinds, self._layouts.kinds[kind]), chosen, None)

    @cached_property
    def _values(self) -> pa.Array:
        """The bytes of every piece: the block of all tails, cut where pieces begin and end; each other part is one."""
        bounds = np.zeros(2 * len(self._found), np.int32)
        bounds[::2], bounds[1::2] = self._found["begin"], self._found["end"]
        parts = [None, pa.py_buffer(bounds), pa.py_buffer(self._data)]
        cut = pa.Array.from_buffers(pa.binary(), max(0, len(bounds) - 1), parts)
        return cut.take(pa.array(np.arange(0, len(bounds), 2))).dictionary_encode()

    @cached_property
    def _paths(self) -> pa.Array:
        return pa.array([path_of(value) for value in self._values.dictionary.to_pylist()], pa.binary())

    @cached_property
    def _texts(self) -> tuple[pa.Array, pa.Array]:
        """The distinct texts, and which of them is each piece's."""
        values = self._values
        kinds = self._found["text"].astype(np.int64) << 8 | self._found["flags"]
        distinct = pa.array(values.indices.to_numpy().astype(np.int64) << 16 | kinds).dictionary_encode()
        makers = {number: PIECE_TEXTS[name] for name, number in self._layouts.kinds.items()}
        known, structs = values.dictionary.to_pylist(), self._layouts.structs
        texts = [
            makers[key >> 8 & 0xFF](known[key >> 16], key & 0xFF, structs) for key in distinct.dictionary.to_pylist()
        ]
        return distinct.indices, pa.array(texts, pa.string())


def _find(tails: Tails, piece: np.dtype[Any]) -> Rows:
    """Every piece, in the order of the rows and of the pieces in them; what is damaged ends its row."""
    data, size = tails.data, piece.itemsize
    offsets = {name: piece.fields[name][1] for name in piece.names or ()} if piece.fields else {}
    rows = np.arange(len(tails.starts) - 1)
    at, end = tails.starts[:-1].astype(np.int64), tails.starts[1:].astype(np.int64)
    rounds = []
    while len(rows):
        there = at + size <= end
        rows, at, end = rows[there], at[there], end[there]
        found = np.empty(len(rows), _FOUND)
        found["row"], found["begin"] = rows, at + size
        for name in ("slot", "text", "flags"):
            found[name] = data[at + offsets[name]]
        length = offsets["length"]
        found["end"] = found["begin"] + data[at + length] + (data[at + length + 1].astype(np.int64) << 8)
        whole = found["end"] <= end
        rounds.append(found[whole])
        rows, at, end = rows[whole], found["end"][whole], end[whole]
    every = np.concatenate([*rounds, np.empty(0, _FOUND)])
    return every[np.argsort(every["begin"], kind="stable")]
