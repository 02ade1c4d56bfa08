"""Why a machine was slow: which of its processes used its CPUs in a window, and which waited for them."""

from datetime import datetime
from typing import Any

from scope_server.api.context import DATABASE, TABLES
from scope_server.api.resources.why.answer import ProcessTime, WallTime, Why
from scope_server.api.resources.why.process import missing_stream
from scope_server.api.resources.window import conditions_among
from scope_server.api.routing.call import Call
from scope_server.store.answers.asked import Asked, Found, found
from scope_server.store.answers.why import MOST_PROCESSES, PROCESSES, SCHEDULED_PROCESSES
from scope_server.store.reading.selection import Selection
from scope_views.why.machine import Process, sentence

_SHOWN = 100  # processes


async def why_machine(call: Call, machine: tuple[int, str], since: datetime, until: datetime, where: str | None) -> Why:
    """Where the time of a machine's processes went in a window.

    A process that both `why` and `sched` tell of is told of by `why`.

    Args:
        machine: key and id.
        where: a filter on their rows; a stream without its columns tells nothing.

    Raises:
        InvalidQuery: no stream that tells of processes has the filter's columns.
    """
    key, machine_id = machine
    conditions = conditions_among(where, (call[TABLES][what.stream] for what in (PROCESSES, SCHEDULED_PROCESSES)))

    async def asked(what: Asked) -> Found:
        if what.stream not in conditions:
            return Found([], complete=True)
        rows = Selection(call[TABLES][what.stream], conditions[what.stream], since, until, [key])
        return await found(call[DATABASE], rows, what)

    by_why, by_sched = await asked(PROCESSES), await asked(SCHEDULED_PROCESSES)
    processes: dict[tuple[int, int], ProcessTime] = {}
    for group in by_why.groups:
        _add(processes, group, PROCESSES.stream, group["blocked_ns"], group["total_ns"])
    for group in by_sched.groups:
        total_ns = group["on_cpu_ns"] + group["run_queue_ns"] + group["off_cpu_ns"]
        _add(processes, group, SCHEDULED_PROCESSES.stream, group["off_cpu_ns"], total_ns)
    ranked = sorted(processes.values(), key=lambda one: (-one.on_cpu_ns - one.run_queue_ns, -one.total_ns, one.pid))
    told = [Process(one.pid, one.name, one.on_cpu_ns, one.run_queue_ns) for one in ranked]
    return Why(
        sentence=sentence(told, filtered=where is not None),
        machine_id=machine_id,
        pid=None,
        start_ns=None,
        exe=None,
        since=since,
        until=until,
        request=None,
        processes=ranked[:_SHOWN],
        processes_hidden=max(0, len(ranked) - _SHOWN),
        wall=_sum(ranked) if ranked else None,
        threads_by=None,
        threads=[],
        calls=[],
        syscalls=[],
        files=[],
        faults=[],
        locks=[],
        disks=[],
        peers=[],
        not_recorded=[] if ranked or where is not None else [missing_stream(call, SCHEDULED_PROCESSES.stream, None)],
        losses=[],
        complete=all(each.complete and len(each.groups) < MOST_PROCESSES for each in (by_why, by_sched)),
    )


def _add(
    processes: dict[tuple[int, int], ProcessTime], group: dict[str, Any], stream: str, blocked_ns: int, total_ns: int
) -> None:
    """Adds a group to its process, which may have changed its name; not if another stream has told of it."""
    one = ProcessTime(
        pid=group["pid"],
        start_ns=group["start_ns"],
        name=group["comm"],
        stream=stream,
        total_ns=total_ns,
        on_cpu_ns=group["on_cpu_ns"],
        run_queue_ns=group["run_queue_ns"],
        blocked_ns=blocked_ns,
    )
    before = processes.setdefault((one.pid, one.start_ns), one)
    if before is not one and before.stream == stream:
        processes[one.pid, one.start_ns] = before.model_copy(update=_sum([before, one]).model_dump())


def _sum(times: list[ProcessTime]) -> WallTime:
    return WallTime(
        total_ns=sum(one.total_ns for one in times),
        on_cpu_ns=sum(one.on_cpu_ns for one in times),
        run_queue_ns=sum(one.run_queue_ns for one in times),
        blocked_ns=sum(one.blocked_ns for one in times),
    )
