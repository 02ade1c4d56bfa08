"""When to resend records that the server answered with LATER.

A deferred record waits for a wave: all records of a segment that were deferred equally often at about the same time. So
each record needs only one byte in its segment.
"""

import heapq
import random
from dataclasses import dataclass, field

from scope_agentd.pipeline.spool.segment import FIRST_WAVE, Segment

FIRST_PAUSE_S, LAST_PAUSE_S = 2.0, 300.0
_OPEN_FOR = 0.25  # share of the pause during which a wave accepts records
_MOST_TRIES = 8  # after this many tries the pause no longer grows; so the number of a segment's waves fits into a byte


@dataclass(order=True, slots=True)
class _Wave:
    due: float
    closes: float = field(compare=False)
    segment: Segment = field(compare=False)
    number: int = field(compare=False)
    tries: int = field(compare=False)


class Deferral:
    """For one thread at a time. Times are of `time.monotonic`."""

    def __init__(self) -> None:
        self._waves: list[_Wave] = []  # a heap
        self._newest: dict[tuple[int, int], _Wave] = {}  # by segment and tries

    def defer(self, segment: Segment, index: int, now: float) -> None:
        """Makes a record wait: 2 s, doubled with each try, up to 300 s; plus a random part of up to half."""
        tries = min(segment.tries(index), _MOST_TRIES)
        wave = self._newest.get((segment.number, tries))
        if wave is None or now >= wave.closes:
            wave = self._newest[segment.number, tries] = self._new(segment, tries, now)
        segment.defer(index, wave.number)

    def _new(self, segment: Segment, tries: int, now: float) -> _Wave:
        pause = min(FIRST_PAUSE_S * 2.0**tries, LAST_PAUSE_S)
        used = {wave.number for wave in self._waves if wave.segment is segment}
        number = next(number for number in range(FIRST_WAVE, 256) if number not in used)
        due = now + pause * random.uniform(1.0 + _OPEN_FOR, 1.5)
        wave = _Wave(due, now + pause * _OPEN_FOR, segment, number, tries)
        heapq.heappush(self._waves, wave)
        return wave

    def wake(self, now: float) -> bool:
        """Makes due records available again; returns whether there were any."""
        woken = False
        while self._waves and self._waves[0].due <= now:
            wave = heapq.heappop(self._waves)
            if self._newest.get((wave.segment.number, wave.tries)) is wave:
                del self._newest[wave.segment.number, wave.tries]
            if not wave.segment.gone:
                wave.segment.wake(wave.number)
                woken = True
        return woken

    def pause(self, now: float) -> float | None:
        """The time in s until the next records are due; None: no record waits."""
        return max(0.0, self._waves[0].due - now) if self._waves else None
