"""Starts and stops tasks: changes `store.tasks` for the API, and waits for the agent."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from scope_proto.scope.v1.task_pb2 import Definition
from scope_server.errors import AgentRefused, InvalidQuery, NotOurs
from scope_server.session.directory import Directory
from scope_server.session.reported import definition_json
from scope_server.store.reading.database import Database

ANSWER_S = 15.0  # how long a request waits for the agent
_WISH_BYTES = 512 << 10  # of all definitions of a machine: they are sent in one message


class Desired:
    """Changes the wanted tasks of machines."""

    def __init__(self, database: Database, directory: Directory) -> None:
        self._database, self._directory = database, directory

    async def start(self, machine: int, machine_id: str, definition: Definition) -> str:
        """Creates a task. Returns its id when it records, after a timeout, or at once if the agent is not connected.

        Raises:
            AgentRefused: the agent refused the definition; the task is no longer wanted.
            InvalidQuery: the machine has the maximum number of tasks.
            StoreUnavailable: the database cannot be reached.
        """
        text = definition_json(definition)
        (load,) = await self._database.fetch("wanted_bytes", {"machine": machine})
        if load["bytes"] + len(text.encode()) > _WISH_BYTES:
            raise InvalidQuery("node: this machine has the maximum number of tasks; stop some", pointer="/node")
        task_id = str(uuid.uuid4())
        row = {"task_id": task_id, "machine": machine, "probe": definition.probe, "definition": text}
        await self._database.run("want_task", row)
        await self._until_begun(machine_id, task_id)
        return task_id

    async def stop(self, task_id: str) -> None:
        """Stops a task. Returns when it has ended, after a timeout, or at once if the agent is not connected.

        Raises:
            NotOurs: the task was started on the machine itself, and can only be stopped there.
            StoreUnavailable: the database cannot be reached.
        """
        progress = await self._progress(task_id)
        if progress["origin"] == "agent":
            if not progress["wanted"] and not progress["open"]:
                return
            raise NotOurs(
                f"the task was started on {progress['hostname']} itself; stop it there: "
                f'grpcurl -d \'{{"task_id": "{task_id}"}}\' ... scope.v1.AgentControl/StopTask'
            )
        await self._database.run("unwant_task", {"task_id": task_id})
        await self._progress_when(lambda now: not now["open"], progress["machine_id"], task_id)

    async def _until_begun(self, machine_id: str, task_id: str) -> None:
        progress = await self._progress_when(
            lambda now: now["reason"] if now["state"] is None else now["state"] != "starting", machine_id, task_id
        )
        if progress and progress["state"] is None:
            await self._database.run("unwant_task", {"task_id": task_id})
            raise AgentRefused(progress["reason"])

    async def _progress_when(
        self, settled: Callable[[Mapping[str, Any]], Any], machine_id: str, task_id: str
    ) -> Mapping[str, Any] | None:
        """The progress of a task once it is settled; None: not in time, or the machine's agent is not connected."""
        with self._directory.news(machine_id) as news, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                while await self._directory.holder(machine_id):
                    progress = await self._progress(task_id)
                    if settled(progress):
                        return progress
                    await news.wait()
        return None

    async def _progress(self, task_id: str) -> dict[str, Any]:
        (row,) = await self._database.fetch("task_progress", {"task_id": task_id})
        return row
