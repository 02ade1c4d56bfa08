"""A run: one execution of a task, in a thread of its own that does all that touches the tracer.

The thread starts the tracer, records, and closes it, whatever happens: nobody who gives up waiting, and no stop in the
middle of a start, can free what it uses. Other threads ask for a stop, and read the books and the cost.
"""

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scope_agentd.definition import Definition
from scope_agentd.pins import Pins
from scope_agentd.pipeline.books import Books
from scope_agentd.pipeline.spool import Spool
from scope_agentd.run_id import new_run_id
from scope_agentd.totals import Totals
from scope_bpf.binding.statistics import Cost
from scope_proto.scope.v1 import control_pb2, record_pb2, task_pb2

if TYPE_CHECKING:  # an idle agent does without numpy and Arrow
    from scope_agentd.pipeline.batch import Batcher
    from scope_bpf.capture.tracer import Tracer

log = logging.getLogger(__name__)

ENDED = (task_pb2.TASK_STATE_STOPPED, task_pb2.TASK_STATE_FAILED)


@dataclass(frozen=True)
class Surroundings:
    """What every run of an agent needs.

    Attributes:
        excluded: lists the processes that are not recorded.
        changed: told, in the event loop, that a run's state has changed.
    """

    spool: Spool
    pins: Pins
    totals: Totals
    excluded: Callable[[], Collection[int]]
    changed: Callable[[], None]


@dataclass
class Progress:
    """What becomes of a run; times are nanoseconds since 1970 UTC, 0 for "not yet".

    Attributes:
        recorded: whether it ever recorded; a start that failed leaves nothing to be told of but its error.
        spooled_bytes: of its records.
        notes: what it may not have seen, as of when it was asked last.
    """

    state: "task_pb2.TaskState.ValueType" = task_pb2.TASK_STATE_STARTING
    end: "task_pb2.TaskEnd.ValueType" = task_pb2.TASK_END_UNSPECIFIED
    error: str = ""
    attach_point: str = ""
    started_ns: int = 0
    ended_ns: int = 0
    recorded: bool = False
    spooled_bytes: int = 0
    notes: list[str] = field(default_factory=list)
    cost: control_pb2.Cost = field(default_factory=control_pb2.Cost)


class Run:
    """Made and started in the event loop.

    Attributes:
        failure: what a start or a recording raised.
        settled: set once it records or has ended.
        over: set once it has ended, and its thread is done with everything.
    """

    def __init__(
        self, task_id: str, definition: Definition, origin: "task_pb2.Origin.ValueType", surroundings: Surroundings
    ) -> None:
        self.run_id = new_run_id()
        self.definition = definition
        self.progress = Progress()
        self.books = Books(stream.name for stream in definition.probe.public_streams)
        self.failure: Exception | None = None
        self.settled, self.over = asyncio.Event(), asyncio.Event()
        self._task_id = uuid.UUID(task_id)
        self._origin, self._surroundings = origin, surroundings
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._tracer: Tracer | None = None
        self._thread = threading.Thread(target=self._run, name=f"record-{definition.probe.name}")

    def start(self) -> None:
        """Lets its thread begin."""
        self._thread.start()
        self._surroundings.totals.begin(self.run_id, self.definition.probe.name, self.books)

    def stop(self, end: "task_pb2.TaskEnd.ValueType") -> None:
        """Asks it to end; what was recorded until then is still spooled. The first reason stays."""
        if self._stopping.is_set() or self.over.is_set():
            return
        self.progress.end = end
        if self.progress.state == task_pb2.TASK_STATE_RUNNING:
            self.progress.state = task_pb2.TASK_STATE_STOPPING
        self._stopping.set()
        if tracer := self._tracer:
            tracer.wake()
        self._surroundings.changed()

    @property
    def _answering(self) -> "Tracer | None":
        """The tracer, but not while it detaches: who asks it then waits for that."""
        return None if self._stopping.is_set() else self._tracer

    def cost(self) -> Cost:
        """What its programs have cost so far, by the kernel's count."""
        tracer = self._answering
        return tracer.cost() if tracer and self.progress.recorded else Cost()

    def notes(self) -> list[str]:
        """What it may not have seen."""
        if tracer := self._answering:
            self.progress.notes = tracer.notes()
        return self.progress.notes

    def latest(self, stream: str) -> list[dict[str, Any]]:
        """The rows of its last look, if it is of samples and records."""
        tracer = self._answering
        seen = tracer.latest if tracer else {}
        return seen[stream].to_pylist() if stream in seen else []

    def _run(self) -> None:
        try:
            self._trace()
        except Exception as error:
            self.failure = error
            log.exception("a run failed", extra={"task": str(self._task_id), "probe": self.definition.probe.name})
        self._loop.call_soon_threadsafe(self._end)

    def _trace(self) -> None:
        from scope_bpf.capture.tracer import Tracer

        definition, pins = self.definition, self._surroundings.pins
        probe = definition.probe
        excluded, books = self._surroundings.excluded, pins.path(self.run_id)
        tracer = Tracer(probe, definition.options, definition.target, excluded, books=books)
        try:
            pins.prepare(self.run_id, self._start_record(), tracer.streams_by_number)
            tracer.start()
            self._tracer = tracer
            if not self._stopping.is_set():
                self._record(tracer)
        finally:
            self._tracer = None
            tracer.close()
            pins.release(self.run_id)

    def _record(self, tracer: "Tracer") -> None:
        from scope_agentd.pipeline.batch import Batcher
        from scope_agentd.pipeline.describe import Describer
        from scope_agentd.pipeline.record import Recorder

        batcher = Batcher(self.run_id, self._task_id.bytes, self.books, Describer())
        self.progress.attach_point = tracer.attach_point
        self.progress.started_ns = time.time_ns()
        self._put(self._start_record())
        try:  # what the spool has the start of gets its end, whatever fails from here on
            self._surroundings.pins.recording(self.run_id)
            self.progress.recorded = True
            self._loop.call_soon_threadsafe(self._recording)
            Recorder(tracer, batcher, self.books, self._put).record(self._stopping)
        except Exception as error:
            self.failure = error
            log.exception("recording failed", extra={"task": str(self._task_id), "probe": self.definition.probe.name})
        finally:
            self._tracer = None
            try:
                tracer.close()
                self.progress.notes = tracer.notes()
                self.books.set_kernel(tracer.accounts())
            finally:  # without its last word they close with what the kernel told before
                self.books.close()
                self._put(self._end_record(batcher))

    def _put(self, record: record_pb2.Record) -> None:
        self.progress.spooled_bytes += record.ByteSize()
        self._surroundings.spool.put(record)

    def _start_record(self) -> record_pb2.Record:
        start = record_pb2.RunStart(
            definition=self.definition.message(), origin=self._origin, attach_point=self.progress.attach_point
        )
        start.started.FromNanoseconds(self.progress.started_ns or time.time_ns())
        return record_pb2.Record(run_id=self.run_id, task_id=self._task_id.bytes, start=start)

    def _end_record(self, batcher: "Batcher") -> record_pb2.Record:
        end = record_pb2.RunEnd(
            end=task_pb2.TASK_END_FAILURE if self.failure else self.progress.end,
            error=_said(self.failure),
            accounts=batcher.accounts(),
            last_sequences=batcher.last_sequences,
        )
        end.ended.GetCurrentTime()
        return batcher.record(end=end)

    def _recording(self) -> None:
        if self.progress.state == task_pb2.TASK_STATE_STARTING:
            stopping = self._stopping.is_set()
            self.progress.state = task_pb2.TASK_STATE_STOPPING if stopping else task_pb2.TASK_STATE_RUNNING
        self.settled.set()
        self._surroundings.changed()
        log.info("a run records", extra={"task": str(self._task_id), "probe": self.definition.probe.name})

    def _end(self) -> None:
        self._thread.join()
        self._surroundings.totals.end(self.run_id)
        progress = self.progress
        progress.state = task_pb2.TASK_STATE_FAILED if self.failure else task_pb2.TASK_STATE_STOPPED
        progress.end = task_pb2.TASK_END_FAILURE if self.failure else progress.end
        progress.error = _said(self.failure)
        progress.ended_ns = time.time_ns()
        self.settled.set()
        self.over.set()
        self._surroundings.changed()
        log.info("a run ended", extra={"task": str(self._task_id), "error": progress.error})


def _said(error: Exception | None) -> str:
    return (str(error) or type(error).__name__) if error else ""
