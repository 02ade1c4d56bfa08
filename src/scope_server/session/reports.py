"""What agents report, kept until it is written: the newest word on each task, however long the database takes."""

import asyncio
import logging
from collections.abc import Iterable
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
_BETWEEN_S = 0.1  # rounds of a machine: an agent that reports without a pause costs no more
_LONGEST_PAUSE_S = 5.0


@dataclass(eq=False)
class _Unwritten:
    """Of one machine. `seen` has the columns of the latest sign of life, if it is to be written."""

    machine: Machine
    tasks: dict[str, Reported] = field(default_factory=dict)
    seen: dict[str, Any] | None = None
    seen_at: float = 0.0  # on the loop's clock
    written: asyncio.Event = field(default_factory=asyncio.Event)  # set, and replaced, after each round
    draining: bool = False

    @property
    def any(self) -> bool:
        return bool(self.tasks or self.seen)


class Reports:
    """The reports of all machines. What is put here is written by `run`, also when its session is over.

    A report that the database refuses as such is dropped with an error in the log: it must not hold up those behind it.
    """

    def __init__(self, database: Share) -> None:
        self._database = database
        self._machines: dict[int, _Unwritten] = {}
        self._woken: asyncio.Queue[_Unwritten] = asyncio.Queue()

    def put(self, machine: Machine, tasks: Iterable[Reported], clock_ahead_ns: int) -> None:
        """Takes what a machine's agent reports in place of what it reported of the same tasks before."""
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
        """Set once more of this machine's reports are written, or all that there was."""
        return self._of(machine).written

    async def caught_up(self, machine: Machine) -> None:
        """Returns once all that this machine has reported is written."""
        unwritten = self._of(machine)
        while unwritten.any:
            await unwritten.written.wait()

    async def run(self) -> None:
        """Writes until cancelled: a machine's tasks one after the other, machines beside each other."""
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
                log.exception("a report cannot be entered", extra={"task": task_id})
            if unwritten.tasks.get(task_id) is told:
                del unwritten.tasks[task_id]
        if seen := unwritten.seen:
            await self._database.run("seen", seen)
            if unwritten.seen is seen:
                unwritten.seen = None

    async def _enter(self, machine: Machine, told: Reported) -> None:
        # A row a statement: two rows that one transaction locks could wait for a writer that waits for it.
        await self._database.run("report_task", {"machine": machine.key, **told.task})
        if told.run is None:
            return
        await self._database.run(
            "report_run", {"machine": machine.key, "installation": machine.installation, **told.run}
        )
        for stream, emitted in told.emitted.items():
            account = {"run_id": told.run["run_id"], "stream": stream, "emitted": emitted}
            await self._database.run("report_emitted", {"machine": machine.key, **account})
