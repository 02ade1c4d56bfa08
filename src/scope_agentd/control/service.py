"""scope.v1.AgentControl: runs only probes of the catalogue, with checked options."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

import grpc

from scope_agentd.control.examination import Examination
from scope_agentd.control.messages import task_id_of, task_message
from scope_agentd.errors import InvalidDefinition, TaskConflict, TooMuchMemory, UnknownTask
from scope_agentd.tasks import Tasks
from scope_bpf.errors import NotSupported, ScopeBpfError, TargetNotFound
from scope_catalogue.errors import InvalidFilter, InvalidOption, InvalidTarget, UnknownProbe
from scope_proto.scope.v1 import control_pb2
from scope_proto.scope.v1.control_pb2_grpc import AgentControlServicer
from scope_wire.identity import caller_of

WATCH_EVERY_S = 1.0

_STATUS: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (UnknownTask, grpc.StatusCode.NOT_FOUND),
    (TaskConflict, grpc.StatusCode.ALREADY_EXISTS),
    (TooMuchMemory, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (UnknownProbe, grpc.StatusCode.INVALID_ARGUMENT),
    (InvalidOption, grpc.StatusCode.INVALID_ARGUMENT),
    (InvalidFilter, grpc.StatusCode.INVALID_ARGUMENT),
    (InvalidTarget, grpc.StatusCode.INVALID_ARGUMENT),
    (InvalidDefinition, grpc.StatusCode.INVALID_ARGUMENT),
    (TargetNotFound, grpc.StatusCode.FAILED_PRECONDITION),
    (NotSupported, grpc.StatusCode.FAILED_PRECONDITION),
    (ScopeBpfError, grpc.StatusCode.INTERNAL),
)

Answer = TypeVar("Answer")


def _with_status(method: Callable[..., Awaitable[Answer]]) -> Callable[..., Awaitable[Answer]]:
    """Turns the package's errors into gRPC status codes."""

    @wraps(method)
    async def call(self: Any, request: Any, context: Any) -> Answer:
        try:
            return await method(self, request, context)
        except tuple(kind for kind, _ in _STATUS) as error:
            status = next(status for kind, status in _STATUS if isinstance(error, kind))
            await context.abort(status, str(error))
            raise

    return call


def _person(context: Any) -> str:
    """The name of the person who calls."""
    return caller_of(context.auth_context()).identity.name


class ControlService(AgentControlServicer):
    """The service for this machine's tasks."""

    def __init__(self, node: control_pb2.Node, tasks: Tasks, examination: Examination) -> None:
        self._node, self._tasks, self._examination = node, tasks, examination

    async def GetNode(self, request: control_pb2.GetNodeRequest, context: Any) -> control_pb2.Node:
        """This machine."""
        return self._node

    @_with_status
    async def ListProbes(self, request: control_pb2.ListProbesRequest, context: Any) -> control_pb2.ListProbesResponse:
        """The catalogue, each probe tried on this host."""
        return await self._examination.listed(soon=True)

    @_with_status
    async def StartTask(self, request: control_pb2.StartTaskRequest, context: Any) -> control_pb2.Task:
        """Starts a task; answers when the task records. If the caller cancels earlier, no task is started."""
        async with self._tasks.start_own(request.definition, task_id_of(request), _person(context)) as task:
            # gRPC may learn earlier than this coroutine that the caller has gone: then sending fails, or the turn of
            # the loop cancels. After both, only an answer on its way can miss its caller; no server can detect that.
            await context.send_initial_metadata(())
            await asyncio.sleep(0)
            return task_message(task)

    @_with_status
    async def StopTask(self, request: control_pb2.StopTaskRequest, context: Any) -> control_pb2.Task:
        """Stops a task; answers when the task has ended."""
        return task_message(await self._tasks.stop_own(request.task_id, _person(context)))

    async def ListTasks(self, request: control_pb2.ListTasksRequest, context: Any) -> control_pb2.ListTasksResponse:
        """All tasks, including recently ended tasks."""
        return control_pb2.ListTasksResponse(tasks=[task_message(task) for task in self._tasks.all()])

    async def WatchTasks(self, request: control_pb2.WatchTasksRequest, context: Any) -> AsyncIterator[control_pb2.Task]:
        """All tasks now, then each task that changes."""
        told: dict[str, control_pb2.Task] = {}
        while True:
            for task in self._tasks.all():
                message = task_message(task)
                if told.get(message.task_id) != message:
                    told[message.task_id] = message
                    yield message
            await asyncio.sleep(WATCH_EVERY_S)
