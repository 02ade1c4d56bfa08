"""An agent that loads no probe: it connects, reports and uploads like a real one; its tasks run at once.

The connection, its certificate, and how it is made again after a break are those of scope_agentd.
"""

import asyncio
import contextlib
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from scope_agentd.errors import SessionEnded
from scope_agentd.identity.membership import Membership
from scope_agentd.node import hello
from scope_agentd.run_id import new_run_id
from scope_agentd.session.link import Link
from scope_agentd.session.stream import write
from scope_cli.bench_fleet.rows import Rows
from scope_proto.scope.v1 import control_pb2, record_pb2, session_pb2, task_pb2
from scope_proto.scope.v1.session_pb2_grpc import SessionStub
from scope_wire.endpoint import Endpoint
from scope_wire.frame import checksum
from scope_wire.limits import IDLE_REPORT_EVERY_S, REPORT_EVERY_S

_BATCH_EVERY_S = 0.25  # as a real agent reads its rings


@dataclass(eq=False)
class Agent:
    """One agent of the fleet.

    Attributes:
        tasks: that run, by id.
        uploading: whether the server has accepted its Upload; then it is served.
        answered: uploaded records that the server has answered.
    """

    node: control_pb2.Node
    membership: Membership
    rows: Rows | None = None
    tasks: dict[str, control_pb2.Task] = field(default_factory=dict)
    uploading: bool = False
    answered: int = 0
    wanted_number: int = 0

    def __post_init__(self) -> None:
        self.link = Link(self.membership, None, _Attendance(self), _Upload(self))
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Runs until cancelled."""
        await self.link.run()

    @property
    def served(self) -> bool:
        """Whether it has its session, its wanted tasks, and may upload."""
        return self.link.connected and self.uploading

    def obey(self, wanted: session_pb2.Wanted) -> None:
        """Starts and ends tasks as the server wants."""
        ids = {one.task_id for one in wanted.tasks}
        for task_id, task in self.tasks.items():
            if task_id not in ids and task.run.state == task_pb2.TASK_STATE_RUNNING:
                task.run.state, task.run.end = task_pb2.TASK_STATE_STOPPED, task_pb2.TASK_END_REQUEST
                task.run.ended.GetCurrentTime()
        for one in wanted.tasks:
            if one.task_id not in self.tasks:
                run = control_pb2.Run(
                    run_id=str(uuid.UUID(bytes=new_run_id())), task_id=one.task_id, state=task_pb2.TASK_STATE_RUNNING
                )
                run.started.GetCurrentTime()
                self.tasks[one.task_id] = control_pb2.Task(
                    task_id=one.task_id, origin=task_pb2.ORIGIN_SERVER, definition=one.definition, run=run
                )
        self.wanted_number = wanted.number
        self.wake()

    def wake(self) -> None:
        """Has it report at once."""
        self._changed.set()

    async def changed(self, most_s: float) -> None:
        """Returns when there is something to report, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._changed.wait()
        self._changed.clear()

    def running(self) -> list[control_pb2.Task]:
        """The tasks that run."""
        return [task for task in self.tasks.values() if task.run.state == task_pb2.TASK_STATE_RUNNING]


@dataclass
class _Attendance:
    agent: Agent

    async def run(self, stub: SessionStub, at: Endpoint, welcome: asyncio.Event) -> None:
        call: Any = stub.Attend()  # type: ignore[call-arg]  # the aio stub takes no iterator
        await write(call, session_pb2.AttendRequest(hello=hello(self.agent.node)))
        async with asyncio.TaskGroup() as telling:
            telling.create_task(self._report(call))
            async for reply in call:
                if reply.HasField("wanted"):
                    self.agent.obey(reply.wanted)
                    welcome.set()
                elif reply.report_asked:
                    self.agent.wake()
            raise SessionEnded("the server ended the session")

    async def _report(self, call: Any) -> None:
        told: dict[str, bytes] = {}
        while True:
            now = {task_id: task.SerializeToString() for task_id, task in self.agent.tasks.items()}
            every_s = REPORT_EVERY_S if self.agent.running() else IDLE_REPORT_EVERY_S
            report = session_pb2.Report(
                tasks=[self.agent.tasks[task_id] for task_id in now if told.get(task_id) != now[task_id]],
                open_runs=[uuid.UUID(task.run.run_id).bytes for task in self.agent.running()] if not told else [],
                ktime_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
                utc_ns=time.time_ns(),
                next_ms=int(1000 * every_s),
                wanted_number=self.agent.wanted_number,
            )
            report.spool.limit_bytes = 1 << 30
            told = now
            await write(call, session_pb2.AttendRequest(report=report))
            await self.agent.changed(every_s)


@dataclass
class _Upload:
    agent: Agent

    async def run(self, stub: SessionStub) -> None:
        call: Any = stub.Upload()  # type: ignore[call-arg]  # the aio stub takes no iterator
        try:
            await write(call, session_pb2.UploadRequest(hello=hello(self.agent.node)))
            await call.initial_metadata()
            self.agent.uploading = not call.done()
            async with asyncio.TaskGroup() as sending:
                if self.agent.rows:
                    sending.create_task(self._send(call, self.agent.rows))
                async for reply in call:
                    self.agent.answered += len(reply.answers)
                raise SessionEnded("the server ended the upload")
        finally:
            self.agent.uploading = False

    async def _send(self, call: Any, rows: Rows) -> None:
        begun: dict[str, int] = {}  # batches sent, by run
        position = 0
        while True:
            began = time.monotonic()
            for task in self.agent.running():
                run = task.run.run_id
                records = [] if run in begun else [rows.start(task)]
                begun[run] = begun.get(run, 0) + 1
                for record in (*records, rows.batch(task, begun[run], _BATCH_EVERY_S)):
                    position += 1
                    await write(call, _enveloped(record, position))
            await asyncio.sleep(max(0.0, _BATCH_EVERY_S - (time.monotonic() - began)))


def _enveloped(record: record_pb2.Record, position: int) -> session_pb2.UploadRequest:
    data = record.SerializeToString()
    envelope = session_pb2.Envelope(position=position, record=data, crc32=checksum(data))
    return session_pb2.UploadRequest(envelope=envelope)
