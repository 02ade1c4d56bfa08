"""Why a process took its time: where its wall time went, from what was recorded of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scope_catalogue.where import read_filter
from scope_server.api.context import DATABASE, TABLES
from scope_server.api.resources.why.answer import (
    CallTime,
    DiskTime,
    FaultTime,
    FileTime,
    LockTime,
    Missing,
    Peer,
    SyscallTime,
    ThreadTime,
    WallTime,
    Why,
)
from scope_server.api.routing.call import Call
from scope_server.errors import UnknownThing
from scope_server.store.answers.asked import Asked, Found, found
from scope_server.store.answers.why import (
    ASKED,
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
from scope_views.why.process import Call as BlockedCall
from scope_views.why.process import Lock, Wall, sentence
from scope_views.why.shares import WORTH_TELLING

_ADDRESSES = 1 << 64
_SHOWN = 20  # calls


@dataclass(frozen=True)
class Process:
    """A process of a machine.

    Attributes:
        machine: its key.
        exe: None: unknown.
    """

    machine: int
    machine_id: str
    pid: int
    start_ns: int
    exe: str | None

    def rows(self, call: Call, stream: str, since: datetime, until: datetime) -> Selection:
        """What a stream has of it in a window."""
        table = call[TABLES][stream]
        where = read_filter(f"pid = {self.pid} and start_ns = {self.start_ns}", table.types)
        return Selection(table, where, since, until, [self.machine])


async def process_named(call: Call, machine: tuple[int, str], pid: int, start_ns: int | None) -> Process:
    """The newest process with this pid, or the one with this start.

    Args:
        machine: key and id.

    Raises:
        UnknownThing: nothing was recorded of such a process.
    """
    about = {"pid": pid, "start_ns": start_ns, "machine": machine[0]}
    known = await call[DATABASE].fetch("newest_process", about)
    if not known:
        raise UnknownThing(f"nothing was recorded of a process {pid} on this machine", parameter="pid")
    return Process(*machine, pid, known[0]["start_ns"], known[0]["exe"])


async def why_process(call: Call, process: Process, since: datetime, until: datetime) -> Why:
    """Where the time of a process went in a window."""

    async def asked(what: Asked) -> Found:
        return await found(call[DATABASE], process.rows(call, what.stream, since, until), what)

    answers = {what: await asked(what) for what in ASKED}
    if not answers[WALL].groups:
        answers[SCHEDULED] = await asked(SCHEDULED)
    wall, threads = _wall(answers)
    calls = _calls(answers[CALLS].groups)
    told = [BlockedCall(each.call, _file(each), each.blocked_ns) for each in calls]
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
        machine_id=process.machine_id,
        pid=process.pid,
        start_ns=process.start_ns,
        exe=process.exe,
        since=since,
        until=until,
        request=None,
        processes=[],
        processes_hidden=0,
        wall=wall,
        threads_by=(WALL if answers[WALL].groups else SCHEDULED).stream if wall else None,
        threads=threads,
        calls=calls[:_SHOWN],
        syscalls=[SyscallTime(**group) for group in answers[SYSCALLS].groups],
        files=[FileTime(**group) for group in answers[FILES].groups],
        faults=[FaultTime(**group) for group in answers[FAULTS].groups],
        locks=locks,
        disks=[DiskTime(**group) for group in answers[DISKS].groups],
        peers=[_peer(group) for group in answers[PEERS].groups],
        not_recorded=[missing_stream(call, what.stream, process.pid) for what in missing],
        losses=[],
        complete=all(each.complete for each in answers.values()),
    )


def missing_stream(call: Call, stream: str, pid: int | None, mode: str = "summary") -> Missing:
    """A stream without a row, and how to record it.

    Args:
        pid: of the process that it lacks; None: of the machine.
        mode: in which its probe records it.
    """
    table = call[TABLES][stream]
    modes = "" if table.probe in ("why", "locks") else f" --mode {mode}"  # these have what is asked for in any mode
    target = "" if pid is None else f" --pid {pid}"
    return Missing(stream=stream, probe=table.probe, remedy=f"scope start NODE {table.probe}{modes}{target}")


def _wall(answers: Mapping[Asked, Found]) -> tuple[WallTime | None, list[ThreadTime]]:
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


def _calls(groups: Sequence[Mapping[str, Any]]) -> list[CallTime]:
    """The longest first. Waits for peers that are not worth telling are those of a socket without a peer."""
    least_ns = WORTH_TELLING * sum(group["blocked_ns"] for group in groups)
    calls: dict[tuple[Any, ...], CallTime] = {}
    for group in groups:
        apart = group["remote"] is not None and group["blocked_ns"] >= least_ns
        what = {name: group[name] for name in ("file_kind", "path", "disk")}
        peer = {name: group[name] if apart else None for name in ("remote", "remote_port")}
        times = {name: group[name] for name in ("count", "blocked_ns")}
        key = (group["blocked_in"], *what.values(), *peer.values())
        if before := calls.get(key):
            times = {name: value + getattr(before, name) for name, value in times.items()}
        found: dict[str, Any] = {**what, **peer, **times}
        calls[key] = CallTime(call=group["blocked_in"], **found)
    return sorted(calls.values(), key=lambda one: -one.blocked_ns)


def _file(call: CallTime) -> str | None:
    """What a call waited for, for people: `/data/x (vda)`, `socket 10.0.0.7:5432`, `socket [::1]:80`, `pipe`."""
    if call.remote:
        return f"{call.file_kind} {f'[{call.remote}]' if ':' in call.remote else call.remote}:{call.remote_port}"
    name = call.path or call.file_kind
    return f"{name} ({call.disk})" if name and call.disk else name


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
