"""The books of a stream, and of a place that a probe is attached to, as the kernel keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Account:
    """Counts since the start.

    Attributes:
        emitted: events that passed the filter, lost ones included.
        lost: of these, by reason.
        incomplete: of the events that are there: without a stack or a name, for which there was no room.
    """

    emitted: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    incomplete: int = 0

    def and_lost(self, reason: str, count: int) -> "Account":
        """The same, with so many more that were emitted and lost."""
        lost = {**self.lost, reason: self.lost.get(reason, 0) + count}
        return replace(self, emitted=self.emitted + count, lost=lost) if count else self


@dataclass(frozen=True)
class PlaceAccount:
    """Counts of a place since the start.

    Attributes:
        name: the place's.
        files: how many files it was found and attached to in, those that are only installed included.
        hits: calls by watched threads, lost ones included; 0 where `files` is not: attached, and not called.
        lost: of these, by reason: calls that become no rows.
    """

    name: str
    files: int = 0
    hits: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
