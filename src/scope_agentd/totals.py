"""Total counts of all runs of an agent: the counters behind /metrics."""

import threading
from collections import Counter
from typing import Literal, get_args

from scope_agentd.pipeline.books import Books

Kind = Literal["emitted", "lost", "left_out", "incomplete"]
Counts = dict[Kind, Counter[tuple[str, ...]]]


class Totals:
    """Counts of all runs since the agent's start. For any thread.

    When a run ends, its counts are added permanently. They remain when another run replaces it, or its task is deleted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recording: dict[bytes, tuple[str, Books]] = {}
        self._ended: Counts = {kind: Counter() for kind in get_args(Kind)}

    def begin(self, run_id: bytes, probe: str, books: Books) -> None:
        """Adds a run that starts, with its books."""
        with self._lock:
            self._recording[run_id] = (probe, books)

    def end(self, run_id: bytes) -> None:
        """Adds the final counts of a run that has ended."""
        with self._lock:
            _add(self._ended, *self._recording.pop(run_id))

    def counts(self) -> Counts:
        """Counts by kind, then by probe and stream; losses also by place and reason."""
        with self._lock:
            counts: Counts = {kind: Counter(counted) for kind, counted in self._ended.items()}
            for probe, books in self._recording.values():
                _add(counts, probe, books)
        return counts


def _add(counts: Counts, probe: str, books: Books) -> None:
    for stream, account in books.accounts().items():
        counts["emitted"][probe, stream] += account.emitted
        counts["left_out"][probe, stream] += account.left_out
        counts["incomplete"][probe, stream] += account.incomplete
        for loss in account.lost:
            counts["lost"][probe, stream, loss.place, loss.reason] += loss.count
