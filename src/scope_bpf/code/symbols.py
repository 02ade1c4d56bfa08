"""Symbol tables of ELF files: addresses of functions by name, and the function at an address.

A table may have millions of symbols and hundreds of megabytes of names, so it is read in pieces and not kept in memory.
Columns are copied before a search, because a search in a strided array takes ten times as long.
"""

from collections.abc import Callable, Collection, Iterator
from functools import cached_property

import numpy as np

from scope_bpf.code.effort import Effort
from scope_bpf.layout.elf_headers import SYMBOL, Array, table_at

_FUNC, _GNU_IFUNC = 2, 10  # STT_FUNC, STT_GNU_IFUNC
_BEGIN = np.dtype("<u2")  # first two bytes of a name, to select candidates
_PIECE = 1 << 16  # symbols per read
_NAMES = 4 << 20  # bytes of names per read
_LONGEST = 4096  # maximum bytes of a name
_MOST_ALIASES = 64  # names of one address that are looked at
# Limits against hostile files; what is beyond them is ignored
MOST_SYMBOLS = 1 << 22  # of a table
_MOST_NAMES = 1 << 28  # bytes of a table's names
_MOST_FOUND = 1 << 28  # bytes of the names that one search finds: names may share their bytes


class Symbols:
    """A symbol table with its names.

    Args:
        read: reads bytes at an offset in the file; returns fewer at its end.
        table: offset and size of the table.
        names: offset and size of the names.
        effort: bounds the CPU time; when it is spent, what is not yet read is left out.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        table: tuple[int, int],
        names: tuple[int, int],
        effort: Effort,
    ) -> None:
        self._effort = effort
        self._read, (self._table, size), (self._names, self._names_size) = read, table, names
        self._count = min(size // SYMBOL.itemsize, MOST_SYMBOLS)
        self._names_size = min(self._names_size, _MOST_NAMES)

    def addresses(self, names: Collection[str]) -> dict[str, int]:
        """Addresses by name of the functions with these names that are defined here; "@@VERSION" is not part of a
        name."""
        found = self._find(names, defined_functions=True)
        return {name: int(self.addresses_at(indices[:1])[0]) for name, indices in found.items()}

    def containing(self, literal: str) -> list[tuple[str, int]]:
        """Names and addresses of the functions defined here whose names contain `literal`, or of all if it is empty."""
        found: list[tuple[int, str]] = []
        keys = np.sort(self._keys(defined_functions=True))
        starts = (keys >> np.uint64(32)).astype(np.int64)
        wanted, room = literal.encode(), _MOST_FOUND
        for begin, end, first, text in self._texts(starts):
            if room <= 0:
                break
            for number in self._naming(text, starts[begin:end] - first, wanted):
                at = int(starts[begin + number]) - first
                ends = text.find(b"\0", at, at + _LONGEST)
                if ends >= 0 and room > 0:
                    room -= ends - at
                    index = int(keys[begin + number] & np.uint64(0xFFFFFFFF))
                    found.append((index, text[at:ends].decode(errors="backslashreplace")))
        addresses = self.addresses_at(np.array([index for index, _ in found], np.int64)).tolist()
        return [(name, address) for (_, name), address in zip(found, addresses, strict=True)]

    @staticmethod
    def _naming(text: bytes, starts: Array, wanted: bytes) -> list[int]:
        """Which of the names that begin at these places contain `wanted`. A name may be the end of another one."""
        if not wanted:
            return list(range(len(starts)))
        found: list[int] = []
        at, done = text.find(wanted), 0
        while at >= 0:
            earliest = max(0, at - _LONGEST)
            first, last = np.searchsorted(starts, (max(earliest, text.rfind(b"\0", earliest, at) + 1), at + 1))
            found += range(max(done, int(first)), int(last))
            done = int(last)
            if done == len(starts):
                break
            at = text.find(wanted, int(starts[done]))  # before it, no name begins
        return found

    def indices(self, name: str) -> Array:
        """Indices in the table of the symbols with this name, defined or not."""
        return self._find([name], defined_functions=False).get(name, np.empty(0, np.int64))

    def is_indirect(self, name: str) -> bool:
        """Whether a symbol with this name stands for several functions, of which the loader chooses one (IFUNC)."""
        indices = self.indices(name)
        for begin, symbols in self._pieces():
            here = indices[(indices >= begin) & (indices < begin + len(symbols))] - begin
            if np.any(symbols[here]["info"] & 0xF == _GNU_IFUNC):
                return True
        return False

    def addresses_at(self, indices: Array) -> Array:
        """Addresses of the symbols at these indices; -1 for symbols that are not defined here."""
        found = np.full(len(indices), -1)
        for begin, symbols in self._pieces():
            here = np.flatnonzero((indices >= begin) & (indices < begin + len(symbols)))
            chosen = symbols[indices[here] - begin]
            found[here] = np.where(chosen["section"] != 0, chosen["value"].astype(np.int64), -1)
        return found

    def name_at(self, address: int, begin: bool = False) -> str | None:
        """The name of the function that contains an address, or with `begin` starts there; None if there is none.

        Of several names the shortest, which is `malloc` rather than `__libc_malloc`; without "@@VERSION".
        """
        starts, ends = self.spans
        index = int(np.searchsorted(starts, address, "right")) - 1
        if index < 0 or address >= ends[index] or (begin and address != starts[index]):
            return None
        names = (text.partition("@")[0] or text for text in self.names_at(int(starts[index])))
        return min(names, key=lambda text: (len(text), text), default=None)

    def names_at(self, address: int) -> list[str]:
        """All names of the function that starts at an address, but at most 64."""
        starts, _, names = self._spans
        first, last = np.searchsorted(starts, address), np.searchsorted(starts, address, "right")
        found = (self._text_at(at) for at in names[int(first) : int(last)][-_MOST_ALIASES:].tolist())
        return [text for text in found if text is not None]

    @property
    def spans(self) -> tuple[Array, Array]:
        """Begin and end of each function defined here, in order of the begins; a function with several names is there
        several times."""
        return self._spans[:2]

    def _text_at(self, name: int) -> str | None:
        text, end, _ = self._read(self._names + name, min(_LONGEST, self._names_size - name)).partition(b"\0")
        return text.decode(errors="backslashreplace") if end else None

    @cached_property
    def _spans(self) -> tuple[Array, Array, Array]:
        kept = [symbols[_is_function(symbols) & (symbols["size"] > 0)] for _, symbols in self._pieces()]
        starts, sizes, names = (
            np.concatenate([np.empty(0, SYMBOL[name]), *(symbols[name] for symbols in kept)])
            for name in ("value", "size", "name")
        )
        order = np.argsort(starts, kind="stable")
        return starts[order], starts[order] + sizes[order], names[order]

    def _pieces(self) -> Iterator[tuple[int, Array]]:
        """The table in pieces: the index of the first symbol, and the symbols."""
        for begin in self._effort.on(range(0, self._count, _PIECE)):
            at = self._table + begin * SYMBOL.itemsize
            yield begin, table_at(self._read, at, min(_PIECE, self._count - begin), SYMBOL)

    def _texts(self, starts: Array) -> Iterator[tuple[int, int, int, bytes]]:
        """The names in pieces: which of the sorted `starts` are in it, from and until; its place, and its bytes."""
        return self._effort.on(self._all_texts(starts))

    def _all_texts(self, starts: Array) -> Iterator[tuple[int, int, int, bytes]]:
        begin = 0
        while begin < len(starts) and (first := int(starts[begin])) < self._names_size:
            end = int(np.searchsorted(starts, first + _NAMES))
            yield begin, end, first, self._read(self._names + first, min(_NAMES + _LONGEST, self._names_size - first))
            begin = end

    def _find(self, names: Collection[str], defined_functions: bool) -> dict[str, Array]:
        """Indices of symbols by name; names without a symbol are left out."""
        wanted = {name.encode() + b"\0": name for name in names if name}
        longest = max(map(len, wanted), default=0)
        begins = np.array(list({int(np.frombuffer(text, _BEGIN, 1)[0]) for text in wanted}), _BEGIN)
        found: dict[str, list[int]] = {}
        keys = np.sort(self._keys(defined_functions))  # in the order of the names in the file
        starts = (keys >> np.uint64(32)).astype(np.int64)
        for begin, end, first, text in self._texts(starts):
            places = starts[begin:end] - first
            places = places[places < len(text) - _BEGIN.itemsize]
            unaligned = np.ndarray(max(0, len(text) - 1), _BEGIN, text, strides=(1,))
            for number in np.flatnonzero(np.isin(unaligned[places], begins)).tolist():
                place = int(places[number])
                name = wanted.get(text[place : text.find(b"\0", place, place + longest) + 1])
                if name is not None:
                    found.setdefault(name, []).append(int(keys[begin + number] & np.uint64(0xFFFFFFFF)))
        return {name: np.array(sorted(indices), np.int64) for name, indices in found.items()}

    def _keys(self, defined_functions: bool) -> Array:
        """The offset of each symbol's name (high half) and its index in the table (low half)."""
        keys = [np.empty(0, np.uint64)]
        for begin, symbols in self._pieces():
            places = np.arange(begin, begin + len(symbols), dtype=np.uint64)
            own = symbols["name"].astype(np.uint64) << np.uint64(32) | places
            keys.append(own[_is_function(symbols)] if defined_functions else own)
        return np.concatenate(keys)


def _is_function(symbols: Array) -> Array:
    """Which symbols are functions defined here."""
    found: Array = (symbols["info"] & 0xF == _FUNC) & (symbols["section"] != 0)
    return found
