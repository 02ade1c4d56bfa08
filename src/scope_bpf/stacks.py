"""Stacks as text: the functions that called, outermost first, separated by semicolons, as flame graphs take them."""

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue import Rows
from scope_bpf.errors import KernelError
from scope_bpf.modules import Modules
from scope_bpf.object import BpfObject

_FRAME = np.dtype([("inode", "<u8"), ("offset", "<u8")])


class StackNames:
    """Texts of the stacks that a probe keeps in `scope_stacks` (stack.bpf.h); each is made once."""

    def __init__(self, object_: BpfObject, modules: Modules) -> None:
        self._map, self._modules = object_.map("scope_stacks"), modules
        self._known: dict[int, str | None] = {0: None}
        self._frames: dict[tuple[int, int], str] = {}

    def column(self, ids: Rows) -> pa.Array:
        """The text of each stack, by its number; null where none was kept."""
        keys = pa.array(np.array(ids)).dictionary_encode()
        texts = [self._text(number) for number in keys.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(keys.indices).dictionary_encode()

    def _text(self, number: int) -> str | None:
        if number not in self._known:
            try:
                value = self._map.lookup(number.to_bytes(8, "little"))
            except KernelError:
                return None
            depth = int.from_bytes(value[:8], "little")
            frames = np.frombuffer(value, _FRAME, depth, 8)[::-1]
            self._known[number] = ";".join(self._frame(int(one["inode"]), int(one["offset"])) for one in frames)
        return self._known[number]

    def _frame(self, inode: int, offset: int) -> str:
        if (inode, offset) not in self._frames:
            module = self._modules.by_inode.get(inode)
            if module:
                text = module.name_at(offset) or module.place_of(offset)
            else:
                text = f"?+{offset:#x}" if inode else f"{offset:#x}"
            self._frames[inode, offset] = text.replace(";", ",")
        return self._frames[inode, offset]
