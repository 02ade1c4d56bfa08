"""Tells which streams have new rows: writers' threads say it, and who reads live waits for it."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager


class Committed:
    """News of commits. Created in the event loop in which others wait."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def tell(self, streams: Collection[str]) -> None:
        """Rows of these streams were committed. For any thread."""
        if any(stream in self._waiting for stream in streams):
            self._loop.call_soon_threadsafe(self._wake, streams)

    def _wake(self, streams: Collection[str]) -> None:
        for stream in streams:
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
