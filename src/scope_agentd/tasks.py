"""The tasks of this machine: those that the server wants, and those started locally."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from scope_agentd.definition import check_definition
from scope_agentd.errors import TaskConflict, UnknownTask
from scope_agentd.run import Surroundings
from scope_agentd.task import Task
from scope_agentd.wanted import Wanted, WantedFile
from scope_proto.scope.v1 import session_pb2, task_pb2

log = logging.getLogger(__name__)

ENDED_TASKS_KEPT = 100
_KEEP_AGAIN_S = 5.0  # time between tries to write the file of wanted tasks


class Tasks:
    """For the event loop. `pursue` runs for as long as the agent does.

    Args:
        surroundings: makes the objects that every run needs, from a function to call after changes.

    Attributes:
        changes: number of changes of any task.
    """

    def __init__(self, file: WantedFile, surroundings: Callable[[Callable[[], None]], Surroundings]) -> None:
        self._file = file
        self._surroundings = surroundings(self.touch)
        self._changed = asyncio.Event()
        self.changes = 0
        self._group: asyncio.TaskGroup | None = None
        self._keepers: set[asyncio.Task[None]] = set()
        self._ending = False
        self._callers: dict[str, int] = {}  # task -> number of callers that wait for its start; until one got an answer
        self._tasks = {wanted.task_id: self._made(wanted) for wanted in file.read()}

    async def pursue(self) -> None:
        """Keeps every wanted task running, until cancelled.

        Raises:
            ExceptionGroup: the code that runs a task failed unexpectedly.
        """
        async with asyncio.TaskGroup() as group:
            self._group = group
            for task in self._tasks.values():
                self._pursue(task)
            while True:
                await asyncio.sleep(_KEEP_AGAIN_S)
                if self._file.behind:
                    self._keep()

    @property
    def wanted_number(self) -> int:
        """Number of the last Wanted message, from the server of this agent or an earlier one; 0: none."""
        return self._file.number

    def all(self) -> list[Task]:
        """All tasks, including ended ones, oldest first."""
        return list(self._tasks.values())

    def recording(self) -> list[Task]:
        """The tasks that record."""
        return [task for task in self.all() if task.records]

    def get(self, task_id: str) -> Task:
        """The task with this id.

        Raises:
            UnknownTask: there is none.
        """
        if task_id not in self._tasks:
            raise UnknownTask(f"there is no task '{task_id}' on this machine; ListTasks lists all tasks")
        return self._tasks[task_id]

    def take_wish(self, wish: session_pb2.Wanted) -> None:
        """Starts and stops the server's tasks as the server wants; local tasks stay."""
        if self._ending:
            return
        wanted = {one.task_id: one for one in wish.tasks}
        for task_id, task in self._tasks.items():
            if task.wanted.origin == task_pb2.ORIGIN_SERVER and task_id not in wanted:
                task.release(task_pb2.TASK_END_REQUEST)
        for task_id, one in wanted.items():
            known = self._tasks.get(task_id)
            if known is None or (known.over.is_set() and known.unwanted == task_pb2.TASK_END_REQUEST):
                deadline_ns = one.deadline.ToNanoseconds() if one.HasField("deadline") else 0
                self._add(Wanted(task_id, task_pb2.ORIGIN_SERVER, one.definition, deadline_ns))
        self._file.number = wish.number
        self._keep()
        self.touch()

    @asynccontextmanager
    async def start_own(
        self, definition: task_pb2.Definition, task_id: str = "", started_by: str = ""
    ) -> AsyncIterator[Task]:
        """Starts a local task for a person. The block runs when the task records, and sends the answer to the caller.

        If a task with this id and definition exists, it is used. If all callers that wait for a task's start are
        cancelled, or their blocks fail, the start is undone: nobody would know of the task.

        Raises:
            InvalidDefinition, TaskConflict: the task is not possible; nothing has changed.
            AgentError, ScopeBpfError: the start failed; the task is no longer wanted.
        """
        checked = await asyncio.to_thread(check_definition, definition)
        task_id = task_id or str(uuid.uuid4())
        task = await self._known(task_id)
        if task is None:
            self._check_it_goes_on()
            self._callers[task_id] = 0
            task = self._add(Wanted(task_id, task_pb2.ORIGIN_AGENT, definition, started_by=started_by))
            task.definition = checked
        elif task.wanted.origin != task_pb2.ORIGIN_AGENT or task.wanted.definition != definition:
            raise TaskConflict(f"task '{task_id}' exists with another definition; choose another id")
        if task_id not in self._callers:  # another caller already got an answer
            yield task
            return
        self._callers[task_id] += 1
        try:
            await task.tried.wait()
            if task.failure:
                raise task.failure
            self._check_it_goes_on()
            self._keep()
            yield task
        except BaseException:
            self._give_up(task)
            raise
        self._callers.pop(task_id, None)

    async def stop_own(self, task_id: str, stopped_by: str = "") -> Task:
        """Stops a local task for a person, and returns when it has ended; a task that had ended is returned unchanged.

        Raises:
            UnknownTask: there is none.
            TaskConflict: the task belongs to the server.
        """
        task = self.get(task_id)
        if task.wanted.origin == task_pb2.ORIGIN_SERVER and not task.over.is_set():
            raise TaskConflict(f"task '{task_id}' belongs to the server; stop it there, with `scope stop`")
        task.release(task_pb2.TASK_END_REQUEST, stopped_by)
        self._keep()
        await task.over.wait()
        return task

    async def stop_all(self) -> None:
        """Ends every run because the agent ends; the tasks stay wanted."""
        self._ending = True
        for task in self.all():
            task.release(task_pb2.TASK_END_SHUTDOWN)
        if self._keepers:
            await asyncio.wait(self._keepers)
        # If another failure has cancelled a task's coroutine, its run's thread continues until it is told to stop.
        runs = [task.run for task in self.all() if task.run]
        await asyncio.gather(*(run.over.wait() for run in runs))

    async def wait_for_change(self, seen: int, most_s: float) -> None:
        """Returns when `changes` is greater than `seen`, or when the time is over."""
        if self.changes == seen:
            with suppress(TimeoutError):
                async with asyncio.timeout(most_s):
                    await self._changed.wait()

    def _made(self, wanted: Wanted) -> Task:
        return Task(wanted, self._surroundings, self._keep)

    def _add(self, wanted: Wanted) -> Task:
        task = self._tasks[wanted.task_id] = self._made(wanted)
        self._pursue(task)
        self._forget_old()
        return task

    def _pursue(self, task: Task) -> None:
        if self._group:  # otherwise when `pursue` starts
            keeper = self._group.create_task(task.pursue())
            self._keepers.add(keeper)
            keeper.add_done_callback(self._keepers.discard)

    def _check_it_goes_on(self) -> None:
        if self._ending:
            raise TaskConflict("the agent is ending; start the task when it runs again")

    async def _known(self, task_id: str) -> Task | None:
        """The task with this id, unless it has ended. If it is no longer wanted, waits for its end."""
        while (task := self._tasks.get(task_id)) and not task.over.is_set():
            if not task.unwanted:
                return task
            await task.over.wait()
        return None

    def _give_up(self, task: Task) -> None:
        """Notes that a caller that waited for the start gets no answer."""
        task_id = task.wanted.task_id
        if task_id not in self._callers:  # another caller got an answer
            return
        self._callers[task_id] -= 1
        if task.failure or not self._callers[task_id]:
            del self._callers[task_id]
            task.release(task_pb2.TASK_END_FAILURE if task.failure else task_pb2.TASK_END_REQUEST)
            self._keep()

    def _keep(self) -> None:
        """Writes the file of wanted tasks. A task with waiting callers is written only when it can be answered."""
        if not self._ending:
            kept = (task for task in self.all() if task.tried.is_set() or task.wanted.task_id not in self._callers)
            self._file.write(task.wanted for task in kept if not task.unwanted)

    def touch(self) -> None:
        """Ends every `wait_for_change`."""
        self.changes += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _forget_old(self) -> None:
        over = [task_id for task_id, task in self._tasks.items() if task.over.is_set()]
        for task_id in over[: max(0, len(over) - ENDED_TASKS_KEPT)]:
            del self._tasks[task_id]
