"""Places that are patterns: which functions and USDT sites of a file they stand for, and what is said of the others."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from io import FileIO
from pathlib import Path

from scope_bpf.capture.sites import Sites, lacks, unreadable
from scope_bpf.catalogue.place import Chosen, Pattern, Place, Usdt
from scope_bpf.code.elf import X86_64, ElfFile
from scope_bpf.code.function_names import (
    has_wildcards,
    is_go,
    is_moved_part,
    literal_of,
    matches,
    may_throw,
    plain_name,
    uses_its_return,
    without_parameters,
)
from scope_bpf.code.usdt import Site, sites
from scope_bpf.errors import NotElf
from scope_catalogue.nearest import meant

_MOST_FUNCTIONS = 4096  # in a file, of one pattern
_MOST_FILES = 64  # of which it is known why a pattern stands for nothing there
_SHOWN = 5  # of these
_NEAREST_AMONG = 20_000  # names; more would take seconds
_VERSION = re.compile(r"-[0-9][0-9.]*$")  # libc-2.31.so
_LIBRARY = re.compile(r"\.so(\.|$)")
_MACHINES = {X86_64: "x86_64", 183: "aarch64", 3: "i686", 40: "arm", 243: "riscv64", 21: "ppc64", 22: "s390x"}  # elf.h
_GO = ".gopclntab"  # the section that every file with Go code has


@dataclass(frozen=True)
class Match:
    """A function or USDT site that a pattern stands for.

    Attributes:
        number: of its place.
        begins_only: the function's return must be left alone.
        is_site: a USDT site.
        site: the number of the site's arguments.
        counter: offset in the file of the counter that turns the site on; 0: none.
    """

    number: int
    begins_only: bool
    is_site: bool = False
    site: int = 0
    counter: int = 0

    @property
    def cookie(self) -> int:
        """What the programs are told: usdt.bpf.h."""
        return self.number | self.site << 32


@dataclass
class _Seen:
    """What is known of a pattern, by path of the files with such a name.

    Attributes:
        reasons: why nothing was found; empty: something was.
        counts: numbers of functions by what is special about them.
        symbols: of files without the function, until `missing` has named the nearest ones.
        is_expected: say so if nothing was found.
    """

    is_expected: bool = True
    reasons: dict[str, str] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    symbols: dict[str, set[str]] | None = field(default_factory=dict)

    @property
    def is_missing(self) -> bool:
        return bool(self.reasons) and all(self.reasons.values())

    def count(self, what: str, path: str, number: int) -> None:
        """Keeps how many functions of a file are special in some way."""
        if number:
            self.counts.setdefault(what, {})[path] = number

    def notes(self, name: str, file: str) -> Iterator[str]:
        """What to say of the pattern."""
        reasons = self.reasons.copy()
        if not reasons and self.is_expected:
            yield f"{name}: no watched process has run a file named '{file}'"
        elif self.is_missing and self.is_expected:
            yield from (f"{name}: {each}" for each in _listed(reasons))
        for what, by_path in self.counts.copy().items():
            yield f"{name}: {sum(by_path.copy().values()):,} {what}"


_BEGINS_ONLY = (
    "functions have neither duration nor result, because recording their return would harm the program: it ends if an "
    "exception passes a recorded return, or they use their return address"
)
_OF_GO = "functions of Go are left out: their stacks move, and recording them could end the program"
_CHOSEN_LATER = "functions are left out that the loader chooses among several; declare these by their own names"
_NO_ROOM = f"USDT sites are left out, since no more than {Sites.MOST:,} different ones can be attached"
_FEWER = "USDT sites have fewer arguments than declared; those are absent"
_OF_OTHERS = "functions belong to another declaration, too, which has their calls"


class Patterns:
    """The places of a probe that are patterns. For one thread at a time, but `notes` from any.

    Full names come before patterns of them, so that `libc:malloc size=arg0` keeps its calls beside `libc:m*`.
    """

    def __init__(self, places: Sequence[Place], sites: Sites | None = None) -> None:
        found = [
            (number, place.at, place) for number, place in enumerate(places) if isinstance(place.at, Pattern | Usdt)
        ]
        self._sites = sites
        self._chosen = [(number, place.at) for number, place in enumerate(places) if isinstance(place.at, Chosen)]
        self._places = sorted(found, key=lambda one: _is_open(one[1]))
        self._seen = {number: _Seen(not isinstance(at, Usdt) or at.is_expected) for number, at, _ in found}

    def named_files(self) -> list[str]:
        """The regular files that patterns name by their paths: they can be attached to before a process runs them.

        Those that this machine cannot run are left out, and are missing.
        """
        fit = []
        for number, at, _ in self._places:
            if not at.file.startswith("/") or has_wildcards(at.file) or not _is_regular(at.file):
                continue
            if reason := _unfit(at.file):
                self._seen[number].reasons[at.file] = reason
            else:
                fit.append(at.file)
        return fit

    def functions(self, path: str, elf: ElfFile) -> dict[int, Match]:
        """The functions of a file, by offset. A function that several patterns stand for is the first one's."""
        found: dict[int, Match] = {}
        marked: list[Site] | None = None
        for number, at, place in self._places:
            if not _is_file(at.file, path):
                continue
            seen, matching = self._seen[number], {}
            if isinstance(at, Usdt):
                marked = sites(elf) if marked is None else marked
                matching = self._marked(number, at, path, marked)
                if at.instead:
                    matching = _instead(elf.functions([at.instead]).values(), matching.values())
            else:
                for offset in self._matching(seen, at, path, elf):
                    names = elf.names_of_function(offset)
                    throws = not place.throwing_too and any(map(may_throw, names))
                    begins_only = bool(place.begins_only) and (throws or any(map(uses_its_return, names)))
                    matching[offset] = Match(number, begins_only)
            seen.count(_BEGINS_ONLY, path, sum(match.begins_only for match in matching.values()))
            seen.count(_OF_OTHERS, path, len(matching.keys() & found.keys()))
            found = matching | found
        return {**self._accepted(elf), **found}

    def _accepted(self, elf: ElfFile) -> dict[int, Match]:
        """The functions of a file that a test accepts, by offset."""
        there = elf.functions({at.name for _, at in self._chosen}) if self._chosen else {}
        return {
            there[at.name]: Match(number, begins_only=False)
            for number, at in self._chosen
            if at.name in there and at.accepts(elf)
        }

    def _marked(self, number: int, at: Usdt, path: str, marked: Sequence[Site]) -> dict[int, Match]:
        """A file's USDT sites that a place stands for, by offset."""
        assert self._sites
        seen, matching, reason = self._seen[number], {}, ""
        chosen = [one for one in marked if fnmatchcase(one.provider, at.provider) and fnmatchcase(one.name, at.name)]
        short = [one for one in chosen if lacks(one, at)]
        if len(chosen) > _MOST_FUNCTIONS:
            reason, chosen = f"{len(chosen):,} sites match, more than {_MOST_FUNCTIONS:,}; choose fewer", []
        elif not chosen:
            near = "" if _is_open(at) else meant(at.full_name, sorted({one.full_name for one in marked}))
            reason = f"there is no USDT probe '{at.full_name}'{near}" if marked else "it has no USDT probes"
        elif len(short) == len(chosen) and not _is_open(at):
            reason, chosen = lacks(short[0], at), []
        for one in chosen:
            if (site := self._sites.number(one)) is not None:
                matching[one.offset] = Match(number, begins_only=False, is_site=True, site=site, counter=one.semaphore)
        seen.count(_NO_ROOM, path, len({one.offset for one in chosen}) - len(matching))
        seen.count(_FEWER, path, len(short) if chosen else 0)
        for text, count in unreadable(chosen, at).items():
            seen.count(f"USDT sites have {text}, which cannot be read; it is absent", path, count)
        if not reason or len(seen.reasons) < _MOST_FILES:
            seen.reasons[path] = reason
        return matching

    def _matching(self, seen: _Seen, at: Pattern, path: str, elf: ElfFile) -> set[int]:
        """Offsets of a file's functions that a pattern stands for."""
        named = [(name, offset) for name, offset in elf.functions_containing(literal_of(at.name))]
        chosen = {offset: name for name, offset in named if matches(at.name, name) and not is_moved_part(name)}
        of_go = {offset for offset, name in chosen.items() if elf.has_section(_GO) and is_go(name)}
        own = chosen.keys() - of_go
        is_chosen_later = any(table and table.is_indirect(at.name) for table in (elf.symbols, elf.dynamic_symbols))
        seen.count(_OF_GO, path, len(of_go))
        seen.count(_CHOSEN_LATER, path, int(is_chosen_later))
        reason = ""
        if len(own) > _MOST_FUNCTIONS:
            reason, own = f"{len(own):,} functions match, more than {_MOST_FUNCTIONS:,}; choose fewer", set()
        elif not own:
            reason = _absent(at.name, elf) if not of_go and not is_chosen_later else "it has no other function"
            if seen.symbols is not None and len(seen.symbols) < _SHOWN and not has_wildcards(at.name):
                seen.symbols[path] = {symbol for symbol, _ in elf.functions_containing("")}
        if not reason or len(seen.reasons) < _MOST_FILES:
            seen.reasons[path] = reason
        return set(own)

    def missing(self) -> list[str]:
        """What is missing at the start: full names of functions that none of the files has. To be called once."""
        said = []
        for number, at, place in self._places:
            seen = self._seen[number]
            symbols, seen.symbols = seen.symbols or {}, None  # later, a search would hold up attaching
            if not _is_open(at) and seen.is_missing and seen.is_expected:
                near = {path: _nearest(at.name, known) for path, known in symbols.items()}
                told = [note for note in seen.notes(place.name, at.file) if seen.counts and "are left out" in note]
                said += told or _listed({path: f"{why}{near.get(path, '')}" for path, why in seen.reasons.items()})
        return said

    def notes(self) -> list[str]:
        """For people: patterns that stand for nothing, and functions of which not all is recorded."""
        in_order = sorted(self._places, key=lambda one: one[0])
        return [note for number, at, place in in_order for note in self._seen[number].notes(place.name, at.file)]


def _instead(functions: Iterable[int], sites: Iterable[Match]) -> dict[int, Match]:
    """One function, by offset, that raises the semaphore of all sites."""
    return {offset: replace(site, site=0) for offset in functions for site in list(sites)[:1]}


def _is_open(at: Pattern | Usdt) -> bool:
    """Whether a place may stand for several names."""
    return has_wildcards(at.name) or (isinstance(at, Usdt) and has_wildcards(at.provider))


def _listed(reasons: Mapping[str, str]) -> list[str]:
    """A few of the reasons, each with its file."""
    listed = [f"{path}: {reason}" for path, reason in list(reasons.items())[:_SHOWN]]
    return listed + ([f"and {len(reasons) - _SHOWN:,} more files"] if len(reasons) > _SHOWN else [])


def _is_regular(path: str) -> bool:
    try:
        return Path(path).is_file()
    except OSError:  # for example, a part of the path is too long for a name
        return False


def _unfit(path: str) -> str:
    """Why this machine cannot run a file; empty: it may."""
    try:
        with FileIO(path) as file:
            machine = ElfFile(file).machine
    except (OSError, NotElf) as error:
        return str(error)
    own = {name: number for number, name in _MACHINES.items()}.get(os.uname().machine)
    if machine == own:
        return ""
    return f"it is for {_MACHINES.get(machine, f'machine {machine}')}, and this machine is {os.uname().machine}"


def _is_file(pattern: str, path: str) -> bool:
    if "/" in pattern:
        return fnmatchcase(path, pattern) or (not has_wildcards(pattern) and path == os.path.realpath(pattern))
    name = Path(path).name
    names = {name}
    if _LIBRARY.search(name):
        stem = _LIBRARY.split(name)[0]
        names |= {stem, _VERSION.sub("", stem)}
    is_longer = bool(_LIBRARY.search(pattern)) and name.startswith(f"{pattern}.")  # libz.so.1 of libz.so.1.2.13
    return is_longer or any(fnmatchcase(each, pattern) for each in names)


def _absent(name: str, elf: ElfFile) -> str:
    if not elf.symbols and not elf.dynamic_symbols:
        return "it has no symbols: it was stripped"
    stripped = "" if elf.symbols else ", or it has no name, since the file was stripped"
    return f"there is no function '{name}'{stripped}"


def _nearest(name: str, symbols: set[str]) -> str:
    """The functions of other scopes with this name, or those with similar names, as the end of a message."""
    if len(symbols) > _NEAREST_AMONG:
        return ""
    wanted, plain = without_parameters(name), sorted({plain_name(each) for each in symbols})
    scoped = [each for each in plain if each.endswith(f"::{wanted}")]
    return f" (did you mean '{scoped[0]}'?)" if scoped else meant(wanted, plain)
