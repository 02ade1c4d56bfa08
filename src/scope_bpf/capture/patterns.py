"""Places that are patterns: which functions of a file they stand for, and what is said of those that stand for none."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from scope_bpf.catalogue.nearest import meant
from scope_bpf.catalogue.place import Pattern, Place
from scope_bpf.code.elf import ElfFile
from scope_bpf.code.function_names import (
    has_wildcards,
    is_go,
    is_moved_part,
    literal_of,
    matches,
    may_throw,
    plain_name,
    without_parameters,
)

_MOST_FUNCTIONS = 4096  # in a file, of one pattern
_NEAREST_AMONG = 50_000  # names; more would take seconds


@dataclass(frozen=True)
class Match:
    """A function that a pattern stands for: the number of its place, and whether its return must be left alone."""

    number: int
    begins_only: bool


@dataclass
class _Seen:
    """What is known of a pattern, by path of the files with such a name."""

    reasons: dict[str, str] = field(default_factory=dict)  # why nothing was found; empty: something was
    begins_only: dict[str, int] = field(default_factory=dict)  # number of functions

    @property
    def is_missing(self) -> bool:
        return bool(self.reasons) and all(self.reasons.values())


class Patterns:
    """The places of a probe that are patterns. For one thread at a time, but `notes` and `missing` from any."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = [(number, place.at, place) for number, place in enumerate(places) if _is_pattern(place)]
        self._seen = {number: _Seen() for number, _, _ in self._places}
        # The symbols of files without a wanted function, until `missing` has named the nearest ones.
        self._others: dict[tuple[int, str], set[str]] | None = {}

    @property
    def paths(self) -> list[str]:
        """The regular files that patterns name by their paths: they can be attached to before a process runs them."""
        named = [at.file for _, at, _ in self._places if isinstance(at, Pattern)]
        return [path for path in named if path.startswith("/") and not has_wildcards(path) and Path(path).is_file()]

    def functions(self, path: str, elf: ElfFile) -> dict[int, Match]:
        """The functions of a file, by offset. A function that several patterns stand for is the first one's."""
        found: dict[int, Match] = {}
        for number, at, place in self._places:
            assert isinstance(at, Pattern)
            if _is_file(at.file, path):
                matching = {
                    offset: Match(number, bool(place.begins_only) and may_throw(symbol))
                    for offset, symbol in self._matching(number, at, path, elf).items()
                }
                self._seen[number].begins_only[path] = sum(match.begins_only for match in matching.values())
                found = matching | found
        return found

    def _matching(self, number: int, at: Pattern, path: str, elf: ElfFile) -> dict[int, str]:
        reasons, named = self._seen[number].reasons, elf.functions_containing(literal_of(at.name))
        chosen = {offset: name for name, offset in named if matches(at.name, name) and not is_moved_part(name)}
        own = {offset: name for offset, name in chosen.items() if not is_go(name)}
        reasons[path] = ""
        if len(own) > _MOST_FUNCTIONS:
            reasons[path] = f"{len(own):,} functions match, more than {_MOST_FUNCTIONS:,}; choose fewer"
            return {}
        if chosen and not own:
            reasons[path] = "it is a function of Go, whose stacks move: recording it could end the program"
        elif not chosen and any(table and table.is_indirect(at.name) for table in (elf.symbols, elf.dynamic_symbols)):
            reasons[path] = f"the loader chooses one of several functions for '{at.name}'; declare these by their names"
        elif not chosen:
            reasons[path] = _absent(at.name, elf)
            if self._others is not None and not has_wildcards(at.name):
                self._others[number, path] = {symbol for symbol, _ in elf.functions_containing("")}
        return own

    def missing(self) -> list[str]:
        """What is missing at the start: full names of functions that none of the files has. To be called once."""
        others, self._others = self._others or {}, None  # later, a search would hold up attaching
        said = []
        for number, at, _ in self._places:
            seen = self._seen[number]
            if isinstance(at, Pattern) and not has_wildcards(at.name) and seen.is_missing:
                for path, reason in seen.reasons.items():
                    said.append(f"{path}: {reason}{_nearest(at.name, others.get((number, path), set()))}")
        return said

    def notes(self) -> list[str]:
        """For people: patterns that stand for nothing, and functions of which only the begin is recorded."""
        said = []
        for number, at, place in self._places:
            assert isinstance(at, Pattern)
            seen = self._seen[number]
            reasons = seen.reasons.copy()
            if not reasons:
                said.append(f"{place.name}: no watched process has run a file named '{at.file}'")
            elif all(reasons.values()):
                said += [f"{place.name}: {path}: {reason}" for path, reason in reasons.items()]
            if begins_only := sum(seen.begins_only.copy().values()):
                said.append(
                    f"{place.name}: {begins_only:,} functions of C++ or Rust have no duration, because recording "
                    "their return would end a program whose exception passes it"
                )
        return said


def _is_pattern(place: Place) -> bool:
    return isinstance(place.at, Pattern)


def _is_file(pattern: str, path: str) -> bool:
    if "/" in pattern:
        return fnmatchcase(path, pattern) or (not has_wildcards(pattern) and path == os.path.realpath(pattern))
    name = Path(path).name
    return fnmatchcase(name, pattern) or fnmatchcase(name.partition(".so")[0], pattern)


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
