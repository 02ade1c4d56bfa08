"""A probe's places in user space: their data for programs, attaching file by file, and counts of each place."""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property

from scope_bpf.binding.map import read_per_cpu
from scope_bpf.binding.object import BpfObject
from scope_bpf.binding.uprobe import EXTENSION, UprobeLinks, try_together
from scope_bpf.capture.account import PlaceAccount
from scope_bpf.capture.kernel_books import loss_reasons
from scope_bpf.capture.patterns import Match, Patterns
from scope_bpf.capture.sites import Sites
from scope_bpf.catalogue.place import Place, Symbol, Usdt
from scope_bpf.catalogue.probe import Probe
from scope_bpf.code.elf import ElfFile
from scope_bpf.code.modules import Module
from scope_bpf.errors import KernelError
from scope_bpf.layout.records import record_dtype

_NOBODYS = 0xFFFFFFFF  # a cookie that is not the number of a place
_DESCRIPTORS, _ACCOUNTS = "places", "scope_place_accounts"  # place.bpf.h


def make_room(object_: BpfObject, places: Sequence[Place], multi: bool) -> None:
    """Sizes an object's maps for these places. Before the object is loaded."""
    object_.map(_ACCOUNTS).resize(max(1, len(places)))
    if any(place.keep for place in places):
        object_.map(_DESCRIPTORS).resize(len(places))
    if any(isinstance(place.at, Usdt) for place in places):
        object_.map(Sites.MAP).resize(Sites.MOST)
    if multi:
        object_.expect_uprobes({program for place in places for program in place.programs})


@cache
def _unused_function() -> int:
    """Offset of a function in this package's extension that nobody calls any more."""
    with EXTENSION.open("rb", buffering=0) as file:
        ((_, offset),) = ElfFile(file).functions(["PyInit__native"]).items()
    return offset


@cache
def require_together() -> None:
    """Checks that the kernel attaches to many functions at once, before large programs are loaded in vain.

    Raises:
        KernelError: it does not.
    """
    try_together(_unused_function())


class Places:
    """The places of a running probe.

    Args:
        object_: the loaded object, after `make_room`.
        places: the probe's places for its options.
        multi: attach to all places of a program in a file at once, see `UprobeLinks`.

    Raises:
        LayoutMismatch: a place's data does not match the object's struct.
    """

    def __init__(self, probe: Probe, object_: BpfObject, places: Sequence[Place], multi: bool) -> None:
        self.places, self.multi = places, multi
        self.programs = {name: object_.program(name) for place in places for name in place.programs}
        self.files = [0] * len(places)
        sites = Sites(probe.btf, object_) if any(isinstance(place.at, Usdt) for place in places) else None
        self.patterns = Patterns(places, sites)
        self._btf, self._accounts = probe.btf, object_.map(_ACCOUNTS)
        for number, place in enumerate(places):
            if place.keep:
                descriptor = place.descriptor(probe.btf, f"{probe.name}_place")
                object_.map(_DESCRIPTORS).update(number.to_bytes(4, "little"), descriptor)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The places' numbers by function name, for functions that are known by name."""
        symbols = [(number, place.at) for number, place in enumerate(self.places) if isinstance(place.at, Symbol)]
        return {name: number for number, at in symbols for name in at.names}

    def try_out(self) -> UprobeLinks:
        """Attaches all programs to code that nobody calls, in this package's extension.

        The caller closes the links; this takes the kernel as long as loading and attaching.

        Raises:
            KernelError: the kernel does not support this way to attach.
        """
        programs = {(place.leave, True) for place in self.places if place.leave}
        programs |= {(name, False) for place in self.places for name in (place.entry, place.begins_only) if name}
        links = self.links()
        try:
            for program, at_return in programs:
                links.attach(program, str(EXTENSION), {_unused_function(): _NOBODYS}, at_return=at_return)
        except KernelError:
            links.close()
            raise
        return links

    def links(self) -> UprobeLinks:
        """New links for the programs, empty."""
        return UprobeLinks(self.programs, self.multi)

    @property
    def program_fds(self) -> list[int]:
        """File descriptors of the programs."""
        return self.links().program_fds

    def accounts(self) -> list[PlaceAccount]:
        """The counts of all places, in the order of their numbers. While the object is loaded."""
        record, reasons = record_dtype(self._btf, "scope_place_account"), loss_reasons(self._btf)
        accounts = []
        for number, place in enumerate(self.places):
            per_cpu = read_per_cpu(self._accounts.fd, number, record)
            counts = zip(reasons, per_cpu["lost"].sum(axis=0).tolist(), strict=True)
            lost = {reason: count for reason, count in counts if count}
            accounts.append(PlaceAccount(place.name, self.files[number], int(per_cpu["hits"].sum()), lost))
        return accounts


class Uprobes:
    """Attaches at the places in one file, until `close`."""

    def __init__(self, places: Places) -> None:
        self._places, self._links = places, places.links()
        self._attached: dict[int, Match] = {}  # by offset

    def attach(self, module: Module, found: Mapping[str, int]) -> int:
        """Attaches to the functions that a kept file defines, unless already attached.

        Args:
            found: offsets by name of functions that were found without a symbol.

        Returns:
            Number of attached functions.

        Raises:
            KernelError: the kernel refused; only the earlier functions stay attached.
        """
        assert module.file
        elf, numbers = module.elf, self._places.numbers
        named = {**found, **elf.functions(numbers)}
        wanted = {offset: Match(numbers[name], begins_only=False) for name, offset in reversed(named.items())}
        if not self._attached:
            wanted = self._places.patterns.functions(module.path, elf) | wanted
        new = {offset: match for offset, match in wanted.items() if offset not in self._attached}
        at = {offset if match.is_site else elf.cheapest_probe(offset): match for offset, match in new.items()}
        with module.file.held.reached() as path:
            self._attach(path, at)
        for number in {match.number for match in new.values()} - {match.number for match in self._attached.values()}:
            self._places.files[number] += 1
        self._attached |= new
        return len(self._attached)

    def _attach(self, path: str, matches: Mapping[int, Match]) -> None:
        """Attaches returns first, so that every recorded entry has its return."""
        before = self._links.count
        counters = {offset: match.counter for offset, match in matches.items() if match.counter}
        try:
            for at_return in (True, False):
                by_program: dict[str, dict[int, int]] = {}
                for offset, match in matches.items():
                    program = self._program(match, at_return)
                    by_program.setdefault(program, {})[offset] = match.cookie
                by_program.pop("", None)  # places without a program at the return
                for program, cookies in by_program.items():
                    self._links.attach(program, path, cookies, at_return=at_return, counters=counters)
        except KernelError:
            self._links.detach(before)
            raise

    def _program(self, match: Match, at_return: bool) -> str:
        place = self._places.places[match.number]
        if match.begins_only:
            return "" if at_return else place.begins_only
        return place.leave if at_return else place.entry

    def close(self) -> None:
        """Detaches from the file. May be called again."""
        self._links.close()
