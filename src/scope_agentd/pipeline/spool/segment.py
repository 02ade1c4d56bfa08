"""The state of a segment in memory: how far it was read, and the state of each record that was read.

Unread records are only counted. Each record that was read takes five bytes, until all of the segment is settled.
"""

from array import array
from bisect import bisect_left
from pathlib import Path

from scope_agentd.pipeline.spool.spans import Told

WAITING, TAKEN, SETTLED, FIRST_WAVE = 0, 1, 2, 3


class Segment:
    """One file of the spool. Offsets are in bytes from the start of the file; indices count the records read so far.

    Attributes:
        opening: the bytes before the first record; they show which runs were open there, also if the file is deleted.
        start: offset of the first record.
        size: offset after the last complete frame.
        earlier: an earlier agent wrote the file: any record may have been sent.
        left: number of unsettled records.
        deferred: number of deferred records.
        runs: runs with records in this segment.
        told: sequence numbers that are damaged here and reported in a Gap.
        bad: offset -> end of known damage.
        read_to: offset of the first unread record.
        gone: the file is deleted.
    """

    def __init__(self, number: int, file: Path, opening: bytes, earlier: bool = False) -> None:
        self.number, self.file, self.opening, self.earlier = number, file, opening, earlier
        self.start = self.size = self.read_to = len(opening)
        self.left = self.deferred = 0
        self.runs: set[bytes] = set()
        self.told = Told()
        self.bad: dict[int, int] = {}
        self.gone = False
        self._passed: set[int] = set()
        self._offsets = array("I")
        self._states = bytearray()
        self._tries = bytearray()
        self._again = 0
        self._cursor = 0

    def add(self, end: int, run_id: bytes) -> None:
        """A record has been written up to `end`."""
        self.size = end
        self.left += 1
        self.runs.add(run_id)

    def empty(self) -> None:
        """Notes that all records, which are settled, were cut off."""
        self.size = self.read_to = self.start
        self._offsets, self._states, self._tries = array("I"), bytearray(), bytearray()
        self._passed.clear()
        self.bad.clear()

    def may_be_sent(self, offset: int) -> bool:
        """Whether the record at this offset may have been sent."""
        return self.earlier or offset < self.read_to

    def is_settled(self, offset: int) -> bool:
        """Whether the record at this offset is settled."""
        if offset >= self.read_to:
            return offset in self._passed
        index = bisect_left(self._offsets, offset)
        return index < len(self._offsets) and self._offsets[index] == offset and self._states[index] == SETTLED

    # ---- reading

    @property
    def ready(self) -> bool:
        """Whether there is something to read now."""
        return self._again > 0 or self.read_to < self.size

    def next(self) -> tuple[int | None, int]:
        """Index and offset of the next record to read; index None: it was never read. Only if `ready`."""
        if not self._again:
            return None, self.read_to
        self._cursor = self._states.index(WAITING, self._cursor)
        return self._cursor, self._offsets[self._cursor]

    def passes(self) -> bool:
        """Whether the next unread place needs no reading; if so, skips it."""
        end = self.bad.get(self.read_to)
        if end is None:
            return False
        self._append(SETTLED, end)
        return True

    def take(self, index: int | None, end: int) -> int:
        """Notes that the record from `next` was read and ends at `end`; returns its index."""
        if index is None:
            if self.read_to in self._passed:
                self._passed.remove(self.read_to)
                return self._append(SETTLED, end)
            return self._append(TAKEN, end)
        self._states[index] = TAKEN
        self._again -= 1
        return index

    def _append(self, state: int, end: int) -> int:
        self._offsets.append(self.read_to)
        self._states.append(state)
        self._tries.append(0)
        self.read_to = end
        return len(self._states) - 1

    # ---- states of records

    def state(self, index: int) -> int:
        """WAITING, TAKEN, SETTLED, or the number of the wave that the record waits for."""
        return self._states[index]

    def settle(self, index: int) -> None:
        """Marks the record as settled."""
        if self._states[index] == WAITING:
            self._again -= 1
        self._states[index] = SETTLED
        self.left -= 1

    def give_back(self, index: int) -> None:
        """Makes the record available again."""
        self._states[index] = WAITING
        self._again += 1
        self._cursor = min(self._cursor, index)

    def defer(self, index: int, wave: int) -> None:
        """Makes the record wait for a wave."""
        self._states[index] = wave
        self._tries[index] = min(self._tries[index] + 1, 255)
        self.deferred += 1

    def tries(self, index: int) -> int:
        """How often the record was deferred."""
        return self._tries[index]

    def wake(self, wave: int) -> None:
        """Makes all records of this wave available again."""
        count = self._states.count(wave)
        self._states = self._states.replace(bytes([wave]), bytes([WAITING]))
        self._again += count
        self.deferred -= count
        self._cursor = 0

    def supersede(self, offset: int) -> None:
        """Marks the unread record at this offset as replaced by another record: it is not sent."""
        self._passed.add(offset)
        self.left -= 1

    def is_bad(self, offset: int) -> bool:
        """Whether this offset is in known damage."""
        return any(start <= offset < end for start, end in self.bad.items())

    def learn(self, bad: dict[int, int], whole: list[int]) -> None:
        """Takes the result of a scan: `bad` has offset -> end of damage, `whole` the offsets of all valid records."""
        self.bad = bad
        for start, end in list(bad.items()):
            if start < self.read_to < end:  # reading goes on behind the damage
                bad[self.read_to] = end
        unread = sum(1 for offset in whole if offset >= self.read_to and offset not in self._passed)
        self.left = len(self._states) - self._states.count(SETTLED) + unread
