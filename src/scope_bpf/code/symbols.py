"""Symbol tables of ELF files: where functions are by name, and what function an address is in."""

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_FUNC = 2  # STT_FUNC
_BEGIN = 4  # characters of a name


class Symbols:
    """A symbol table with its names."""

    def __init__(self, table: Array, names: bytes) -> None:
        self._table, self._names = table, names

    def addresses(self, names: Collection[str]) -> dict[str, int]:
        """Functions of these names that are defined here, by name; versions ("@@...") are not part of a name."""
        # Most files have none, and there are many files: what names begin with is looked for first.
        begins = {begin for begin in {name[:_BEGIN] for name in names} if begin.encode() in self._names}
        places = {name: list(self._places(name)) for name in names if name[:_BEGIN] in begins}
        if not any(places.values()):
            return {}
        functions = self._table[(self._table["info"] & 0xF == _FUNC) & (self._table["section"] != 0)]
        values = {name: functions["value"][np.isin(functions["name"], at)] for name, at in places.items() if at}
        return {name: int(found[0]) for name, found in values.items() if len(found)}

    def indices(self, name: str) -> Array:
        """Where symbols of this name stand in the table, defined or not."""
        return np.flatnonzero(np.isin(self._table["name"], list(self._places(name))))

    def address_of(self, index: int) -> int | None:
        """The address of a symbol by its place in the table; None if it is defined elsewhere."""
        if index >= len(self._table) or not self._table[index]["section"]:
            return None
        return int(self._table[index]["value"])

    def name_at(self, address: int, begin: bool = False) -> str | None:
        """The name of the function that spans an address, or that begins there; None if none does."""
        starts, ends, names = self._spans
        index = int(np.searchsorted(starts, address, "right")) - 1
        if index < 0 or address >= ends[index] or (begin and address != starts[index]):
            return None
        name = int(names[index])
        end = self._names.find(b"\0", name)
        return self._names[name:end].decode(errors="backslashreplace") if end >= 0 else None

    @cached_property
    def _spans(self) -> tuple[Array, Array, Array]:
        table = self._table
        kept = table[(table["info"] & 0xF == _FUNC) & (table["section"] != 0) & (table["size"] > 0)]
        kept = kept[np.argsort(kept["value"], kind="stable")]
        return kept["value"].copy(), kept["value"] + kept["size"], kept["name"].copy()

    def _places(self, name: str) -> Iterator[int]:
        """Where the table of strings has this name; a linker may let it share the end of a longer one."""
        wanted = name.encode() + b"\0"
        at = self._names.find(wanted)
        while at >= 0:
            yield at
            at = self._names.find(wanted, at + 1)
