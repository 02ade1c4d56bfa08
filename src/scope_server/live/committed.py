"""Tells which streams have new rows, as writers of this and of other servers say, to those who read live."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager


class Committed:
    """News of commits."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def tell(self, streams: Collection[str]) -> None:
        """Rows of these streams were committed; without streams: maybe rows of any. For the event loop."""
        for stream in streams or list(self._waiting):
            for event in self._waiting.get(stream, ()):
                event.set()

    @contextmanager
    def of(self, stream: str) -> Iterator[asyncio.Event]:
        """An event that is set with each commit of a stream, for the block."""
        event = asyncio.Event()
        self._waiting[stream].add(event)
        try:
            yield event
        finally:
            self._waiting[stream].discard(event)
            if not self._waiting[stream]:
                del self._waiting[stream]
