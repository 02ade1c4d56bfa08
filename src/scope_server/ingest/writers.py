"""The threads that decode and write what the queue holds."""

import asyncio
import logging
import threading
import time
from collections.abc import Mapping, Sequence

from scope_server.errors import StoreUnavailable
from scope_server.ingest.admit import admit
from scope_server.ingest.queue import BatchQueue, Pending
from scope_server.store.columns import StreamTable
from scope_server.store.delivery import Outcome, Verdict
from scope_server.store.writer import Writer

_PAUSE_S = 0.25  # between attempts to reach a database that is gone
_log = logging.getLogger(__name__)


class Writers:
    """So many threads, each with a `Writer`; what waits while they write becomes the next group.

    Args:
        count: of threads.
    """

    def __init__(self, queue: BatchQueue, conninfo: str, tables: Mapping[str, StreamTable], count: int) -> None:
        self._queue = queue
        self._tables = tables
        self._stopping = threading.Event()
        self._writers = [Writer(conninfo, tables) for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._run, args=[writer], name=f"scope-writer-{index}", daemon=True)
            for index, writer in enumerate(self._writers)
        ]
        for thread in self._threads:
            thread.start()

    async def check(self, timeout_s: float) -> str:
        """Has a writer ask the database; returns what is wrong, or nothing."""
        dead = [thread.name for thread in self._threads if not thread.is_alive()]
        if dead:
            return f"{', '.join(dead)} ended"
        try:
            outcome = await asyncio.wait_for(self._queue.ask(), timeout_s)
        except TimeoutError:
            return f"no writer answered within {timeout_s} s; {self._queue.held_bytes} bytes wait"
        return outcome.reason if outcome.verdict is Verdict.RETRY else ""

    async def stop(self, deadline_s: float) -> None:
        """Writes what waits, and what is left after the deadline not: the agents will send it again."""
        self._queue.close()
        end = time.monotonic() + deadline_s
        await asyncio.to_thread(self._join, end)
        left = self._queue.abandon()
        if any(thread.is_alive() for thread in self._threads):
            self._stopping.set()
            for writer in self._writers:
                writer.cancel()
            await asyncio.to_thread(self._join, time.monotonic() + 2)
        if left:
            events = sum(pending.batch.event_count for pending in left if pending.batch)
            _log.warning(
                "stopped with batches not written; their agents keep them",
                extra={"batches": len(left), "events": events},
            )
            self._queue.answer(left, [Outcome(Verdict.RETRY, "the server stops")] * len(left))

    def _join(self, end: float) -> None:
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _run(self, writer: Writer) -> None:
        try:
            while group := self._queue.take():
                began = time.perf_counter()
                outcomes = self._write(writer, group)
                self._queue.answer(group, outcomes)
                _log.debug(
                    "group written", extra={"batches": len(group), "ms": round(1e3 * (time.perf_counter() - began), 1)}
                )
                if any(outcome.verdict is Verdict.RETRY for outcome in outcomes):
                    self._stopping.wait(_PAUSE_S)
        finally:
            writer.close()

    def _write(self, writer: Writer, group: Sequence[Pending]) -> list[Outcome]:
        batches = [(pending, pending.batch) for pending in group if pending.batch]
        try:
            if len(batches) < len(group):
                writer.check()
            admitted = [admit(batch, pending.machine, pending.task_id, self._tables) for pending, batch in batches]
            written = iter(writer.write(admitted))
        except StoreUnavailable as error:
            _log.warning("the database cannot be written to", extra={"reason": str(error), "batches": len(batches)})
            return [Outcome(Verdict.RETRY, str(error))] * len(group)
        except Exception as error:  # a fault of ours must not lose what the agents still have
            _log.exception("writing failed", extra={"batches": len(batches)})
            writer.close()
            return [Outcome(Verdict.RETRY, f"the server failed: {error}")] * len(group)
        return [next(written) if pending.batch else Outcome(Verdict.STORED) for pending in group]
