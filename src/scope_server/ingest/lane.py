"""A thread that checks and writes the records of one lane of the backlog."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from scope_server.errors import GroupFailed, Rejected, StoreUnavailable
from scope_server.ingest.admit import Admission
from scope_server.ingest.backlog import Backlog
from scope_server.ingest.pending import Pending
from scope_server.ingest.turns import GROUP_RECORDS
from scope_server.store.retention import Disk
from scope_server.store.writing.delivery import Batch, Delivery, Outcome, Verdict
from scope_server.store.writing.writer import Writer

_T = TypeVar("_T")

_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 5.0
# A group costs as much as some thousand rows. So a lane that has written fewer rests, as long as it works less than a
# tenth of the time: the slower the machine, the fewer and larger are its groups.
_GROUP_EVERY_S = 0.1
_SMALL_EVENTS = 4096
_RESTS = 9  # times as long as a small group took
_LONGEST_REST_S = 1.0
_SLOW_S = 30.0  # a group normally takes a fraction of a second
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Held:
    # A group that cannot be written now.
    since: datetime
    reason: str
    records: int


class Lane:
    """Runs from its creation until the backlog is closed and drained, or until `stop`.

    Args:
        number: number of the lane.
        committed: called with the streams of which rows were committed.
        disk: while its free space is too low, nothing is written.
    """

    def __init__(
        self,
        number: int,
        backlog: Backlog,
        admission: Admission,
        writer: Writer,
        *,
        committed: Callable[[Collection[str]], None],
        disk: Disk | None = None,
    ) -> None:
        self._number, self._backlog, self._admission, self._writer = number, backlog, admission, writer
        self._committed, self._disk = committed, disk
        self._stopping = threading.Event()
        self._held: _Held | None = None
        self._busy_since: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"scope-writer-{number}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def trouble(self) -> str:
        """Why the thread cannot write; empty if it can."""
        held, busy_since = self._held, self._busy_since
        if not self.alive:
            return f"writer {self._number} ended"
        if held:
            since = held.since.isoformat(timespec="seconds")
            return f"writer {self._number} holds {held.records} records since {since}: {held.reason}"
        if busy_since is not None and (busy_s := time.monotonic() - busy_since) > _SLOW_S:
            return f"writer {self._number} has written one group for {busy_s:.0f} s"
        return ""

    def join(self, timeout_s: float) -> None:
        """Waits for the end of the thread."""
        self._thread.join(timeout_s)

    def stop(self) -> None:
        """Makes the thread abandon its work; its records are not answered."""
        self._stopping.set()
        # In another thread, since the database may not answer.
        threading.Thread(target=self._writer.cancel, daemon=True).start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set() and (group := self._backlog.take(self._number)):
                began = self._busy_since = time.monotonic()
                written = self._write(group)
                self._busy_since = None
                if written and len(group) < GROUP_RECORDS:
                    self._backlog.rest(_rest_s(group, time.monotonic() - began))
        finally:
            self._writer.close()

    def _write(self, group: Sequence[Pending]) -> bool:
        # False: stopped, or the group's parts come next.
        try:
            outcomes = self._outcomes(group)
        except GroupFailed:
            self._backlog.put_back(self._number, group)
            return False
        if outcomes is None:
            return False
        self._backlog.settle(self._number, group, outcomes)
        return True

    def _outcomes(self, group: Sequence[Pending]) -> list[Outcome] | None:
        # None: stopped.
        try:
            deliveries = [self._admitted(pending) for pending in group]
            written = self._persisted(partial(self._writer.write, deliveries), len(deliveries))
        except GroupFailed:
            raise
        except Exception as error:  # our own error must not end the thread, nor lose records that agents still have
            _log.exception("a group failed", extra={"records": len(group)})
            self._writer.close()
            return [Outcome(Verdict.LATER, f"the server failed: {error}", "failed")] * len(group)
        # A commit that waits for a synchronous replica when it is cancelled is said to be done, and may be lost with a
        # failover: its agents send again.
        if written is None or self._stopping.is_set():
            return None
        committed = set[str]()
        for batch, outcome in zip((one.content for one in deliveries), written, strict=True):
            if isinstance(batch, Batch):
                if batch.redated:
                    self._backlog.counts.redate()
                if outcome.verdict is Verdict.STORED:
                    committed.add(batch.stream)
        if committed:
            self._committed(committed)
        return written

    def _admitted(self, pending: Pending) -> Delivery:
        if (described := pending.described) and not described.refused:
            try:
                self._persisted(partial(self._writer.learn, described.stream), 1)
            except Rejected as error:
                described.refused = error
        refused = pending.described.refused if pending.described else None
        return self._admission(pending.record, pending.machine, pending.rejected or refused)

    def _persisted(self, attempt: Callable[[], _T], records: int) -> _T | None:
        # Tries until the database can be used; None: stopped.
        pause_s = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            try:
                if self._disk and (shortage := self._disk.shortage()):
                    raise StoreUnavailable(shortage)
                done = attempt()
                self._held = None
                return done
            except (GroupFailed, Rejected):
                self._held = None
                raise
            except StoreUnavailable as error:
                since = self._held.since if self._held else datetime.now(UTC)
                self._held = _Held(since, str(error), records)
                _log.warning("the database cannot be written to", extra={"reason": str(error), "retry_s": pause_s})
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return None


def _rest_s(group: Sequence[Pending], took_s: float) -> float:
    is_small = sum(pending.events for pending in group) < _SMALL_EVENTS
    return max(_GROUP_EVERY_S - took_s, min(_RESTS * took_s, _LONGEST_REST_S) if is_small else 0.0)
