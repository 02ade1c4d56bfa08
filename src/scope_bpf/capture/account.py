"""Event counts of a stream, and of a place that a probe is attached to."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Account:
    """Counts since the start.

    Attributes:
        emitted: events that passed the filter, including lost events.
        lost: lost events by reason.
        incomplete: emitted events that lack a part: the process that owns a socket or request, a stack or a name for
            which there was no room, memory that could not be read, or where a thread was around an unseen switch.
    """

    emitted: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    incomplete: int = 0

    def and_lost(self, reason: str, count: int) -> "Account":
        """A copy with `count` more events, emitted and lost."""
        lost = {**self.lost, reason: self.lost.get(reason, 0) + count}
        return replace(self, emitted=self.emitted + count, lost=lost) if count else self


@dataclass(frozen=True)
class PlaceAccount:
    """Counts of a place since the start.

    Attributes:
        name: name of the place.
        files: number of files in which the place was attached, including files that are only installed.
        hits: calls by watched threads, including lost calls. 0 hits with `files` > 0: attached but never called.
        lost: calls without a row, by reason.
    """

    name: str
    files: int = 0
    hits: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
