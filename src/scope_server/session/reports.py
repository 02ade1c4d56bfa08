"""Keeps agents' reports until they are written to the database: the latest report of each task."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg

from scope_server.errors import StoreUnavailable
from scope_server.machine import Machine
from scope_server.session.reported import Reported
from scope_server.store.reading.database import Share

log = logging.getLogger(__name__)

_SEEN_EVERY_S = 5.0
_BETWEEN_S = 0.1  # minimum time between two rounds of a machine, even if its agent reports without pauses
_LONGEST_PAUSE_S = 5.0


@dataclass(eq=False)
class _Unwritten:
    """Unwritten reports of one machine. `seen` has the columns about its last contact, if not written yet."""

    machine: Machine
    tasks: dict[str, Reported] = field(default_factory=dict)
    seen: dict[str, Any] | None = None
    seen_at: float = 0.0  # time of the loop's clock
    written: asyncio.Event = field(default_factory=asyncio.Event)  # set, and replaced, after each round
    draining: bool = False

    @property
    def any(self) -> bool:
        return bool(self.tasks or self.seen)


class Reports:
    """The reports of all machines. `run` writes them, even after their session is over.

    If the database refuses a report, it is dropped and logged as an error, so that it does not block later reports.
    """

    def __init__(self, database: Share) -> None:
        self._database = database
        self._machines: dict[int, _Unwritten] = {}
        self._woken: asyncio.Queue[_Unwritten] = asyncio.Queue()

    def put(self, machine: Machine, tasks: Iterable[Reported], clock_ahead_ns: int) -> None:
        """Adds reports of a machine; they replace earlier reports of the same tasks."""
        unwritten = self._of(machine)
        unwritten.machine = machine
        for told in tasks:
            unwritten.tasks[told.task["task_id"]] = told
        now = asyncio.get_running_loop().time()
        if now - unwritten.seen_at >= _SEEN_EVERY_S:
            unwritten.seen_at = now
            unwritten.seen = {"machine": machine.key, "at": datetime.now(UTC), "clock_ahead_ns": clock_ahead_ns}
        if unwritten.any and not unwritten.draining:
            unwritten.draining = True
            self._woken.put_nowait(unwritten)

    def next_write(self, machine: Machine) -> asyncio.Event:
        """An event that is set when the next reports of this machine, or all of them, are written."""
        return self._of(machine).written

    async def caught_up(self, machine: Machine) -> None:
        """Returns when all reports of this machine so far are written."""
        unwritten = self._of(machine)
        while unwritten.any:
            await unwritten.written.wait()

    async def run(self) -> None:
        """Writes until cancelled: tasks of a machine one after the other, machines in parallel."""
        async with asyncio.TaskGroup() as group:
            while True:
                unwritten = await self._woken.get()
                group.create_task(self._drain(unwritten))

    def _of(self, machine: Machine) -> _Unwritten:
        if machine.key not in self._machines:
            self._machines[machine.key] = _Unwritten(machine)
        return self._machines[machine.key]

    async def _drain(self, unwritten: _Unwritten) -> None:
        pause = _BETWEEN_S
        while unwritten.any:
            try:
                await self._write(unwritten)
                pause = _BETWEEN_S
            except (StoreUnavailable, psycopg.Error) as error:
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                machine = unwritten.machine.machine_id
                log.warning("reports wait for the database", extra={"machine": machine, "reason": str(error)})
            unwritten.written.set()
            unwritten.written = asyncio.Event()
            await asyncio.sleep(pause)
        unwritten.draining = False

    async def _write(self, unwritten: _Unwritten) -> None:
        for task_id, told in list(unwritten.tasks.items()):
            try:
                await self._enter(unwritten.machine, told)
            except (psycopg.DataError, psycopg.IntegrityError):
                log.exception("a report cannot be written", extra={"task": task_id})
            if unwritten.tasks.get(task_id) is told:
                del unwritten.tasks[task_id]
        if seen := unwritten.seen:
            await self._database.run("seen", seen)
            if unwritten.seen is seen:
                unwritten.seen = None

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
