"""The agent's spool: records wait on disk until the server has settled them."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scope_agentd.errors import RecordTooLarge, SpoolClosed, SpoolFailed
from scope_agentd.pipeline.spool.home import Home
from scope_agentd.pipeline.spool.keeper import Keeper
from scope_agentd.pipeline.spool.log import Log
from scope_agentd.pipeline.spool.outbox import Outbox, Outcome, Spooled
from scope_agentd.pipeline.spool.recovery import find
from scope_agentd.pipeline.spool.runs import OpenRun
from scope_agentd.pipeline.spool.syncer import Syncer
from scope_proto.scope.v1.record_pb2 import Record
from scope_wire.limits import RECORD_BYTES

_SEGMENTS = 8  # minimum number of segments within the limit


@dataclass(frozen=True, slots=True)
class Held:
    """The size of the spool.

    Attributes:
        bytes: size on disk of segments with unsettled records.
        limit_bytes: maximum size of all segments together.
        records: number of unsettled records.
        deferred_records: records answered with LATER and not sent again yet.
        dropped_records: records dropped since the agent's start, because the spool or the disk was full. Gaps report
            the dropped batches.
        damaged_records: damaged places found on disk since the agent's start.
        disk_full: whether the disk cannot write now.
    """

    bytes: int
    limit_bytes: int
    records: int
    deferred_records: int
    dropped_records: int
    damaged_records: int
    disk_full: bool


class Spool:
    """A bounded queue of records on disk. When it is full, the oldest batches become a Gap.

    Delivery is at least once: after a restart, unsettled records are sent again. `put` may be called from any thread;
        the asynchronous methods, `settle` and `rewind` belong to one event loop, and only one task calls `take`. Memory
        use does not grow with the spool. `syncer` says what a crash may lose.

    Args:
        directory: used only by the spool; made if it is missing.
        limit_bytes: maximum size of all segments together, if no record is larger than an eighth of it.
        segment_bytes: a segment is closed at this size; at most an eighth of the limit.

    Attributes:
        open_runs: by run_id, the runs that an earlier agent started and did not end.

    Raises:
        SpoolInUse: another agent uses the directory.
        SpoolUnusable: the directory cannot be made or written to.
    """

    def __init__(self, directory: Path, limit_bytes: int = 1 << 30, segment_bytes: int = 8 << 20) -> None:
        self._limit = limit_bytes
        segment_bytes = min(segment_bytes, limit_bytes // _SEGMENTS)
        self._lock = threading.Lock()
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._settled = asyncio.Event()
        self._once_written: list[tuple[bytes, Callable[[], None]]] = []
        self._closed = False
        self._home = Home(directory)
        try:
            found = find(self._home)
            self.open_runs: Mapping[bytes, OpenRun] = found.runs.snapshot()
            self._log = Log(self._home, segment_bytes, found.runs, found.segments, found.last_number)
            self._keeper = Keeper(self._log, limit_bytes, segment_bytes)
            self._outbox = Outbox(self._log, self._keeper)
            self._keeper.start(found)
        except BaseException:
            self._home.close()
            raise
        self._syncer = Syncer(self._to_sync)
        self._syncer.start()

    def put(self, record: Record) -> None:
        """Writes a record, which then outlives the process. The caller numbers the batches without holes.

        A full or broken disk is no error here: until the disk can write, the record waits in memory; of a batch, only a
            Gap.

        Raises:
            RecordTooLarge: the record has more than `limits.RECORD_BYTES`.
            SpoolClosed: the spool is closed.
        """
        data = record.SerializeToString()
        if len(data) > RECORD_BYTES:
            raise RecordTooLarge(f"a record has {len(data)} bytes, more than {RECORD_BYTES}; split it")
        with self._lock:
            self._check_open()
            self._keeper.put(record, data)
            self._wake()
        self._call_written()

    def once_written(self, run_id: bytes, call: Callable[[], None]) -> None:
        """Calls `call` when no record of the run waits in memory: at once, or later from another thread."""
        with self._lock:
            self._once_written.append((run_id, call))
        self._call_written()

    async def take(self) -> Spooled:
        """The oldest waiting record; waits until there is one. Settle the record by its position.

        Raises:
            SpoolClosed: the spool is closed.
        """
        while True:
            with self._lock:
                self._check_open()
                now = time.monotonic()
                before = self._outbox.next(now)
                if before is not None:
                    return before
                pause = self._outbox.pause(now)
                filled = asyncio.Event()
                self._waiting = (asyncio.get_running_loop(), filled)
            self._settled.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await filled.wait()

    def settle(self, position: int, outcome: Outcome) -> None:
        """Notes the server's answer. After LATER, the record is taken again after a pause that grows from 2 s to 300
        s."""
        with self._lock:
            self._outbox.settle(position, outcome, time.monotonic())
            self._keeper.flush()  # settled records may have freed space
            self._wake()
        self._call_written()
        self._settled.set()

    def rewind(self) -> None:
        """The connection is lost: all unsettled records are taken again, in order."""
        with self._lock:
            self._outbox.rewind()
            self._wake()

    async def wait_until_empty(self) -> None:
        """Returns when every record is settled."""
        while self.held().records:
            self._settled.clear()
            await self._settled.wait()

    def held(self) -> Held:
        """The current size of the spool."""
        with self._lock:
            segments = list(self._log.segments.values())
            overflow = self._keeper.overflow
            return Held(
                bytes=sum(segment.size for segment in segments if segment.left),
                limit_bytes=self._limit,
                records=sum(segment.left for segment in segments) + len(overflow),
                deferred_records=sum(segment.deferred for segment in segments),
                dropped_records=self._keeper.dropped + overflow.dropped,
                damaged_records=self._keeper.damaged,
                disk_full=bool(overflow),
            )

    def runs(self) -> set[bytes]:
        """The run_id of every run with records in the spool; some of these records may be settled."""
        with self._lock:
            spooled = (segment.runs for segment in self._log.segments.values() if segment.left)
            return self._keeper.overflow.runs().union(*spooled)

    async def watch(self) -> None:
        """Returns when the spool is closed.

        Raises:
            SpoolFailed: records are written but no longer made durable.
        """
        ended = asyncio.wrap_future(self._syncer.ended)
        await asyncio.wait([ended])  # asyncio.wait does not cancel it: the thread sets it once
        if error := ended.exception():
            raise SpoolFailed("the spool's records are no longer made durable; start the agent again") from error

    def close(self) -> None:
        """Makes all records durable and unlocks the directory. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._wake()
        self._syncer.stop()
        with self._lock:
            self._keeper.flush()
            if not any(segment.left for segment in self._log.segments.values()):
                with contextlib.suppress(OSError):
                    self._log.roll()  # deletes settled records, so the next agent does not resend them
        self._syncer.sync()
        self._outbox.close()
        self._log.close()
        self._home.close()

    def _call_written(self) -> None:
        if not self._once_written:
            return
        with self._lock:
            waiting, asked = self._keeper.overflow.runs(), self._once_written
            self._once_written = [one for one in asked if one[0] in waiting]
        for run_id, call in asked:
            if run_id not in waiting:
                call()

    def _check_open(self) -> None:
        if self._closed:
            raise SpoolClosed("the spool is closed")

    def _wake(self) -> None:
        if self._waiting is not None:
            (loop, filled), self._waiting = self._waiting, None
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(filled.set)

    def _to_sync(self) -> list[int]:
        with self._lock:
            restored = self._keeper.restore()
            if restored:
                self._outbox.close()
            if restored or self._keeper.overflow:
                self._keeper.flush()
                self._wake()
            to_sync = self._log.to_sync()
        self._call_written()
        return to_sync
