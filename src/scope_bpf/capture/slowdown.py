"""How much of their CPU time the watched programs spend in the recording of their calls."""

import time
from collections.abc import Callable, Iterable, Sequence

from scope_bpf.capture.account import PlaceAccount
from scope_bpf.catalogue.place import Place
from scope_bpf.code.proc import TICK_NS, stat_of

EVERY_S = 2.0
_ENTRY_NS, _RETURN_NS = 1_000, 1_500  # of the kernel's probe and our program, where both are cheapest
_NOTED_SHARE = 0.1
_LEAST_CPUS = 0.01  # below, no program's CPU time is looked at


class Slowdown:
    """Compares the calls with the programs' CPU time, every few seconds. For one thread at a time.

    Args:
        places: the probe's places.
        accounts: returns the counts of the places.
        pids: returns the watched processes with an attached file.
    """

    def __init__(
        self,
        places: Sequence[Place],
        accounts: Callable[[], Sequence[PlaceAccount]],
        pids: Callable[[], Iterable[int]],
    ) -> None:
        self._costs = [_ENTRY_NS + _RETURN_NS * bool(place.leave) for place in places]
        self._accounts, self._pids = accounts, pids
        self._looked = time.monotonic()
        self._hits = [0] * len(places)
        self._cpu_ns: dict[int, int] = {}  # by process, at the last look; empty: there were few calls
        self._share, self._note = 0.0, ""

    def notes(self) -> list[str]:
        """The worst that was seen, in words."""
        return [self._note] if self._note else []

    def look(self) -> None:
        """Takes the counts, if it is time for it."""
        now = time.monotonic()
        seconds = now - self._looked
        if seconds < EVERY_S:
            return
        accounts = self._accounts()
        hits = [account.hits for account in accounts]
        calls = [new - old for new, old in zip(hits, self._hits, strict=True)]
        spent_ns = sum(cost * count for cost, count in zip(self._costs, calls, strict=True))
        before, self._cpu_ns = self._cpu_ns, {}
        self._looked, self._hits = now, hits
        if spent_ns < _LEAST_CPUS * seconds * 1e9:
            return
        self._cpu_ns = _cpu_ns_of(self._pids())
        if before and before.keys() <= self._cpu_ns.keys():  # the CPU time of ended processes is unknown
            used_ns = sum(ns - before.get(pid, 0) for pid, ns in self._cpu_ns.items())
            often = max(range(len(calls)), key=lambda number: self._costs[number] * calls[number])
            self._compare(spent_ns / max(used_ns, 1), sum(calls) / seconds, accounts[often].name)

    def _compare(self, share: float, rate: float, name: str) -> None:
        if share > max(_NOTED_SHARE, self._share):
            self._share = share
            self._note = (
                f"recording slows the watched programs: about {min(share, 1):.0%} of their CPU time went into "
                f"{rate:,.0f} calls a second, most at {name}; choose functions that are called less often"
            )


def _cpu_ns_of(pids: Iterable[int]) -> dict[int, int]:
    used: dict[int, int] = {}
    for pid in pids:
        try:
            used[pid] = stat_of(pid).cpu_ticks * TICK_NS
        except OSError:  # it has ended
            continue
    return used
