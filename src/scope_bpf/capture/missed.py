"""What of the functions that watched processes run could not be seen, as numbers and for people."""

from collections.abc import Iterable
from dataclasses import dataclass

_MOST_FILES = 5  # that are named


@dataclass(frozen=True)
class Late:
    """A file whose functions may have run unseen: from its mapping by a watched process to the attaching, in ns."""

    path: str
    functions: int
    late_ns: int


@dataclass(frozen=True)
class Missed:
    """What could not be seen, since the start.

    Attributes:
        unseen: files that were mapped by processes which had ended before anybody could look at them.
        unopened: files that could not be opened or attached to for want of descriptors or memory, after several tries.
        refused: files in which the kernel did not let the probe attach.
        retries: how often something that failed for the moment was tried again.
        lost: how often the kernel could not tell what was mapped; all processes were looked at then.
        late: files that were attached to after a watched process had mapped them, in which calls may be unseen.
    """

    unseen: int = 0
    unopened: int = 0
    refused: int = 0
    retries: int = 0
    lost: int = 0
    late: int = 0

    def notes(self, late: Iterable[Late]) -> list[str]:
        """For people, the latest of the last files first."""
        latest = sorted(late, key=lambda one: -one.late_ns)[:_MOST_FILES]
        said = [
            f"{one.path} was attached to {one.late_ns / 1e6:,.0f} ms after it was mapped: earlier calls were not seen"
            for one in latest
        ]
        if self.late > len(latest):
            said.append(f"{self.late - len(latest):,} more files were attached to after they were mapped")
        if self.unseen:
            said.append(f"{self.unseen:,} files were of processes that had ended before anybody could look at them")
        if self.lost:
            said.append(f"{self.lost:,} times the kernel could not tell all that was mapped: some may have gone unseen")
        return said
