"""Keeps agents' reports until they are written to the database: the latest report of each task."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

from scope_server.errors import StoreUnavailable
from scope_server.machine import Machine
from scope_server.session.directory import Directory
from scope_server.session.reported import Reported
from scope_server.store.reading.database import Share

log = logging.getLogger(__name__)

_BETWEEN_S = 0.1  # minimum time between two rounds of a machine, even if its agent reports without pauses
_LONGEST_PAUSE_S = 5.0


@dataclass(eq=False)
class _Unwritten:
    """Unwritten reports of one machine, by task; and the number of the Wanted that it took before them, 0: none."""

    machine: Machine
    tasks: dict[str, Reported] = field(default_factory=dict)
    taken: int = 0


class Reports:
    """The reports of all machines. `run` writes them, even after their session is over.

    If the database refuses a report, it is dropped and logged as an error, so that it does not block later reports.
    """

    def __init__(self, database: Share, directory: Directory) -> None:
        self._database, self._directory = database, directory
        self._machines: dict[int, _Unwritten] = {}
        self._woken: asyncio.Queue[_Unwritten] = asyncio.Queue()

    def put(self, machine: Machine, tasks: Iterable[Reported], taken: int = 0) -> None:
        """Adds reports of a machine; they replace earlier reports of the same tasks.

        Args:
            taken: number of a Wanted that ends tasks, and that the agent took before it reported; 0: none.
        """
        told = {one.task["task_id"]: one for one in tasks}
        if not told and not taken:
            return
        if machine.key not in self._machines:
            self._machines[machine.key] = _Unwritten(machine)
            self._woken.put_nowait(self._machines[machine.key])
        unwritten = self._machines[machine.key]
        unwritten.machine = machine
        unwritten.tasks |= told
        unwritten.taken = max(unwritten.taken, taken)

    def waiting(self, machine: Machine) -> bool:
        """Whether a report of this machine is not written yet."""
        return machine.key in self._machines

    async def run(self) -> None:
        """Writes until cancelled: tasks of a machine one after the other, machines in parallel."""
        async with asyncio.TaskGroup() as group:
            while True:
                unwritten = await self._woken.get()
                group.create_task(self._drain(unwritten))

    async def _drain(self, unwritten: _Unwritten) -> None:
        pause = _BETWEEN_S
        while unwritten.tasks or unwritten.taken:
            try:
                await self._write(unwritten)
                pause = _BETWEEN_S
            except (StoreUnavailable, psycopg.Error) as error:
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                machine = unwritten.machine.machine_id
                log.warning("reports wait for the database", extra={"machine": machine, "reason": str(error)})
            self._directory.tell(unwritten.machine.machine_id)
            await asyncio.sleep(pause)
        del self._machines[unwritten.machine.key]

    async def _write(self, unwritten: _Unwritten) -> None:
        taken = unwritten.taken
        for task_id, told in list(unwritten.tasks.items()):
            try:
                await self._enter(unwritten.machine, told)
            except (psycopg.DataError, psycopg.IntegrityError):
                log.exception("a report cannot be written", extra={"task": task_id})
            if unwritten.tasks.get(task_id) is told:
                del unwritten.tasks[task_id]
        if taken:  # after the runs that its agent had begun until then
            await self._database.run("take_wanted", {"machine": unwritten.machine.key, "number": taken})
            unwritten.taken = 0 if unwritten.taken == taken else unwritten.taken

    async def _enter(self, machine: Machine, told: Reported) -> None:
        # One row per statement: a transaction that locks two rows could deadlock with a writer.
        await self._update("task", {"machine": machine.key, **told.task})
        if told.run is None:
            return
        await self._update("run", {"machine": machine.key, "installation": machine.installation, **told.run})
        for stream, emitted in told.emitted.items():
            account = {"run_id": told.run["run_id"], "stream": stream, "emitted": emitted}
            await self._database.run("report_emitted", {"machine": machine.key, **account})

    async def _update(self, kind: str, columns: Mapping[str, Any]) -> None:
        """Updates a task or a run. If there is none it is created, unless a writer creates it at the same time."""
        if not await self._database.run(f"report_{kind}", columns):
            await self._database.run(f"create_reported_{kind}", columns)
            await self._database.run(f"report_{kind}", columns)
