"""The tasks of this machine: what its server wants of it, and what was started on it."""

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
_KEEP_AGAIN_S = 5.0  # what is wanted, while it could not be written down


class Tasks:
    """For the event loop. `pursue` runs for as long as the agent does.

    Args:
        surroundings: given what to call when something has changed, what every run needs.

    Attributes:
        wanted_number: of the wish that was taken last.
        changes: how often any task has changed.
    """

    def __init__(self, file: WantedFile, surroundings: Callable[[Callable[[], None]], Surroundings]) -> None:
        self._file = file
        self._surroundings = surroundings(self._touch)
        self._changed = asyncio.Event()
        self.changes = 0
        self._group: asyncio.TaskGroup | None = None
        self._keepers: set[asyncio.Task[None]] = set()
        self._ending = False
        self._callers: dict[str, int] = {}  # task -> how many wait for its start, while nobody was told of it
        self.wanted_number = 0
        self._tasks = {wanted.task_id: self._made(wanted) for wanted in file.read()}

    async def pursue(self) -> None:
        """Keeps every wanted task running, until cancelled.

        Raises:
            ExceptionGroup: a task's keeper failed, which none should.
        """
        async with asyncio.TaskGroup() as group:
            self._group = group
            for task in self._tasks.values():
                self._pursue(task)
            while True:
                await asyncio.sleep(_KEEP_AGAIN_S)
                if self._file.behind:
                    self._keep()

    def all(self) -> list[Task]:
        """Every task, ended ones among them, oldest first."""
        return list(self._tasks.values())

    def recording(self) -> list[Task]:
        """The tasks that record."""
        return [task for task in self.all() if task.records]

    def get(self, task_id: str) -> Task:
        """The task of this id.

        Raises:
            UnknownTask: there is none.
        """
        if task_id not in self._tasks:
            raise UnknownTask(f"there is no task '{task_id}' on this machine; ListTasks has those there are")
        return self._tasks[task_id]

    def take_wish(self, wish: session_pb2.Wanted) -> None:
        """Makes the server's tasks what it wants; those of this machine's own stay."""
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
        self.wanted_number = wish.number
        self._keep()
        self._touch()

    @asynccontextmanager
    async def start_own(self, definition: task_pb2.Definition, task_id: str = "") -> AsyncIterator[Task]:
        """Starts a task of this machine's own; the block, which has it when it records, tells the caller of it.

        With the id and definition of one that is there, gives that. If all who wait for a task's start are cancelled,
        or their blocks fail, the start is undone: nobody would know of the task.

        Raises:
            InvalidDefinition, TaskConflict: it cannot be; nothing has changed.
            AgentError, ScopeBpfError: its start failed; it is not wanted any more.
        """
        checked = await asyncio.to_thread(check_definition, definition)
        task_id = task_id or str(uuid.uuid4())
        task = await self._known(task_id)
        if task is None:
            self._check_it_goes_on()
            self._callers[task_id] = 0
            task = self._add(Wanted(task_id, task_pb2.ORIGIN_AGENT, definition))
            task.definition = checked
        elif task.wanted.origin != task_pb2.ORIGIN_AGENT or task.wanted.definition != definition:
            raise TaskConflict(f"task '{task_id}' exists and is defined otherwise; choose another id")
        if task_id not in self._callers:  # a caller was told of it before
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

    async def stop_own(self, task_id: str) -> Task:
        """Stops a task of this machine's own and returns when it has; one that has ended is returned as it is.

        Raises:
            UnknownTask: there is none.
            TaskConflict: the server wants it.
        """
        task = self.get(task_id)
        if task.wanted.origin == task_pb2.ORIGIN_SERVER and not task.over.is_set():
            raise TaskConflict(f"task '{task_id}' is wanted by the server; stop it there, with `scope stop`")
        task.release(task_pb2.TASK_END_REQUEST)
        self._keep()
        await task.over.wait()
        return task

    async def stop_all(self) -> None:
        """Ends every run, since the agent ends; what is wanted stays wanted."""
        self._ending = True
        for task in self.all():
            task.release(task_pb2.TASK_END_SHUTDOWN)
        if self._keepers:
            await asyncio.wait(self._keepers)
        # A keeper may have been cancelled, since something else failed; its run's thread goes on until it is asked.
        runs = [task.run for task in self.all() if task.run]
        await asyncio.gather(*(run.over.wait() for run in runs))

    async def wait_for_change(self, seen: int, most_s: float) -> None:
        """Returns once there were more `changes` than `seen`, or when the time is over."""
        if self.changes == seen:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), most_s)

    def _made(self, wanted: Wanted) -> Task:
        return Task(wanted, self._surroundings, self._keep)

    def _add(self, wanted: Wanted) -> Task:
        task = self._tasks[wanted.task_id] = self._made(wanted)
        self._pursue(task)
        self._forget_old()
        return task

    def _pursue(self, task: Task) -> None:
        if self._group:  # else when `pursue` begins
            keeper = self._group.create_task(task.pursue())
            self._keepers.add(keeper)
            keeper.add_done_callback(self._keepers.discard)

    def _check_it_goes_on(self) -> None:
        if self._ending:
            raise TaskConflict("the agent is ending; start the task when it runs again")

    async def _known(self, task_id: str) -> Task | None:
        """The task of this id, unless it has ended; the end of one that nobody wants any more is waited for."""
        while (task := self._tasks.get(task_id)) and not task.over.is_set():
            if not task.unwanted:
                return task
            await task.over.wait()
        return None

    def _give_up(self, task: Task) -> None:
        """One caller of those who wait for a start is told nothing of the task."""
        task_id = task.wanted.task_id
        if task_id not in self._callers:  # another caller was told
            return
        self._callers[task_id] -= 1
        if task.failure or not self._callers[task_id]:
            del self._callers[task_id]
            task.release(task_pb2.TASK_END_FAILURE if task.failure else task_pb2.TASK_END_REQUEST)
            self._keep()

    def _keep(self) -> None:
        """Writes down what is wanted; a start that somebody waits for only once it can be told of."""
        if not self._ending:
            kept = (task for task in self.all() if task.tried.is_set() or task.wanted.task_id not in self._callers)
            self._file.write(task.wanted for task in kept if not task.unwanted)

    def _touch(self) -> None:
        self.changes += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _forget_old(self) -> None:
        over = [task_id for task_id, task in self._tasks.items() if task.over.is_set()]
        for task_id in over[: max(0, len(over) - ENDED_TASKS_KEPT)]:
            del self._tasks[task_id]
