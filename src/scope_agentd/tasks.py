"""Tasks: probes that run, with their state, their lease and their books."""

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scope_agentd.errors import TaskConflict, UnknownTask
from scope_agentd.pipeline.books import Books
from scope_agentd.pipeline.queue import Queue
from scope_agentd.used_ids import UsedIds
from scope_bpf.statistics import Cost

if TYPE_CHECKING:  # an idle agent does without numpy and Arrow
    from scope_agentd.pipeline.record import Recorder
    from scope_bpf.catalogue import Probe
    from scope_bpf.running import RunningProbe
    from scope_bpf.targets import Target

log = logging.getLogger(__name__)

ENDED_TASKS_KEPT = 100


class State(StrEnum):
    """Where a task is in its life."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Whether nothing will come of it any more."""
        return self in (State.STOPPED, State.FAILED)


class End(StrEnum):
    """Why a task ended."""

    UNSPECIFIED = "unspecified"
    REQUEST = "request"
    LEASE = "lease"
    FAILURE = "failure"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True)
class Definition:
    """What a task is to do; `options` are complete and checked, `duration_s` is None for "until stopped"."""

    probe: "Probe"
    target: "Target"
    options: Mapping[str, Any]
    duration_s: float | None = None


def define(probe: str, target: "Target", options: Mapping[str, Any], duration_s: float | None = None) -> Definition:
    """Checks a definition as far as that needs no privileges.

    Raises:
        UnknownProbe, InvalidOption: the catalogue has no such thing.
        TargetNotFound: nobody is there to be watched.
    """
    from scope_bpf.catalogue import probe_named
    from scope_bpf.options import parse_options

    found = probe_named(probe)
    target.conditions()
    return Definition(found, target, parse_options(found.options, options), duration_s)


@dataclass(frozen=True)
class MeasuredCost:
    """What a task's programs cost over the last sample: a share of one CPU (0.01 is 1 %), ns a run, runs a second."""

    cpu_share: float = 0.0
    ns_per_run: float = 0.0
    runs_per_second: float = 0.0


@dataclass
class Task:
    """One task; times are nanoseconds since 1970 UTC, 0 for "not yet"."""

    task_id: str
    definition: Definition
    books: Books = field(default_factory=Books)
    state: State = State.PENDING
    end: End = End.UNSPECIFIED
    error: str = ""
    attach_point: str = ""
    started_ns: int = 0
    ended_ns: int = 0
    cost: MeasuredCost = MeasuredCost()
    tracer: "RunningProbe | None" = None
    recorder: "Recorder | None" = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def latest(self, stream: str) -> list[dict[str, Any]]:
        """The rows of its last look, if it is of samples and runs."""
        from scope_bpf.sampled import SampledTracer

        tracer = self.tracer  # asked from another thread than the one that ends it
        seen = tracer.latest if isinstance(tracer, SampledTracer) else {}
        return seen[stream].to_pylist() if stream in seen else []

    def programs_cost(self) -> Cost:
        """What its programs have cost, by the kernel's count."""
        tracer = self.tracer
        return tracer.cost() if tracer and self.state is State.RUNNING else Cost()


class Tasks:
    """The tasks of this machine. For the event loop; the work is done in each task's own thread."""

    def __init__(self, machine_id: str, queue: Queue, excluded_pids: tuple[int, ...], used_ids: UsedIds) -> None:
        self._machine_id, self._queue, self._excluded_pids = machine_id, queue, excluded_pids
        self._used_ids = used_ids
        self._tasks: dict[str, Task] = {}
        self._leases: dict[str, asyncio.TimerHandle] = {}

    def all(self) -> list[Task]:
        """Every task, ended ones among them, oldest first."""
        return list(self._tasks.values())

    def running(self) -> list[Task]:
        """The tasks that record."""
        return [task for task in self.all() if task.state is State.RUNNING]

    def get(self, task_id: str) -> Task:
        """The task of this id.

        Raises:
            UnknownTask: there is none.
        """
        if task_id not in self._tasks:
            raise UnknownTask(f"there is no task '{task_id}' on this machine; ListTasks has those there are")
        return self._tasks[task_id]

    async def start(self, definition: Definition, task_id: str = "") -> Task:
        """Starts a task and returns when it records; with the id and definition of one that is there, returns that.

        Raises:
            TaskConflict: a task of this id does something else, or did so before the agent was started.
            ScopeBpfError: the probe cannot run; the task is kept as failed.
        """
        from scope_bpf.running import run_probe

        task_id = task_id or str(uuid.uuid4())
        known = self._tasks.get(task_id)
        if known:
            if known.definition != definition:
                raise TaskConflict(f"task '{task_id}' exists and is defined otherwise; choose another id")
            return known
        self._used_ids.add(task_id)
        task = self._tasks[task_id] = Task(task_id, definition)
        self._forget_old()
        task.state = State.STARTING
        task.tracer = run_probe(definition.probe, definition.options, definition.target, self._own_processes)
        try:
            await asyncio.to_thread(task.tracer.start)
        except BaseException as error:
            task.tracer.close()
            self._end(task, str(error) or type(error).__name__)
            raise
        self._record(task)
        return task

    def _own_processes(self) -> set[int]:
        return {pid for root in (os.getpid(), *self._excluded_pids) for pid in _family(root)}

    def _record(self, task: Task) -> None:
        from scope_agentd.pipeline.batch import Batcher
        from scope_agentd.pipeline.record import Recorder

        assert task.tracer
        loop = asyncio.get_running_loop()
        batcher = Batcher(self._machine_id, task.task_id, task.books)

        def ended(error: str) -> None:
            loop.call_soon_threadsafe(self._end, task, error)

        task.recorder = Recorder(task.tracer, batcher, task.books, self._queue, ended)
        task.attach_point = task.tracer.attach_point
        task.started_ns = time.time_ns()
        task.state = State.RUNNING
        task.recorder.start()
        if task.definition.duration_s is not None:
            self._leases[task.task_id] = loop.call_later(task.definition.duration_s, self._ask_to_stop, task, End.LEASE)
        log.info("task runs", extra={"task": task.task_id, "probe": task.definition.probe.name})

    async def stop(self, task_id: str, end: End = End.REQUEST) -> Task:
        """Stops a task and returns when it has; one that has ended already is returned as it is.

        Raises:
            UnknownTask: there is none.
        """
        task = self.get(task_id)
        self._ask_to_stop(task, end)
        await task.over.wait()
        return task

    async def stop_all(self) -> None:
        """Stops every task, since the agent ends."""
        await asyncio.gather(*(self.stop(task.task_id, End.SHUTDOWN) for task in self.all() if not task.state.ended))

    def _ask_to_stop(self, task: Task, end: End) -> None:
        if task.state is State.RUNNING and task.recorder:
            task.state = State.STOPPING
            task.end = end
            task.recorder.stop()

    def _end(self, task: Task, error: str) -> None:
        lease = self._leases.pop(task.task_id, None)
        if lease:
            lease.cancel()
        task.state = State.FAILED if error else State.STOPPED
        task.end = End.FAILURE if error else task.end
        task.error = error
        task.ended_ns = time.time_ns()
        task.tracer = task.recorder = None
        task.over.set()
        log.info("task ended", extra={"task": task.task_id, "error": error})

    def _forget_old(self) -> None:
        ended = [task.task_id for task in self._tasks.values() if task.state.ended]
        for task_id in ended[: max(0, len(ended) - ENDED_TASKS_KEPT)]:
            del self._tasks[task_id]


def _family(root: int) -> set[int]:
    """A process and all that descend from it now; what they start later, the kernel leaves out by itself."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue  # it ended meanwhile
            children.setdefault(parent, []).append(int(folder.name))
    family, waiting = set(), [root]
    while waiting:
        pid = waiting.pop()
        family.add(pid)
        waiting += children.get(pid, [])
    return family
