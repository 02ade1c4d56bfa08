"""Counts the events that a reader of the local bus did not get, exactly, by the numbers in the messages."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from scope_bpf.capture.account import Account
from scope_wire.bus.message import Message

MISSED = "slow_reader"  # the reason of losses between the agent and the reader


@dataclass
class _Stream:
    """A stream of a run: the number of the next event, and events lost by place and reason.

    Attributes:
        earlier: lost before the reader joined.
    """

    next: int
    earlier: Mapping[str, int]
    missed: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)


class Losses:
    """What was lost of each stream since the reader joined: on the way to the reader, or before, such as in a ring.

    Args:
        joined_ns: when the reader joined, CLOCK_BOOTTIME. Of runs that began later, every event counts; of others,
            those from the first message on.
    """

    def __init__(self, joined_ns: int) -> None:
        self._joined_ns = joined_ns
        self._streams: dict[tuple[str, str], _Stream] = {}

    def note(self, message: Message) -> None:
        """Takes the numbers of the next message that arrived."""
        key = (message.stream, message.run)
        if key not in self._streams:
            whole = message.began_ns > self._joined_ns
            self._streams[key] = _Stream(0, {}) if whole else _Stream(message.events_before, message.lost)
        stream = self._streams[key]
        stream.missed += message.events_before - stream.next
        stream.next = message.events_before + message.events
        stream.lost = message.lost

    def accounts(self) -> dict[str, Account]:
        """Lost events by stream and reason."""
        lost: dict[str, Counter[str]] = {}
        for (name, _), stream in self._streams.items():
            of = lost.setdefault(name, Counter())
            of[MISSED] += stream.missed
            for reason, count in stream.lost.items():
                of[reason.rpartition("/")[2]] += count - stream.earlier.get(reason, 0)
        return {name: Account(lost=dict(+counts)) for name, counts in lost.items()}
