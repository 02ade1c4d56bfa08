"""A stand-in for scope_agentd: it attends over real gRPC, obeys the server and the test, and records nothing."""

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self, cast

import grpc
from tests.integration.server.running import Server

from scope_proto.scope.v1 import control_pb2, session_pb2, task_pb2
from scope_proto.scope.v1.session_pb2_grpc import SessionStub

MACHINE = "0123456789abcdef0123456789abcdef"
RUNNING, STOPPED, FAILED = task_pb2.TASK_STATE_RUNNING, task_pb2.TASK_STATE_STOPPED, task_pb2.TASK_STATE_FAILED
_ENDED = (STOPPED, FAILED)
_numbers = itertools.count(1)


def new_run_id() -> str:
    """A run id that sorts by time, like UUIDv7."""
    return str(uuid.UUID(int=(time.time_ns() // 1_000_000) << 80 | 7 << 76 | next(_numbers)))


class StandInAgent:
    """An agent of one installation; its attributes outlive its connections.

    Attributes:
        probes: what it tells of its probes when the server asks; None: it has not tried them yet.
        refusal: why no task can start; empty: every task starts at once.
        refuses: why tasks of a probe cannot start, by its name.
        renewals: how often the server asked for a new certificate.
        roots: digests of the authorities that it says it trusts.
        servers, enrolments: addresses of its servers that it says it knows.
        acknowledged: what the agent says was acknowledged, in its next first report.
        wishes: the server's `Wanted` messages, in order.
        every_s: time between reports if nothing changes, in s; None: no such reports, also when the server asks.
        next_ms: when it says that its next report will come; 0: it does not say it.
        ahead_ns: how far the agent's clock is ahead, in ns.
        life: tells its process from others; empty: it is an older agent.
        takes_where: whether it applies the filters of tasks.
    """

    def __init__(self, hostname: str = "stand-in", machine_id: str = MACHINE) -> None:
        self.hostname, self.machine_id = hostname, machine_id
        self.installation = str(uuid.uuid4())
        self.tasks: dict[str, control_pb2.Task] = {}
        self.wishes: list[session_pb2.Wanted] = []
        self.open_runs: list[bytes] = []
        self.acknowledged: list[session_pb2.Acknowledged] = []
        self.probes: control_pb2.ListProbesResponse | None = control_pb2.ListProbesResponse(
            probes=[control_pb2.Probe(name="syscalls", available=True)]
        )
        self.refusal = ""
        self.refuses: dict[str, str] = {}
        self.renewals = 0
        self.roots: tuple[bytes, ...] = ()
        self.servers: tuple[str, ...] = ()
        self.enrolments: tuple[str, ...] = ()
        self.every_s: float | None = 1.0
        self.next_ms = 0
        self.ahead_ns = 0
        self.life = b""
        self.takes_where = True
        self.status: grpc.StatusCode | None = None  # status of the last stream that failed
        self.details = ""
        self._changed = asyncio.Event()

    def quiet(self) -> Self:
        """Reports only what changes, and when the server asks; returns itself.

        A grpc.aio client loses the reason of a call that ends while it writes (grpc's issue 36066).
        """
        self.every_s, self.next_ms = 3600.0, 3_600_000
        return self

    def hello(self) -> session_pb2.Hello:
        node = control_pb2.Node(
            machine_id=self.machine_id,
            installation_id=self.installation,
            hostname=self.hostname,
            kernel="6.1",
            architecture="x86_64",
            cpus=2,
            memory_bytes=1 << 30,
            agent_version="0.1",
        )
        boottime = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        utc_ns = time.time_ns() + self.ahead_ns
        return session_pb2.Hello(
            node=node,
            ktime_ns=boottime,
            utc_ns=utc_ns,
            life=self.life,
            takes_where=self.takes_where,
            roots=self.roots,
            servers=self.servers,
            enrolments=self.enrolments,
        )

    @asynccontextmanager
    async def attending(self, server: Server, over: grpc.aio.Channel | None = None) -> AsyncIterator[Any]:
        """Attends while inside, over this channel or a new one; yields the channel. Raises AioRpcError if the server
        refuses the agent."""
        async with AsyncExitStack() as opened:
            channel = over or await opened.enter_async_context(server.channel(self.machine_id))
            stub = cast("Any", SessionStub)(channel)  # its type demands an iterator of requests
            call = stub.Attend()
            await call.write(session_pb2.AttendRequest(hello=self.hello()))
            welcome = asyncio.Event()
            work = [asyncio.create_task(one) for one in (self._report(call), self._listen(call, welcome))]
            try:
                waiting = asyncio.create_task(welcome.wait())
                await asyncio.wait([waiting, *work], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if not welcome.is_set():
                    await work[1]
                yield channel
            finally:
                for one in work:
                    one.cancel()
                await asyncio.gather(*work, return_exceptions=True)
                call.cancel()

    def change(self, task_id: str, state: "task_pb2.TaskState.ValueType", **run: Any) -> control_pb2.Task:
        """Changes a task's state, and reports it."""
        task = self.tasks[task_id]
        task.run.state = state
        for name, value in run.items():
            setattr(task.run, name, value)
        if state in _ENDED and task.run.run_id:
            task.run.ended.GetCurrentTime()
        self._changed.set()
        return task

    def begin(
        self, task_id: str, definition: task_pb2.Definition, origin: "task_pb2.Origin.ValueType"
    ) -> control_pb2.Task:
        """Starts a new run of a task, and reports it."""
        task = self.tasks[task_id] = control_pb2.Task(task_id=task_id, origin=origin, definition=definition)
        task.run.task_id = task_id
        if refusal := self.refusal or self.refuses.get(definition.probe):
            task.next_try.GetCurrentTime()
            return self.change(task_id, FAILED, error=refusal)
        task.run.started.GetCurrentTime()
        if definition.HasField("duration"):
            task.deadline.FromNanoseconds(time.time_ns() + self.ahead_ns + definition.duration.ToNanoseconds())
        return self.change(task_id, RUNNING, run_id=new_run_id(), attach_point="nowhere")

    def begin_own(self, probe: str = "syscalls") -> str:
        """Starts a task of the machine's own; returns its id."""
        task_id = str(uuid.uuid4())
        self.begin(task_id, task_pb2.Definition(probe=probe), task_pb2.ORIGIN_AGENT)
        return task_id

    def restart(self) -> None:
        """Forgets all tasks, like a killed agent; the machine's own tasks get new runs."""
        for task_id, task in list(self.tasks.items()):
            del self.tasks[task_id]
            if task.origin == task_pb2.ORIGIN_AGENT and task.run.state not in _ENDED:
                self.begin(task_id, task.definition, task.origin)

    async def _listen(self, call: Any, welcome: asyncio.Event) -> None:
        try:
            async for reply in call:
                if reply.renew:
                    self.renewals += 1
                    continue
                if reply.report_asked:
                    if self.every_s is not None:
                        self._changed.set()
                    continue
                if reply.HasField("probes_asked"):
                    if self.probes is not None:
                        await call.write(session_pb2.AttendRequest(probes=self.probes))
                    continue
                if not reply.HasField("wanted"):
                    continue
                self.wishes.append(reply.wanted)
                self._obey(reply.wanted)
                if self.every_s is not None:
                    self._changed.set()
                welcome.set()
        except grpc.aio.AioRpcError as error:
            self.status, self.details = error.code(), error.details() or ""
            raise

    def _obey(self, wanted: session_pb2.Wanted) -> None:
        ids = {one.task_id for one in wanted.tasks}
        for task_id, task in self.tasks.items():
            if task.origin == task_pb2.ORIGIN_SERVER and task_id not in ids and task.run.state == RUNNING:
                self.change(task_id, STOPPED, end=task_pb2.TASK_END_REQUEST)
        for one in wanted.tasks:
            if one.task_id not in self.tasks:
                self.begin(one.task_id, one.definition, task_pb2.ORIGIN_SERVER)

    async def _report(self, call: Any) -> None:
        open_runs, acknowledged = self.open_runs, self.acknowledged
        told: dict[str, bytes] = {}
        while True:
            self._changed.clear()
            now = {task_id: task.SerializeToString(deterministic=True) for task_id, task in self.tasks.items()}
            report = session_pb2.Report(
                tasks=[task for task_id, task in self.tasks.items() if told.get(task_id) != now[task_id]],
                open_runs=open_runs,
                next_ms=self.next_ms,
                acknowledged=acknowledged,
                wanted_number=self.wishes[-1].number if self.wishes else 0,
                spool=session_pb2.Spool(bytes=11, limit_bytes=1 << 30, records=3),
                ktime_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
                utc_ns=time.time_ns() + self.ahead_ns,
            )
            await call.write(session_pb2.AttendRequest(report=report))
            open_runs, acknowledged, told = [], [], now
            try:
                await asyncio.wait_for(self._changed.wait(), self.every_s)
            except TimeoutError:
                continue
