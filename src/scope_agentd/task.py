"""One task: starts a new run when a run fails, as long as the task is wanted."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from scope_agentd.definition import Definition, check_definition
from scope_agentd.errors import AgentError
from scope_agentd.run import Run, Surroundings
from scope_agentd.wanted import Wanted
from scope_bpf.code.proc import stat_of
from scope_bpf.errors import ScopeBpfError, TargetNotFound
from scope_proto.scope.v1 import task_pb2

log = logging.getLogger(__name__)

FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 300.0
_RAN_WELL_S = 60.0  # after a run that lasted this long, the pauses start again with the shortest
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Task:
    """A task and its latest run. For the event loop.

    Attributes:
        unwanted: why the task is no longer wanted; UNSPECIFIED while it is wanted.
        stopped_by: the person who stopped it; empty: nobody did.
        definition: the definition as checked at the latest try; None if no check has succeeded.
        error: why the latest start or run failed; empty while the task runs.
        next_try_ns: time of the next try, since 1970 UTC; 0: none is due.
        tried: set once the first start has succeeded or failed.
        over: set once the task has ended for good.
    """

    def __init__(self, wanted: Wanted, surroundings: Surroundings, keep: Callable[[], None]) -> None:
        self.wanted = wanted
        self.unwanted: task_pb2.TaskEnd.ValueType = task_pb2.TASK_END_UNSPECIFIED
        self.stopped_by = ""
        self.definition: Definition | None = None
        self.run: Run | None = None
        self.failure: Exception | None = None
        self.next_try_ns = 0
        self.tried, self.over = asyncio.Event(), asyncio.Event()
        self._surroundings, self._keep = surroundings, keep
        self._released = asyncio.Event()  # set when the task is no longer wanted; ends a pause

    @property
    def error(self) -> str:
        """Why the latest try failed; empty if it did not fail."""
        return (str(self.failure) or type(self.failure).__name__) if self.failure else ""

    @property
    def records(self) -> bool:
        """Whether a run of the task records now."""
        return self.run is not None and self.run.progress.state == task_pb2.TASK_STATE_RUNNING

    @property
    def state(self) -> "task_pb2.TaskState.ValueType":
        """State of the latest run if it recorded, or else of the task, which then starts, has failed or has ended."""
        if self.run and self.run.progress.recorded:
            return self.run.progress.state
        if self.failure:
            return task_pb2.TASK_STATE_FAILED
        return task_pb2.TASK_STATE_STOPPED if self.over.is_set() else task_pb2.TASK_STATE_STARTING

    def release(self, end: "task_pb2.TaskEnd.ValueType", stopped_by: str = "") -> None:
        """Marks the task as no longer wanted; only the first reason is kept, with the person who asked for it."""
        if self.unwanted == task_pb2.TASK_END_UNSPECIFIED:
            self.unwanted, self.stopped_by = end, stopped_by
        self._released.set()
        if self.run:
            self.run.stop(self.unwanted, self.stopped_by)

    async def pursue(self) -> None:
        """Runs the task, after failures again with growing pauses, until it is released or its duration is over."""
        pause_s = FIRST_PAUSE_S
        while not self._released.is_set():
            began = time.monotonic()
            await self._try()
            if self._released.is_set() or (self.run and self.run.progress.end == task_pb2.TASK_END_LEASE):
                break
            if time.monotonic() - began > _RAN_WELL_S:
                pause_s = FIRST_PAUSE_S
            await self._pause(pause_s * random.uniform(0.8, 1.2))
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
        self.next_try_ns = 0
        if self.unwanted == task_pb2.TASK_END_UNSPECIFIED:
            self.unwanted = task_pb2.TASK_END_LEASE
        self._keep()
        self.over.set()
        self._surroundings.changed()

    async def _try(self) -> None:
        """One run, from its start to its end, or the failure to start one."""
        self.next_try_ns = 0
        if self._left_s() <= 0:
            self.release(task_pb2.TASK_END_LEASE)
            self.tried.set()
            return
        try:
            async with self._surroundings.starts.turn(self._released):
                run = await self._start()
        except Exception as error:  # any error may be temporary, such as too few descriptors
            self._failed(error)
            return
        if run is None:
            self.tried.set()
            return
        if run.progress.recorded:
            self.failure = None
            self._set_deadline()
            self.tried.set()
            await self._end_of_run(run)
        else:
            await run.over.wait()
        if run.failure:
            self._failed(run.failure)
        self.tried.set()

    async def _start(self) -> Run | None:
        """A run that records or has ended; None: the task was released before its turn."""
        if self._released.is_set():
            return None
        self.definition = await asyncio.to_thread(check_definition, self.wanted.definition)
        self._check_target_is_the_same()
        run = Run(self.wanted, self.definition, self._surroundings)
        run.start()
        self.run = run
        if self._released.is_set():  # released while the definition was checked
            run.stop(self.unwanted, self.stopped_by)
        await run.settled.wait()
        return run

    async def _end_of_run(self, run: Run) -> None:
        left_s = self._left_s()
        with suppress(TimeoutError):
            async with asyncio.timeout(None if left_s == float("inf") else left_s):
                await run.over.wait()
        if not run.over.is_set():
            run.stop(task_pb2.TASK_END_LEASE)
            await run.over.wait()

    def _failed(self, error: Exception) -> None:
        self.failure = error
        self.tried.set()
        expected = isinstance(error, AgentError | ScopeBpfError)
        about = {"task": self.wanted.task_id, "reason": self.error}
        log.warning("a task cannot run", extra=about, exc_info=None if expected else error)
        self._surroundings.changed()

    async def _pause(self, seconds: float) -> None:
        seconds = min(seconds, self._left_s())
        self.next_try_ns = time.time_ns() + int(1e9 * seconds)
        self._surroundings.changed()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._released.wait()

    def _left_s(self) -> float:
        if not self.wanted.deadline_ns:
            return float("inf")
        return max(0.0, (self.wanted.deadline_ns - time.time_ns()) / 1e9)

    def _set_deadline(self) -> None:
        assert self.definition
        if self.definition.duration_s is not None and not self.wanted.deadline_ns:
            self.wanted.deadline_ns = time.time_ns() + int(1e9 * self.definition.duration_s)
            self._keep()
            self._surroundings.changed()

    def _check_target_is_the_same(self) -> None:
        """The target pid means the process that had this pid at the task's first try."""
        pid = self.wanted.definition.target.pid
        if not pid:
            return
        boot = _BOOT_ID.read_text().strip()
        try:
            start = stat_of(pid).start_ticks
        except OSError:
            raise TargetNotFound(f"process {pid} has ended") from None
        if not self.wanted.target_start:
            self.wanted.target_start, self.wanted.boot = start, boot
            self._keep()
        elif (self.wanted.target_start, self.wanted.boot) != (start, boot):
            raise TargetNotFound(f"process {pid} has ended; another process has its pid now")
