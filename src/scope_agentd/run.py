"""A run: one execution of a task. It has its own thread, which does all work with the tracer.

The thread starts the tracer, records, and always closes the tracer itself. So nothing that it uses is freed if a caller
gives up waiting or stops the run during its start. Other threads only request a stop, and read the counts and the cost.
"""

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from scope_agentd.bus.bus import Bus
from scope_agentd.definition import Definition
from scope_agentd.memory import TaskMemory
from scope_agentd.pins import Pins
from scope_agentd.pipeline.books import Books
from scope_agentd.pipeline.descriptions import Descriptions
from scope_agentd.pipeline.spool import Spool
from scope_agentd.run_id import new_run_id
from scope_agentd.starts import Starts
from scope_agentd.totals import Totals
from scope_agentd.wanted import Wanted
from scope_bpf.binding.statistics import Cost
from scope_proto.scope.v1 import control_pb2, record_pb2, task_pb2

if TYPE_CHECKING:  # an idle agent must not load numpy and Arrow
    from scope_agentd.pipeline.batch import Batcher
    from scope_bpf.capture.tracer import Tracer

log = logging.getLogger(__name__)

ENDED = (task_pb2.TASK_STATE_STOPPED, task_pb2.TASK_STATE_FAILED)


@dataclass(frozen=True)
class Surroundings:
    """Objects that every run of an agent needs.

    Attributes:
        excluded: returns the processes that are not recorded.
        changed: called in the event loop when a run's state has changed.
    """

    spool: Spool
    descriptions: Descriptions
    bus: Bus
    pins: Pins
    totals: Totals
    starts: Starts
    memory: TaskMemory
    excluded: Callable[[], Collection[int]]
    changed: Callable[[], None]


@dataclass
class Progress:
    """The progress of a run; times are nanoseconds since 1970 UTC, 0: not yet.

    Attributes:
        stopped_by: the person who stopped it; empty: nobody did.
        recorded: whether the run ever recorded; a failed start leaves only its error.
        spooled_bytes: size of its records.
        notes: events that may be missing, as last read.
    """

    state: "task_pb2.TaskState.ValueType" = task_pb2.TASK_STATE_STARTING
    end: "task_pb2.TaskEnd.ValueType" = task_pb2.TASK_END_UNSPECIFIED
    stopped_by: str = ""
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
        failure: the exception raised by the start or the recording.
        settled: set when the run records or has ended.
        over: set when the run has ended and its thread has finished.
    """

    def __init__(self, wanted: Wanted, definition: Definition, surroundings: Surroundings) -> None:
        self.run_id = new_run_id()
        self.definition = definition
        self.progress = Progress()
        self.books = Books(stream.name for stream in definition.probe.public_streams)
        self.failure: Exception | None = None
        self.settled, self.over = asyncio.Event(), asyncio.Event()
        self._task_id = uuid.UUID(wanted.task_id)
        self._wanted, self._surroundings = wanted, surroundings
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._tracer: Tracer | None = None
        self._thread = threading.Thread(target=self._run, name=f"record-{definition.probe.name}")

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()
        self._surroundings.totals.begin(self.run_id, self.definition.probe.name, self.books)

    def stop(self, end: "task_pb2.TaskEnd.ValueType", stopped_by: str = "") -> None:
        """Requests the end; everything recorded until then is still spooled. Only the first reason is kept."""
        if self._stopping.is_set() or self.over.is_set():
            return
        self.progress.end, self.progress.stopped_by = end, stopped_by
        if self.progress.state == task_pb2.TASK_STATE_RUNNING:
            self.progress.state = task_pb2.TASK_STATE_STOPPING
        self._stopping.set()
        if tracer := self._tracer:
            tracer.hurry()
        self._surroundings.changed()

    @property
    def _answering(self) -> "Tracer | None":
        """The tracer; None while it detaches, because its methods would block until that is done."""
        return None if self._stopping.is_set() else self._tracer

    def cost(self) -> Cost:
        """The CPU cost of the run's programs so far, from the kernel's statistics."""
        tracer = self._answering
        return tracer.cost() if tracer and self.progress.recorded else Cost()

    def notes(self) -> list[str]:
        """Events that may be missing, in words."""
        if tracer := self._answering:
            self.progress.notes = tracer.notes()
        return self.progress.notes

    def latest(self, stream: str) -> list[dict[str, Any]]:
        """The rows of the last sample, if the run samples and records."""
        tracer = self._answering
        seen = tracer.latest if tracer else {}
        return seen[stream].to_pylist() if stream in seen else []

    def _run(self) -> None:
        try:
            self._trace()
        except Exception as error:  # the task logs it
            self.failure = error
        self._loop.call_soon_threadsafe(self._end)

    def _trace(self) -> None:
        from scope_bpf.capture.memberships import of_machine
        from scope_bpf.capture.tracer import Tracer

        definition, pins = self.definition, self._surroundings.pins
        probe = definition.probe
        excluded, books = self._surroundings.excluded, pins.path(self.run_id)
        tracer = Tracer(probe, definition.narrowed, definition.target, excluded, books=books)
        try:
            pins.prepare(self.run_id, self._start_record(), tracer.streams_by_number)
            with of_machine().watch:
                tracer.start()
                self._surroundings.memory.take(self.run_id, tracer.memory_bytes())
                self._tracer = tracer
                if not self._stopping.is_set():
                    self._record(tracer)
        finally:
            self._tracer = None
            tracer.close()
            self._surroundings.memory.give_back(self.run_id)
            self._surroundings.spool.once_written(self.run_id, partial(pins.release, self.run_id))

    def _record(self, tracer: "Tracer") -> None:
        from scope_agentd.pipeline.batch import Batcher
        from scope_agentd.pipeline.describe import Describer
        from scope_agentd.pipeline.record import Recorder
        from scope_bpf.capture.memberships import of_machine

        describer = Describer(of_machine())
        batcher = Batcher(self.run_id, self._task_id.bytes, self.books, describer, self.definition.choice)
        pins, spool = self._surroundings.pins, self._surroundings.spool
        self.progress.attach_point = tracer.attach_point
        self.progress.started_ns = time.time_ns()
        self._describe_streams()
        self._put(self._start_record())
        try:  # the start is spooled: the end must be spooled too, whatever fails from here on
            spool.once_written(self.run_id, partial(pins.recording, self.run_id))
            self.progress.recorded = True
            self._loop.call_soon_threadsafe(self._recording)
            Recorder(tracer, batcher, self.books, self._put, partial(pins.alive, self.run_id)).record(self._stopping)
        except Exception as error:
            self.failure = error
            log.exception("recording failed", extra={"task": str(self._task_id), "probe": self.definition.probe.name})
        finally:
            self._tracer = None
            try:
                tracer.close()
                self.progress.notes = tracer.notes()
                self.books.set_kernel(tracer.accounts())
            finally:  # without the tracer's last counts, the books close with the kernel's counts read before
                self.books.close()
                self._put(self._end_record(batcher))

    def _describe_streams(self) -> None:
        from scope_bpf.catalogue.described import described
        from scope_catalogue.description import written

        for stream in described(self.definition.probe).streams:
            self._surroundings.descriptions.keep(stream.name, stream.fingerprint, written(stream))

    def _put(self, record: record_pb2.Record) -> None:
        self.progress.spooled_bytes += record.ByteSize()
        self._surroundings.spool.put(record)
        self._surroundings.bus.put(record)

    def _start_record(self) -> record_pb2.Record:
        start = record_pb2.RunStart(
            definition=self.definition.message(),
            origin=self._wanted.origin,
            attach_point=self.progress.attach_point,
            started_by=self._wanted.started_by,
        )
        start.started.FromNanoseconds(self.progress.started_ns or time.time_ns())
        return record_pb2.Record(run_id=self.run_id, task_id=self._task_id.bytes, start=start)

    def _end_record(self, batcher: "Batcher") -> record_pb2.Record:
        end = record_pb2.RunEnd(
            end=task_pb2.TASK_END_FAILURE if self.failure else self.progress.end,
            error=_said(self.failure),
            accounts=batcher.accounts(),
            last_sequences=batcher.last_sequences,
            stopped_by=self.progress.stopped_by,
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
