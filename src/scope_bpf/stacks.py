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

    def column(self, ids: Rows, pids: Rows) -> pa.Array:
        """The text of each stack, by its number; null where none was kept.

        Args:
            pids: whose they are; who maps a library later than its first stack is looked at again.
        """
        keys = pa.array(np.array(ids)).dictionary_encode()
        _, first = np.unique(keys.indices.to_numpy(), return_index=True)
        owners = pids[first].tolist()
        texts = [self._text(*of) for of in zip(keys.dictionary.to_pylist(), owners, strict=True)]
        return pa.array(texts, pa.string()).take(keys.indices).dictionary_encode()

    def _text(self, number: int, pid: int) -> str | None:
        if number not in self._known:
            try:
                value = self._map.lookup(number.to_bytes(8, "little"))
            except KernelError:
                return None
            depth = int.from_bytes(value[:8], "little")
            frames = np.frombuffer(value, _FRAME, depth, 8)[::-1]
            if not set(frames["inode"].tolist()) - {0} <= self._modules.by_inode.keys():
                self._modules.add_process(pid)
            self._known[number] = ";".join(self._frame(int(one["inode"]), int(one["offset"])) for one in frames)
        return self._known[number]

    def _frame(self, inode: int, offset: int) -> str:
        module = self._modules.by_inode.get(inode)
        if not module:
            return f"?+{offset:#x}" if inode else f"{offset:#x}"
        if (inode, offset) not in self._frames:
            self._frames[inode, offset] = (module.name_at(offset) or module.place_of(offset)).replace(";", ",")
        return self._frames[inode, offset]
