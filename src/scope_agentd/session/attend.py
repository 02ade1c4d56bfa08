"""The Attend stream: receives the wanted tasks, reports their states, and shows that the agent is alive."""

import asyncio
import logging
import time
from typing import Any

from scope_agentd.control.examination import Examination
from scope_agentd.control.messages import task_message
from scope_agentd.errors import SessionEnded
from scope_agentd.identity.membership import Membership
from scope_agentd.identity.renewal import renew
from scope_agentd.node import hello
from scope_agentd.pipeline.spool import Spool
from scope_agentd.session.acknowledged import Acknowledged
from scope_agentd.session.stream import write
from scope_agentd.tasks import Tasks
from scope_proto.scope.v1 import control_pb2, session_pb2
from scope_proto.scope.v1.session_pb2_grpc import SessionStub
from scope_wire.background import TaskGroup
from scope_wire.endpoint import Endpoint
from scope_wire.join_token import digest_of
from scope_wire.limits import IDLE_REPORT_EVERY_S, MESSAGE_BYTES, REPORT_EVERY_S

log = logging.getLogger(__name__)

_LEAST_PAUSE_S = 0.25  # between reports, so that changes at the same time share a report
_MOST_TASKS_BYTES = MESSAGE_BYTES // 2  # of tasks in a report; the others go into the next report


class Attendance:
    """The agent's side of the stream."""

    def __init__(
        self,
        node: control_pb2.Node,
        tasks: Tasks,
        spool: Spool,
        membership: Membership,
        examination: Examination,
        *,
        acknowledged: Acknowledged,
    ) -> None:
        self._node, self._tasks, self._spool, self._membership = node, tasks, spool, membership
        self._examination, self._acknowledged = examination, acknowledged
        self._writing = asyncio.Lock()  # a stream allows one write at a time

    async def run(self, stub: SessionStub, at: Endpoint, welcome: asyncio.Event) -> None:
        """Runs until the stream to the server at an endpoint breaks; sets `welcome` when the first Wanted has arrived.

        Raises:
            grpc.aio.AioRpcError: the stream broke, or the server refused it.
            SessionEnded: the server ended the session.
        """
        call: Any = stub.Attend()  # type: ignore[call-arg]  # the aio stub takes no iterator
        await write(call, session_pb2.AttendRequest(hello=self._hello()))
        async with TaskGroup() as telling:
            telling.create_task(self._report(call))
            telling.create_task(self._tell_probes(call, soon=False))
            async for reply in call:
                if reply.HasField("wanted"):
                    self._tasks.take_wish(reply.wanted)
                    welcome.set()
                elif reply.report_asked:
                    self._tasks.touch()
                elif reply.HasField("probes_asked"):
                    telling.create_task(self._tell_probes(call, soon=True))
                elif reply.HasField("revoked"):
                    telling.create_task(self._take_revoked(frozenset(reply.revoked.serials)))
                elif reply.renew:
                    telling.create_task(renew(self._membership, stub, at))
            raise SessionEnded("the server ended the session")

    def _hello(self) -> session_pb2.Hello:
        """With what the server may have changed meanwhile."""
        message, fleet = hello(self._node), self._membership.fleet
        message.roots.extend(map(digest_of, self._membership.credentials.authorities))
        message.servers.extend(fleet.servers)
        message.enrolments.extend(fleet.enrolments)
        return message

    async def _take_revoked(self, serials: frozenset[str]) -> None:
        try:
            await asyncio.to_thread(self._membership.revoke, serials)
        except OSError as error:
            log.warning("cannot keep which certificates are revoked", extra={"reason": error.strerror})

    async def _tell_probes(self, call: Any, *, soon: bool) -> None:
        probes = await self._examination.listed(soon=soon)
        async with self._writing:
            await write(call, session_pb2.AttendRequest(probes=probes))

    async def _report(self, call: Any) -> None:
        told: dict[str, control_pb2.Task] = {}
        report = session_pb2.Report(open_runs=list(self._open_runs()), acknowledged=self._acknowledged.messages())
        while True:
            seen = self._tasks.changes
            every_s = self._fill(report, told)
            async with self._writing:
                await write(call, session_pb2.AttendRequest(report=report))
            report = session_pb2.Report()
            await asyncio.sleep(_LEAST_PAUSE_S)
            await self._tasks.wait_for_change(seen, every_s - _LEAST_PAUSE_S)

    def _fill(self, report: session_pb2.Report, told: dict[str, control_pb2.Task]) -> float:
        """Adds the clocks, the spool, and every task that changed since it was last reported; returns in how many
        seconds the next report is due if nothing changes."""
        room = _MOST_TASKS_BYTES
        for task in self._tasks.all():
            message = task_message(task)
            if told.get(message.task_id) != message and room > 0:
                told[message.task_id] = message
                report.tasks.append(message)
                room -= message.ByteSize()
        held = self._spool.held()
        report.spool.bytes, report.spool.limit_bytes = held.bytes, held.limit_bytes
        report.spool.records, report.spool.dropped_records = held.records, held.dropped_records
        report.spool.deferred_records = held.deferred_records
        report.wanted_number = self._tasks.wanted_number
        report.ktime_ns, report.utc_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns()
        busy = held.records or any(not task.over.is_set() for task in self._tasks.all())
        every_s = REPORT_EVERY_S if busy else IDLE_REPORT_EVERY_S
        report.next_ms = int(1000 * every_s)
        return every_s

    def _open_runs(self) -> set[bytes]:
        """All runs that may still send records."""
        running = {task.run.run_id for task in self._tasks.all() if task.run and not task.run.over.is_set()}
        return running | self._spool.runs()
