"""One thread a running task: polls the tracer, builds batches, queues them."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

import pyarrow as pa

from scope_agentd.pipeline.batch import Batcher
from scope_agentd.pipeline.books import BATCH, Books
from scope_agentd.pipeline.queue import Queue
from scope_bpf.columns import Batch
from scope_bpf.errors import ScopeBpfError
from scope_bpf.ring import prefer_this_thread
from scope_bpf.running import RunningProbe

log = logging.getLogger(__name__)

POLL_MS = 250
ACCOUNTS_EVERY_S = 1.0


class Recorder(threading.Thread):
    """Runs a started tracer until `stop`, or until it fails; then empties, closes it and calls `ended`."""

    def __init__(
        self, tracer: RunningProbe, batcher: Batcher, books: Books, queue: Queue, ended: Callable[[str], None]
    ) -> None:
        super().__init__(name=f"record-{tracer.probe.name}", daemon=True)
        self._tracer, self._batcher, self._books, self._queue, self._ended = tracer, batcher, books, queue, ended
        self._streams = [stream.name for stream in tracer.probe.public_streams]
        self._stopping = threading.Event()
        self._accounts_due = 0.0

    def stop(self) -> None:
        """Asks the thread to end; what was recorded until then is still queued."""
        self._stopping.set()
        self._tracer.wake()

    def run(self) -> None:
        """The thread's work."""
        error = ""
        prefer_this_thread()
        try:
            while not self._stopping.is_set():
                self._pass_on(self._tracer.poll(POLL_MS))
                self._tell_accounts()
            self._pass_on(self._tracer.finish())
        except Exception as failed:
            error = str(failed) or type(failed).__name__
            log.exception("a task failed", extra={"probe": self._tracer.probe.name})
        finally:
            self._tracer.close()
            self._accounts_due = 0.0
            self._tell_accounts()
            self._ended(error)

    def _pass_on(self, batches: Sequence[Batch]) -> None:
        if batches:
            self._books.set_kernel(self._tracer.accounts())
        for raw in batches:
            try:
                for batch in self._batcher.build(raw):
                    self._queue.put(batch, self._books)
            except (ScopeBpfError, pa.ArrowException) as error:
                self._books.lose(raw.stream.name, BATCH, "unreadable", raw.count)
                log.error("records cannot be read", extra={"stream": raw.stream.name, "reason": str(error)})

    def _tell_accounts(self) -> None:
        if time.monotonic() < self._accounts_due:
            return
        self._accounts_due = time.monotonic() + ACCOUNTS_EVERY_S
        self._books.set_kernel(self._tracer.accounts())
        for stream in self._streams:
            batch = self._batcher.account_only(stream)
            if batch:
                self._queue.put(batch, self._books)
