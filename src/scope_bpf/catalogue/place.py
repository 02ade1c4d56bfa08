"""Places in user space that a probe is attached to, as data: where they are, which programs run there, what to keep."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scope_bpf.errors import LayoutMismatch
from scope_bpf.layout.btf import Btf, Enum
from scope_bpf.layout.records import record_dtype


@dataclass(frozen=True)
class Symbol:
    """The first instruction of a function, in every file whose symbol tables have one of its names.

    Attributes:
        names: variants that take the same arguments are the same function.
    """

    names: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """A place. Its number is where it stands in the probe's list: the programs are told it as their cookie.

    Attributes:
        at: where it is.
        entry: the program that runs there.
        leave: the program that runs when the function returns; none if empty.
        keep: what the programs need to know of it: members of `struct PROBE_place`, the value of the object's map
            `places`. A member of an enum is given by the enumerator's name. Without it, the object needs no such map.
    """

    at: Symbol
    entry: str
    leave: str = ""
    keep: Mapping[str, int | str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What people call it."""
        return self.at.names[0]

    @property
    def programs(self) -> tuple[str, ...]:
        """Those that it takes, the one at the return first: an entry that is seen has its return."""
        return (self.leave, self.entry) if self.leave else (self.entry,)

    def descriptor(self, btf: Btf, struct: str) -> bytes:
        """What is kept of it, as `struct` lies in memory; members that are not given are 0.

        Raises:
            LayoutMismatch: there is no such struct, member or enumerator.
        """
        record = np.zeros((), record_dtype(btf, struct))
        found = btf.struct(struct)
        enums = (
            {each.name: dict(each.type.values) for each in found.members if isinstance(each.type, Enum)}
            if found
            else {}
        )
        for name, given in self.keep.items():
            try:
                record[name] = enums[name][given] if isinstance(given, str) else given
            except (KeyError, ValueError, OverflowError):
                raise LayoutMismatch(f"place '{self.name}': struct {struct} takes no {name} {given!r}") from None
        return record.tobytes()
