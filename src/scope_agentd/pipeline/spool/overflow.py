"""Records that wait in memory because the disk is full or broken. Of batches, only the Gap is kept."""

import logging
from collections import deque

from scope_agentd.pipeline.spool.losses import DISK_FULL, Losses
from scope_proto.scope.v1.record_pb2 import Record

log = logging.getLogger(__name__)

MOST_BYTES = 4 << 20  # of complete records


class Overflow:
    """Bounded: a span per run and stream, the latest Accounts per run, and `MOST_BYTES` of other records.

    Attributes:
        first: records to write before the losses, each with a flag: moved from a segment.
        losses: batches that could not be written.
        accounts: the latest Accounts of each run.
        ends: records to write last.
        dropped: records dropped since the start.
    """

    def __init__(self) -> None:
        self.first: deque[tuple[Record, bool]] = deque()
        self.losses = Losses()
        self.accounts: dict[bytes, Record] = {}
        self.ends: deque[Record] = deque()
        self.dropped = 0
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self.first or self.losses or self.accounts or self.ends)

    def __len__(self) -> int:
        return len(self.first) + len(self.losses) + len(self.accounts) + len(self.ends)

    def keep(self, record: Record, moved: bool = False) -> None:
        """Keeps a record that could not be written."""
        kind = record.WhichOneof("content")
        if kind == "batch":
            self.losses.add_batch(record, DISK_FULL, sent=False)
            self.dropped += 1
        elif kind == "accounts":
            if not moved or record.run_id not in self.accounts:
                self.accounts[record.run_id] = record
        elif self._bytes > MOST_BYTES:
            self.dropped += 1
            log.error("a record of a run is lost: the disk is full", extra={"run": record.run_id.hex(), "kind": kind})
        else:
            self._bytes += record.ByteSize()
            if kind == "end" and not moved:
                self.accounts.pop(record.run_id, None)
                self.ends.append(record)
            else:
                self.first.append((record, moved))

    def runs(self) -> set[bytes]:
        """The runs with records here."""
        kept = {record.run_id for record, _ in self.first} | {record.run_id for record in self.ends}
        return kept | self.accounts.keys() | {lost.key.run_id for lost in self.losses}

    def written(self) -> None:
        """Empties the overflow: all of it was written."""
        self._bytes = 0
