"""What the runs of an agent have counted, all together: the counters behind /metrics."""

import threading
from collections import Counter
from typing import Literal

from scope_agentd.pipeline.books import Books

Kind = Literal["emitted", "lost", "incomplete"]
Counts = dict[Kind, Counter[tuple[str, ...]]]


class Totals:
    """Counts of every run since the agent's start. From any thread.

    A run is added for good when it ends: it counts on when a retry has replaced it and when its task is forgotten.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recording: dict[bytes, tuple[str, Books]] = {}
        self._ended: Counts = {"emitted": Counter(), "lost": Counter(), "incomplete": Counter()}

    def begin(self, run_id: bytes, probe: str, books: Books) -> None:
        """A run of a probe begins, and counts in these books."""
        with self._lock:
            self._recording[run_id] = (probe, books)

    def end(self, run_id: bytes) -> None:
        """A run has ended: its books do not change any more."""
        with self._lock:
            _add(self._ended, *self._recording.pop(run_id))

    def counts(self) -> Counts:
        """Counts by kind, then by probe, stream and, of losses, place and reason."""
        with self._lock:
            counts: Counts = {kind: Counter(counted) for kind, counted in self._ended.items()}
            for probe, books in self._recording.values():
                _add(counts, probe, books)
        return counts


def _add(counts: Counts, probe: str, books: Books) -> None:
    for stream, account in books.accounts().items():
        counts["emitted"][probe, stream] += account.emitted
        counts["incomplete"][probe, stream] += account.incomplete
        for loss in account.lost:
            counts["lost"][probe, stream, loss.place, loss.reason] += loss.count
