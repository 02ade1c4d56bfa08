"""Which function calls of watched processes may be missing: as counts, and as text."""

from collections.abc import Iterable
from dataclasses import dataclass

_MOST_FILES = 5  # named in the text


@dataclass(frozen=True)
class Late:
    """A file that was attached late: `late_ns` after a watched process had mapped it."""

    path: str
    functions: int
    late_ns: int


@dataclass(frozen=True)
class Missed:
    """Counts of what could not be seen, since the start.

    Attributes:
        unseen: mapped files whose process ended before the file could be opened.
        unopened: files that could not be opened or attached after several tries, for lack of descriptors or memory.
        refused: files in which the kernel refused to attach.
        retries: number of retries after temporary failures.
        lost: how often the kernel lost news of mappings; all processes were looked at then.
        late: files that were attached after a watched process had mapped them; early calls may be missing.
    """

    unseen: int = 0
    unopened: int = 0
    refused: int = 0
    retries: int = 0
    lost: int = 0
    late: int = 0

    def notes(self, late: Iterable[Late]) -> list[str]:
        """The text: one line per note, the files with the longest delay first."""
        latest = sorted(late, key=lambda one: -one.late_ns)[:_MOST_FILES]
        said = [
            f"{one.path} was attached {one.late_ns / 1e6:,.0f} ms after it was mapped: earlier calls are missing"
            for one in latest
        ]
        if self.late > len(latest):
            said.append(f"{self.late - len(latest):,} more files were attached after they were mapped")
        if self.unseen:
            said.append(f"{self.unseen:,} files were mapped by processes that ended before the files could be opened")
        if self.lost:
            said.append(f"{self.lost:,} times the kernel lost news of mappings: some files may be missing")
        return said
