"""The arguments of USDT sites, as BPF programs read them: one entry of a map for all sites with the same arguments."""

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from scope_bpf.binding.object import BpfObject
from scope_bpf.catalogue.place import Usdt
from scope_bpf.code.usdt import MOST_ARGUMENTS, Kind, Operand, Site
from scope_bpf.layout.btf import Btf
from scope_bpf.layout.records import enum_values, record_dtype

_NO_REGISTER = 0xFFFF  # USDT_NO_REGISTER
_LONGEST = 40  # characters of a quoted operand


class Sites:
    """Fills in the map `usdt_sites`. For one thread at a time.

    Entries are kept as long as the probe runs: other sites may have the same arguments.

    Args:
        object_: the loaded object.
    """

    MAP: ClassVar[str] = "usdt_sites"  # usdt.bpf.h
    MOST: ClassVar[int] = 4096

    def __init__(self, btf: Btf, object_: BpfObject) -> None:
        self._map = object_.map(self.MAP)
        self._kinds, self._dtype = enum_values(btf, "usdt_kind"), record_dtype(btf, "usdt_site")
        self._numbers: dict[bytes, int] = {}

    def number(self, site: Site) -> int | None:
        """The number of the entry with a site's arguments; None: the map is full."""
        record = np.zeros((), self._dtype)
        for at, operand in enumerate(site.arguments[:MOST_ARGUMENTS]):
            record["argument"][at] = self._argument(operand)
        entry = record.tobytes()
        if entry not in self._numbers:
            number = len(self._numbers)
            if number >= self.MOST:
                return None
            self._map.update(number.to_bytes(4, "little"), entry)
            self._numbers[entry] = number
        return self._numbers[entry]

    def _argument(self, operand: Operand) -> tuple[int, ...]:
        """The members of a struct usdt_argument."""
        base, index = (_NO_REGISTER if at is None else at for at in (operand.base, operand.index))
        number = operand.number - (1 << 64) if operand.number >= 1 << 63 else operand.number
        kind = self._kinds[operand.kind]
        return number, base, index, kind, operand.scale, operand.size, operand.is_signed


def lacks(site: Site, at: Usdt) -> str:
    """Says that a site has fewer arguments than a place wants; empty: it has as many."""
    most, there = max(at.arguments, default=-1), len(site.arguments)
    if most < there:
        return ""
    listed = "no arguments" if not there else f"{there} arguments, arg0 to arg{there - 1}" if there > 1 else "only arg0"
    return f"USDT probe '{site.full_name}' has {listed}, and no arg{most}"


def unreadable(sites: Sequence[Site], at: Usdt) -> Counter[str]:
    """The wanted arguments that cannot be read, such as `arg1 in '8f@%xmm0'`, each with the number of sites."""
    return Counter(
        f"arg{number} in '{site.arguments[number].text[:_LONGEST]}'"
        for site in sites
        for number in at.arguments
        if number < len(site.arguments) and site.arguments[number].kind is Kind.ABSENT
    )
