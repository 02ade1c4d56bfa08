"""Places: the functions and USDT probes in user space that a probe attaches to, with the programs that run there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scope_bpf.errors import LayoutMismatch
from scope_bpf.layout.btf import Btf, Enum
from scope_bpf.layout.records import record_dtype


@dataclass(frozen=True)
class Symbol:
    """The first instruction of a function, in every file whose symbol tables contain one of its names.

    Attributes:
        names: variants with the same arguments count as the same function.
    """

    names: tuple[str, ...]


@dataclass(frozen=True)
class Pattern:
    """The first instruction of every function with such a name, in every file with such a name.

    Attributes:
        file: a path, or the last part of one, in which `*`, `?` and `[...]` stand for others as in a shell; the last
            part without `.so` and what follows it, too.
        name: a function's name as in the symbol table, or demangled, with or without its parameters; with `*`, `?` and
            `[...]` likewise.
    """

    file: str
    name: str


@dataclass(frozen=True)
class Chosen:
    """The first instruction of a function, in the files that a test accepts.

    Attributes:
        accepts: whether the function of this file is meant; called with a `scope_bpf.code.elf.ElfFile` that has such a
            function.
        what: says which files these are.
    """

    name: str
    accepts: Callable[[Any], bool]
    what: str


@dataclass(frozen=True)
class Usdt:
    """The sites of every USDT probe with such a name, in every file with such a name.

    A site is one moment: the program for the entry runs there; nothing returns.

    Attributes:
        provider, name: the probe's names, in which `*`, `?` and `[...]` stand for others as in a shell.
        file: as in `Pattern`.
        arguments: numbers of the arguments that are wanted, from 0.
        is_expected: it is an error if all files with such a name lack the probe.
        instead: a function to attach to instead of the sites, which raises their semaphore without a hit at each; files
            that lack the function are left alone.
    """

    provider: str
    name: str
    file: str = "*"
    arguments: tuple[int, ...] = ()
    is_expected: bool = True
    instead: str = ""

    @property
    def full_name(self) -> str:
        """The probe's names: PROVIDER:NAME."""
        return f"{self.provider}:{self.name}"


@dataclass(frozen=True)
class Place:
    """A place. Its number is its index in the probe's list; the programs get it as the low half of their cookie.

    Attributes:
        at: where the place is.
        entry: the program that runs there.
        leave: the program that runs when the function returns; empty: none.
        keep: data about the place for the programs: members of `struct PROBE_place`, the value type of the object's map
            `places`. Members of an enum type are given by the enumerator's name, structs as tuples. If empty, the
            object needs no such map.
        begins_only: for a pattern: instead of `entry` and `leave`, the program that runs at the first instruction of a
            function whose return must be left alone: one that finds its own return address, or that exceptions may
            pass, which is known of C++, Rust and D functions by their names.
        throwing_too: also run `leave` of functions that exceptions may pass.
    """

    at: Symbol | Pattern | Usdt | Chosen
    entry: str
    leave: str = ""
    keep: Mapping[str, Any] = field(default_factory=dict)
    begins_only: str = ""
    throwing_too: bool = False

    @property
    def name(self) -> str:
        """The name to show: the function's first name, or the pattern."""
        if isinstance(self.at, Symbol):
            return self.at.names[0]
        if isinstance(self.at, Chosen):
            return f"{self.at.what}:{self.at.name}"
        return f"{self.at.file}:{self.at.full_name if isinstance(self.at, Usdt) else self.at.name}"

    @property
    def programs(self) -> tuple[str, ...]:
        """The place's programs. The one at the return is attached first, so that no entry is seen without its
        return."""
        return tuple(filter(None, (self.leave, self.entry, self.begins_only)))

    def descriptor(self, btf: Btf, struct: str) -> bytes:
        """The bytes of `struct` with the values of `keep`; all other members are 0.

        Raises:
            LayoutMismatch: the struct, a member or an enumerator does not exist.
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
            except (KeyError, TypeError, ValueError, OverflowError):
                raise LayoutMismatch(f"place '{self.name}': struct {struct} takes no {name} {given!r}") from None
        return record.tobytes()
