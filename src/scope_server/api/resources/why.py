"""Why a process took its time: where its wall time went, from what was recorded of it."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from scope_catalogue.where import read_filter
from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, TABLES
from scope_server.api.resources.machines import find_machine
from scope_server.api.resources.window import TimesQuery, times_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import PID, Answer, NodeName, Recorded, Whole
from scope_server.api.routing.rates import WORK
from scope_server.api.routing.route import PREFIX, Routes, always
from scope_server.errors import UnknownThing
from scope_server.store.answers.asked import Asked, Found, found
from scope_server.store.answers.why import (
    CALLS,
    DISKS,
    FAULTS,
    FILES,
    LOCKS,
    PEERS,
    SCHEDULED,
    SYSCALLS,
    THREADS,
    WALL,
)
from scope_server.store.reading.selection import Selection
from scope_views.why import Call as BlockedCall
from scope_views.why import Lock, Wall, sentence

ROUTES = Routes()

_LARGEST = (1 << 63) - 1
_ADDRESSES = 1 << 64
_ASKED = (WALL, THREADS, CALLS, FAULTS, SYSCALLS, FILES, LOCKS, DISKS, PEERS)


class WhyQuery(TimesQuery):
    """Which process, and when."""

    pid: Whole = Field(ge=1, le=PID)
    machine: NodeName | None = Field(None, description="hostname or id; none: the only machine")
    start: Annotated[Whole, Field(ge=0, le=_LARGEST)] | None = Field(
        None, description="the process's `start_ns`; none: the newest process with this pid"
    )


class WallTime(Answer):
    """Wall time of threads, in ns."""

    total_ns: int
    on_cpu_ns: int
    run_queue_ns: int
    blocked_ns: int = Field(description="from `sched`: asleep, for whatever reason")


class ThreadTime(WallTime):
    """The wall time of a thread."""

    tid: int
    name: str | None


class CallTime(Answer):
    """A call in which threads were blocked."""

    call: str | None
    file_kind: str | None
    path: str | None
    count: int
    blocked_ns: int


class SyscallTime(Answer):
    """A syscall with all its calls."""

    name: str | None
    count: int
    errors: int
    total_ns: int


class FileTime(Answer):
    """A file that the process read or wrote."""

    path: str | None
    read_ns: int
    write_ns: int
    read_bytes: int
    write_bytes: int


class FaultTime(Answer):
    """Page faults of a kind; their time is part of the wall time."""

    kind: str | None
    count: int
    total_ns: int


class LockTime(Answer):
    """Waits for a lock in the process's memory, by the thread that gave it up."""

    address: str = Field(description="in hexadecimal digits")
    holder: str | None = Field(description="name of the thread that held the lock and gave it up; null: unknown")
    holder_tid: int | None
    count: int
    total_ns: int


class DiskTime(Answer):
    """Requests to a disk that the process caused."""

    disk: str | None
    operation: str | None
    count: int
    bytes: int
    queue_ns: int = Field(description="before the disk got them")
    device_ns: int


class Peer(Answer):
    """TCP connections with a peer."""

    remote: str | None
    port: int | None = Field(description="of the server")
    direction: str | None
    begun: int
    failed: int
    sent_bytes: int
    received_bytes: int
    retransmits: int
    rtt_ns: int | None = Field(description="mean of the smoothed round trips; null: none was measured")


class Missing(Answer):
    """A stream without a row of the process in this time."""

    stream: str
    probe: str
    remedy: str


class Why(Recorded):
    """Where the time of a process went."""

    sentence: str
    machine_id: str
    pid: int
    start_ns: int
    exe: str | None
    since: datetime
    until: datetime
    wall: WallTime | None = Field(description="null: not recorded")
    threads: list[ThreadTime] = Field(description="those with most time first")
    calls: list[CallTime] = Field(description="those in which threads were blocked longest")
    syscalls: list[SyscallTime]
    files: list[FileTime]
    faults: list[FaultTime]
    locks: list[LockTime] = Field(description="those that were waited for longest; part of the calls' time")
    disks: list[DiskTime]
    peers: list[Peer] = Field(description="those with most bytes sent first")
    not_recorded: list[Missing]
    complete: bool = Field(description="all stored rows of the time were read")


@ROUTES.get(f"{PREFIX}/why", Role.VIEWER, lags=always, rate=WORK)
async def get_why(call: Call, query: WhyQuery) -> Why:
    """Where the wall time of a process went: a sentence first, then by thread, call, file and page faults.

    It is what tasks of `why`, `sched`, `syscalls`, `files`, `block` and `net` recorded in summary, and of `locks` as
    events; `not_recorded` says what is missing.
    """
    since, until = times_of(query)
    machine, machine_id = await find_machine(call, query.machine)
    about = {"pid": query.pid, "start_ns": query.start, "machine": machine}
    processes = await call[DATABASE].fetch("newest_process", about)
    if not processes:
        raise UnknownThing(f"nothing was recorded of a process {query.pid} on this machine", parameter="pid")
    process = processes[0]
    of_process = f"pid = {query.pid} and start_ns = {process['start_ns']}"

    async def asked(what: Asked) -> Found:
        table = call[TABLES][what.stream]
        where = read_filter(of_process, table.types)
        return await found(call[DATABASE], Selection(table, where, since, until, [machine]), what)

    answers = {what: await asked(what) for what in _ASKED}
    if not answers[WALL].groups:
        answers[SCHEDULED] = await asked(SCHEDULED)
    wall, threads = _wall(answers)
    calls = [_call(group) for group in answers[CALLS].groups]
    told = [BlockedCall(each.call, each.path or each.file_kind, each.blocked_ns) for each in calls]
    locks = [_lock(group) for group in answers[LOCKS].groups]
    missing = [what for what in (WALL, SYSCALLS, FILES) if not answers[what].groups]
    if not locks and any(each.call == "futex" for each in calls):
        missing.append(LOCKS)
    return Why(
        sentence=sentence(
            Wall(**wall.model_dump()) if wall else None,
            told,
            [Lock(each.address, each.holder, each.total_ns) for each in locks],
        ),
        machine_id=machine_id,
        pid=query.pid,
        start_ns=process["start_ns"],
        exe=process["exe"],
        since=since,
        until=until,
        wall=wall,
        threads=threads,
        calls=calls,
        syscalls=[SyscallTime(**group) for group in answers[SYSCALLS].groups],
        files=[FileTime(**group) for group in answers[FILES].groups],
        faults=[FaultTime(**group) for group in answers[FAULTS].groups],
        locks=locks,
        disks=[DiskTime(**group) for group in answers[DISKS].groups],
        peers=[_peer(group) for group in answers[PEERS].groups],
        not_recorded=[_missing(call, what, query.pid) for what in missing],
        complete=all(each.complete for each in answers.values()),
    )


def _wall(answers: dict[Asked, Found]) -> tuple[WallTime | None, list[ThreadTime]]:
    if answers[WALL].groups:
        threads = [ThreadTime(name=group.pop("thread_comm"), **group) for group in map(dict, answers[THREADS].groups)]
        return WallTime(**answers[WALL].groups[0]), threads
    scheduled = answers[SCHEDULED].groups
    threads = [_scheduled(group) for group in scheduled]
    if not threads:
        return None, []
    parts = ("total_ns", "on_cpu_ns", "run_queue_ns", "blocked_ns")
    return WallTime(**{name: sum(getattr(each, name) for each in threads) for name in parts}), threads


def _scheduled(group: dict[str, Any]) -> ThreadTime:
    on_cpu, run_queue, asleep = group["on_cpu_ns"], group["run_queue_ns"], group["off_cpu_ns"]
    return ThreadTime(
        tid=group["tid"],
        name=group["thread_comm"],
        total_ns=on_cpu + run_queue + asleep,
        on_cpu_ns=on_cpu,
        run_queue_ns=run_queue,
        blocked_ns=asleep,
    )


def _call(group: dict[str, Any]) -> CallTime:
    return CallTime(call=group["blocked_in"], **{name: value for name, value in group.items() if name != "blocked_in"})


def _lock(group: dict[str, Any]) -> LockTime:
    return LockTime(
        address=f"{group['address'] % _ADDRESSES:#x}",
        holder=group["waker_comm"],
        holder_tid=group["waker_tid"],
        count=group["count"],
        total_ns=group["duration_ns"],
    )


def _peer(group: dict[str, Any]) -> Peer:
    measured, rtt_ns = group.pop("rtt_count"), group.pop("rtt_ns")
    return Peer(**group, rtt_ns=rtt_ns // measured if measured else None)


def _missing(call: Call, what: Asked, pid: int) -> Missing:
    table = call[TABLES][what.stream]
    mode = "" if what in (WALL, LOCKS) else " --mode summary"  # of `why` there are summaries only
    remedy = f"scope start NODE {table.probe}{mode} --pid {pid}"
    return Missing(stream=table.name, probe=table.probe, remedy=remedy)
