"""Starts and stops tasks: changes `store.tasks` for the API, and waits for the agent."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from scope_proto.scope.v1.task_pb2 import Definition
from scope_server.errors import AgentRefused, InvalidQuery, NotOurs
from scope_server.session.directory import Directory
from scope_server.session.reported import definition_json
from scope_server.store.reading.database import Database

ANSWER_S = 15.0  # how long a request waits for the agent
_WISH_BYTES = 512 << 10  # of all definitions of a machine: they are sent in one message


class Wish(NamedTuple):
    """A task that is to be started on the machine with this key."""

    machine: int
    definition: Definition


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
        (task_id,) = await self.want([Wish(machine, definition)])
        await self.begun(machine_id, task_id)
        return task_id

    async def want(self, wishes: Sequence[Wish], group: str | None = None) -> list[str]:
        """Creates all of these tasks, or none; returns their ids at once.

        Args:
            group: the id that the tasks have in common.

        Raises:
            InvalidQuery: a machine has the maximum number of tasks.
            StoreUnavailable: the database cannot be reached.
        """
        texts = [definition_json(wish.definition) for wish in wishes]
        machines = [wish.machine for wish in wishes]
        sizes = [len(text.encode()) for text in texts]
        full = await self._database.fetch("full_machines", {"machines": machines, "bytes": sizes, "most": _WISH_BYTES})
        if full:
            raise InvalidQuery(
                f"node: {full[0]['hostname']} has the maximum number of tasks; stop some", pointer="/node"
            )
        ids = [str(uuid.uuid4()) for _ in wishes]
        probes = [wish.definition.probe for wish in wishes]
        columns = {"task_ids": ids, "machines": machines, "probes": probes, "definitions": texts, "group": group}
        await self._database.run("want_tasks", columns)
        return ids

    async def begun(self, machine_id: str, task_id: str) -> None:
        """Returns when the task records, after a timeout, or at once if the agent is not connected.

        Raises:
            AgentRefused: the agent refused the definition; the task is no longer wanted.
            StoreUnavailable: the database cannot be reached.
        """
        progress = await self._progress_when(
            lambda now: now["reason"] if now["state"] is None else now["state"] != "starting", machine_id, task_id
        )
        if progress and progress["state"] is None:
            await self._database.run("unwant_task", {"task_id": task_id})
            raise AgentRefused(progress["reason"])

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

    async def unwant(self, group: str) -> None:
        """Ends the tasks of a group; returns at once.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        await self._database.run("unwant_group", {"group": group})

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
