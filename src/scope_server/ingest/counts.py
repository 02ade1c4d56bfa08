"""Counters of stored, refused, deferred and redated records since the server's start."""

import threading
from collections import Counter
from collections.abc import Mapping


class Counts:
    """Counters by code. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: Counter[str] = Counter()
        self._deferred: Counter[str] = Counter()
        self._redated = 0
        self._stored = 0
        self._stored_events = 0

    @property
    def refused(self) -> Mapping[str, int]:
        """Refused records by code, such as `corrupt`; `unidentified` records belong to no known stream."""
        with self._lock:
            return dict(self._refused)

    @property
    def deferred(self) -> Mapping[str, int]:
        """LATER answers by code."""
        with self._lock:
            return dict(self._deferred)

    @property
    def stored(self) -> tuple[int, int]:
        """Records answered with STORED, and their events; one that came twice counts twice."""
        with self._lock:
            return self._stored, self._stored_events

    @property
    def redated(self) -> int:
        """Batches timed by the server's clock, because the machine's is implausible."""
        with self._lock:
            return self._redated

    def store(self, events: int) -> None:
        """Counts a stored record with this number of events."""
        with self._lock:
            self._stored += 1
            self._stored_events += events

    def refuse(self, code: str) -> None:
        """Counts a refused record."""
        with self._lock:
            self._refused[code] += 1

    def defer(self, code: str) -> None:
        """Counts a LATER answer."""
        with self._lock:
            self._deferred[code] += 1

    def redate(self) -> None:
        """Counts a batch timed by the server's clock."""
        with self._lock:
            self._redated += 1
