"""Drains a running probe into the spool, in the run's own thread."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

import pyarrow as pa

from scope_agentd.pipeline.batch import Batcher
from scope_agentd.pipeline.books import BATCH, Books
from scope_bpf.capture.batch import Batch
from scope_bpf.capture.tracer import Tracer
from scope_bpf.errors import ScopeBpfError
from scope_proto.scope.v1 import record_pb2

log = logging.getLogger(__name__)

POLL_MS = 250
ACCOUNTS_EVERY_S = 1.0


class Recorder:
    """Polls a started tracer and puts records into `put`. For one thread."""

    def __init__(
        self,
        tracer: Tracer,
        batcher: Batcher,
        books: Books,
        put: Callable[[record_pb2.Record], None],
        alive: Callable[[], None],
    ) -> None:
        self._tracer, self._batcher, self._books, self._put, self._alive = tracer, batcher, books, put, alive
        self._accounts_due = 0.0

    def record(self, stopping: threading.Event) -> None:
        """Records until `stopping` is set, including all events emitted until then.

        Raises:
            ScopeBpfError: the tracer failed; the events that it still had are lost, and `Books.close` counts them.
        """
        while not stopping.is_set():
            self._pass_on(self._tracer.poll(POLL_MS))
            self._tell_accounts()
        self._pass_on(self._tracer.finish())

    def _pass_on(self, batches: Sequence[Batch]) -> None:
        if batches:
            self._books.set_kernel(self._tracer.accounts())
        for raw in batches:
            done = self._accounted(raw.stream.name)
            try:
                for record in self._batcher.build(raw):
                    self._put(record)
            except (ScopeBpfError, pa.ArrowException) as error:
                rest = raw.count - (self._accounted(raw.stream.name) - done)
                self._books.lose(raw.stream.name, BATCH, "unreadable", rest)
                log.error("rows cannot be read", extra={"stream": raw.stream.name, "reason": str(error)})

    def _accounted(self, stream: str) -> int:
        """Rows of a stream that got a sequence number, or were counted as left out or lost while batching."""
        account = self._books.account(stream)
        lost = (loss.count for loss in account.lost if loss.place == BATCH)
        return self._books.sequenced()[stream] + account.left_out + sum(lost)

    def _tell_accounts(self) -> None:
        if time.monotonic() < self._accounts_due:
            return
        self._accounts_due = time.monotonic() + ACCOUNTS_EVERY_S
        self._alive()
        self._books.set_kernel(self._tracer.accounts())
        if changed := self._batcher.changed_accounts():
            self._put(changed)
