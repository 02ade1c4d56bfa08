"""Records that wait for the bus's thread: bounded in bytes, only those that somebody listens to."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence

from scope_agentd.bus.positions import Positions, Source
from scope_proto.scope.v1 import record_pb2
from scope_wire.bus.message import Message

MOST_BYTES = 8 << 20  # of compressed columns: about a million syscalls


class Waiting:
    """Between the threads of the runs, which never wait for it, and the bus's thread.

    Args:
        wake: wakes the bus's thread; called from any thread.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._positions = Positions()
        self._wanted: tuple[bytes, ...] = ()
        self._records: list[tuple[Source, record_pb2.Record]] = []
        self._bytes = 0
        self._dropped: Counter[str] = Counter()

    def put(self, record: record_pb2.Record) -> None:
        """Takes a record of a run. Batches without a listener are not kept; those without room are counted."""
        with self._lock:
            self._positions.note(record)
            content = record.WhichOneof("content")
            if content == "end":
                self._positions.forget(self._wanted)
            told = bool(self._wanted) if content == "end" else content == "batch" and self._keeps(record)
        if told:
            self._wake()

    def _keeps(self, record: record_pb2.Record) -> bool:
        if not self._positions.topic(record).startswith(self._wanted):
            return False
        size = len(record.batch.arrow_ipc)
        if self._bytes + size > MOST_BYTES:
            self._dropped[record.batch.stream] += record.batch.event_count
            return False
        self._records.append((self._positions.source(record.run_id), record))
        self._bytes += size
        return True

    def take(self) -> tuple[Sequence[tuple[Source, record_pb2.Record]], Sequence[tuple[Source, Message]]]:
        """All waiting records, and the positions to tell after them."""
        with self._lock:
            records, self._records, self._bytes = self._records, [], 0
            return records, list(self._positions.due(self._wanted))

    def join(self, prefix: bytes) -> None:
        """Somebody listens to topics with this prefix, perhaps beside others."""
        with self._lock:
            self._wanted = (*(one for one in self._wanted if one != prefix), prefix)
            self._positions.joined(prefix)

    def leave(self, prefix: bytes) -> None:
        """Nobody listens to this prefix any more."""
        with self._lock:
            self._wanted = tuple(one for one in self._wanted if one != prefix)
            self._positions.forget(self._wanted)

    def topics(self) -> int:
        """Number of prefixes that are listened to."""
        return len(self._wanted)

    def dropped(self) -> dict[str, int]:
        """Events that no reader got because there was no room, by stream."""
        with self._lock:
            return dict(self._dropped)
