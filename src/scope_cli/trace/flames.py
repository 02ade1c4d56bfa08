"""Writes flame graphs at the end of a trace: as a picture, or as text for other tools."""

from collections.abc import Collection, Iterable
from pathlib import Path

import pyarrow as pa

from scope_catalogue.stream import DescribedStream
from scope_views.flames.folded import Folded
from scope_views.flames.svg import picture
from scope_views.flames.text import folded_lines


class FlameSink:
    """One file with a flame graph for each stream that has stacks.

    Args:
        as_text: folded stacks instead of a picture: a line per stack, `FRAME;FRAME;... WEIGHT`. With several streams,
            each line begins with the stream's name as its outermost frame.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path, streams: Iterable[DescribedStream], *, as_text: bool) -> None:
        self._file, self.name, self._as_text = path.open("w", encoding="utf-8"), str(path), as_text
        self._folded = {stream.name: Folded(stream) for stream in streams if stream.shown.flame}

    def columns(self, stream: DescribedStream) -> Collection[str] | None:
        """The stack and its weight."""
        folded = self._folded.get(stream.name)
        return folded.columns if folded else ("ktime_ns",)

    def write(self, stream: DescribedStream, batch: pa.RecordBatch) -> None:
        """Adds the rows of a batch."""
        if folded := self._folded.get(stream.name):
            folded.add(batch)

    def flush(self) -> None:
        """Nothing: the file is written when it is closed."""

    def close(self) -> list[str]:
        """Writes the file."""
        found = {name: folded.tree() for name, folded in self._folded.items() if folded.total}
        with self._file as file:
            if self._as_text:
                file.writelines(folded_lines(found))
            else:
                file.write(picture(list(found.values())))
        count = sum(1 for tree in found.values() for _ in tree.stacks())
        return [f"{self.name}: {count:,} stacks"]
