"""The books of a stream as the kernel keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
