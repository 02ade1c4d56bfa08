"""The waiting records of a lane, by machine. Machines take turns, so none waits for all that another one has sent.

A group has records of many machines, because a transaction for each machine would cost too much. If such a group fails,
each of its machines gets its next group for itself. If that fails too, the machine's next group has half as many
records, and so on, down to the record that fails alone. So a machine whose records fail pays for it with its own turns.
"""

from collections import deque
from collections.abc import Sequence

from scope_server.ingest.pending import Pending

GROUP_EVENTS = 65_536  # maximum events per transaction, unless a single record has more
GROUP_RECORDS = 256
_GROUP_BYTES = 64 << 20


class Turns:
    """For one thread at a time. Machines are known by their keys."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[Pending]] = {}  # in the order of their turns
        self._apart: dict[int, int] = {}  # machines with groups of their own: maximum records of the next one

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, pending: Pending) -> None:
        """Adds a record behind the others of its machine."""
        self._waiting.setdefault(pending.machine.key, deque()).append(pending)

    def take(self) -> list[Pending]:
        """The next group: of the next machine if it is apart, otherwise of all machines that are not."""
        first = next(iter(self._waiting), None)
        if first is None:
            return []
        if first in self._apart:
            return self._taken([first], self._apart[first])
        return self._taken([machine for machine in self._waiting if machine not in self._apart], GROUP_RECORDS)

    def put_back(self, group: Sequence[Pending]) -> None:
        """Takes back a group that failed."""
        machines = dict.fromkeys(pending.machine.key for pending in group)
        for machine in machines:
            self._apart[machine] = GROUP_RECORDS if len(machines) > 1 else max(1, len(group) // 2)
            self._waiting.setdefault(machine, deque())
        for pending in reversed(group):
            self._waiting[pending.machine.key].appendleft(pending)

    def stored(self, group: Sequence[Pending]) -> None:
        """Notes that a whole group was stored."""
        for machine in {pending.machine.key for pending in group} & self._apart.keys():
            self._apart[machine] += len(group)
            if self._apart[machine] >= GROUP_RECORDS:
                del self._apart[machine]

    def abandon(self) -> list[Pending]:
        """Removes and returns all records."""
        left = [pending for queue in self._waiting.values() for pending in queue]
        self._waiting.clear()
        return left

    def _taken(self, machines: list[int], most: int) -> list[Pending]:
        # One record of each machine, then the next of each, until the group is full.
        group: list[Pending] = []
        events = weight = 0
        turns = deque(machines)
        while turns and len(group) < most:
            queue = self._waiting[turns[0]]
            events, weight = events + queue[0].events, weight + queue[0].weight
            if group and (events > GROUP_EVENTS or weight > _GROUP_BYTES):
                break
            group.append(queue.popleft())
            if queue:
                turns.rotate(-1)
            else:
                turns.popleft()
        for machine in dict.fromkeys(pending.machine.key for pending in group):  # to the end of the order
            queue = self._waiting.pop(machine)
            if queue:
                self._waiting[machine] = queue
        return group
