"""Stacks as text: the functions that called, outermost first, separated by semicolons, as flame graphs take them.

Code without a symbol is the file, the offset in it and the file's build id: with the debug information of that build,
wherever it is kept, it can be named later.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.stream import Rows
from scope_bpf.code.modules import Modules

_KEY = np.dtype([("start_ns", "<u8"), ("number", "<u8"), ("pid", "<i4"), ("pad", "<u4")])  # scope_stacks_key
_FRAME = np.dtype([("inode", "<u8"), ("offset", "<u8")])


class StackNames:
    """Texts of the stacks that a probe keeps in `scope_stacks` (stack.bpf.h); each is made once."""

    def __init__(self, object_: BpfObject, modules: Modules) -> None:
        self._map, self._modules = object_.map("scope_stacks"), modules
        self._known: dict[int, str | None] = {0: None}
        self._frames: dict[tuple[int, int], str] = {}

    def column(self, rows: Rows) -> pa.Array:
        """The text of each row's stack, by `stack_id` and process; null where none was kept."""
        keys = pa.array(np.array(rows["stack_id"])).dictionary_encode()  # a number is one process's
        _, first = np.unique(keys.indices.to_numpy(), return_index=True)
        texts = [self._text(rows[index]) for index in first.tolist()]
        return pa.array(texts, pa.string()).take(keys.indices).dictionary_encode()

    def _text(self, row: Any) -> str | None:
        number = int(row["stack_id"])
        if number not in self._known:
            key = np.zeros((), _KEY)
            key["start_ns"], key["number"], key["pid"] = row["start_ns"], number, row["pid"]
            value = self._map.get(key.tobytes())
            if value is None:
                return None
            depth = int.from_bytes(value[:8], "little")
            frames = np.frombuffer(value, _FRAME, depth, 8)[::-1]
            if not set(frames["inode"].tolist()) - {0} <= self._modules.by_inode.keys():
                self._modules.add_process(int(row["pid"]))  # it mapped a library after it was looked at
            self._known[number] = ";".join(self._frame(int(one["inode"]), int(one["offset"])) for one in frames)
        return self._known[number]

    def _frame(self, inode: int, offset: int) -> str:
        module = self._modules.by_inode.get(inode)
        if not module:
            return f"?+{offset:#x}" if inode else f"{offset:#x}"
        if (inode, offset) not in self._frames:
            place = f"{module.place_of(offset)} [{module.elf.build_id or 'no build id'}]"
            self._frames[inode, offset] = (module.name_at(offset) or place).replace(";", ",")
        return self._frames[inode, offset]
