"""Records that wait in memory because the disk is full or broken. Of batches, only the Gap is kept."""

import logging

from scope_agentd.pipeline.spool.losses import DISK_FULL, Losses
from scope_proto.scope.v1.record_pb2 import Record

log = logging.getLogger(__name__)

MOST_BYTES = 4 << 20  # of complete records


class Overflow:
    """Bounded: a span per run and stream, the latest Accounts per run, and `MOST_BYTES` of other records.

    Attributes:
        first: starts of runs; written before the losses.
        losses: batches that could not be written.
        damaged: losses found in damaged segments.
        accounts: the latest Accounts of each run.
        ends: records to write last.
        dropped: records dropped since the start.
    """

    def __init__(self) -> None:
        self.first: list[Record] = []
        self.losses = Losses()
        self.damaged = Losses()
        self.accounts: dict[bytes, Record] = {}
        self.ends: list[Record] = []
        self.dropped = 0
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self.first or self.losses or self.damaged or self.accounts or self.ends)

    def __len__(self) -> int:
        return len(self.first) + len(self.losses) + len(self.damaged) + len(self.accounts) + len(self.ends)

    def keep(self, record: Record) -> None:
        """Keeps a record that could not be written."""
        kind = record.WhichOneof("content")
        if kind == "batch":
            self.losses.add_batch(record, DISK_FULL, sent=False)
            self.dropped += 1
        elif kind == "accounts":
            self.accounts[record.run_id] = record
        elif self._bytes > MOST_BYTES:
            self.dropped += 1
            log.error("a record of a run is lost: the disk is full", extra={"run": record.run_id.hex(), "kind": kind})
        else:
            self._bytes += record.ByteSize()
            if kind == "end":
                self.accounts.pop(record.run_id, None)
                self.ends.append(record)
            else:
                self.first.append(record)

    def runs(self) -> set[bytes]:
        """The runs with records here."""
        kept = {record.run_id for record in [*self.first, *self.last()]}
        return kept | {lost.key.run_id for lost in (*self.losses, *self.damaged)}

    def last(self) -> list[Record]:
        """The records to write after the losses."""
        return [*self.accounts.values(), *self.ends]

    def clear(self) -> None:
        """Empties the overflow: all of it was written."""
        self.first.clear()
        self.losses.clear()
        self.damaged.clear()
        self.accounts.clear()
        self.ends.clear()
        self._bytes = 0
