"""The processes of a machine: which were there, whose children they are, when they began and ended."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Annotated, Any

from pydantic import Field

from scope_catalogue.condition import Condition
from scope_catalogue.where import LONGEST
from scope_server.accounts.caller import Role
from scope_server.api.context import DATABASE, TABLES
from scope_server.api.resources.machines import find_machine
from scope_server.api.resources.window import TimesQuery, conditions_among, times_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, NodeName
from scope_server.api.routing.rates import WORK
from scope_server.api.routing.route import PREFIX, Routes
from scope_server.store.answers.asked import Asked, Found, found
from scope_server.store.answers.processes import BEGAN, ENDED, MOST, RAN
from scope_server.store.reading.selection import Selection

ROUTES = Routes()

Key = tuple[int, int]  # pid and start
_ADDED = ("on_cpu_ns", "run_queue_ns")
_WHERE = "which: those with a row that meets it, in a stream that has its columns; their parents are listed, too"


class ProcessesQuery(TimesQuery):
    """Whose processes, and when."""

    where: Annotated[str, Field(max_length=LONGEST, description=_WHERE, examples=["comm = 'python3'"])] | None = None
    machine: NodeName | None = Field(None, description="hostname or id; none: the only machine")


class Process(Answer):
    """A process."""

    pid: int
    start_ns: int = Field(description="by the machine's clock since boot")
    parent_pid: int | None
    parent_start_ns: int | None = Field(description="null: the parent is not listed")
    comm: str | None = Field(
        description="null: it did nothing in this time that was recorded and meets the filter, but a child of it did"
    )
    exe: str | None
    cmdline: list[str] | None
    container: str | None
    started: datetime | None = Field(description="null: before the machine's last boot")
    ended: datetime | None = Field(description="null: it has not ended, or nothing recorded its end")
    exit_code: int | None
    signal: int | None = Field(description="that ended it; 0: none did")
    on_cpu_ns: int | None = Field(
        description="in this time, by `sched`; else of an ended process, in its life; null: not recorded"
    )
    run_queue_ns: int | None = Field(description="waiting for a CPU in this time; null: not recorded")


class Processes(Answer):
    """The processes of a machine, the oldest first."""

    machine_id: str
    since: datetime
    until: datetime
    processes: list[Process]
    complete: bool = Field(
        description=f"all rows of the time were read, and no stream told of more than {MOST} processes"
    )
    not_recorded: list[str] = Field(description="probes that would tell more, and recorded nothing in this time")


@ROUTES.get(f"{PREFIX}/processes", Role.VIEWER, rate=WORK)
async def get_processes(call: Call, query: ProcessesQuery) -> Processes:
    """The processes of a machine that ran, began or ended in a window of time, and their parents.

    It is what tasks of `sched` recorded in summary, and of `process`. With a filter, times are of rows that meet it.
    """
    since, until = times_of(query)
    machine, machine_id = await find_machine(call, query.machine)
    conditions = conditions_among(query.where, (call[TABLES][what.stream] for what in (RAN, BEGAN, ENDED)))

    async def asked(what: Asked, where: Condition | None) -> Found:
        return await found(call[DATABASE], Selection(call[TABLES][what.stream], where, since, until, [machine]), what)

    async def is_recorded(what: Asked, its: Found) -> bool:
        filtered = conditions.get(what.stream) is not None
        return bool(its.groups or (filtered and (await asked(replace(what, top=1), None)).groups))

    answers = {what: await asked(what, conditions.get(what.stream)) for what in (RAN, BEGAN, ENDED)}
    ran, began, ended = answers.values()
    seen = _seen(ended.groups, ran.groups, began.groups)
    chosen = {*_seen(*(its.groups for what, its in answers.items() if what.stream in conditions))}
    seen = {key: its for key, its in seen.items() if key in chosen}
    keys = {"pids": [pid for pid, _ in seen], "starts": [start for _, start in seen], "machine": machine}
    rows = await call[DATABASE].fetch("processes_and_parents", keys)
    recorded = {what: await is_recorded(what, its) for what, its in answers.items()}
    missing = {"sched": not recorded[RAN], "process": not (recorded[BEGAN] or recorded[ENDED])}
    return Processes(
        machine_id=machine_id,
        since=since,
        until=until,
        processes=[_process(row, seen.get((row["pid"], row["start_ns"]), {}), until) for row in rows],
        complete=all(each.complete and len(each.groups) < MOST for each in (ran, began, ended)),
        not_recorded=[probe for probe, lacks in missing.items() if lacks],
    )


def _seen(*streams: Iterable[Mapping[str, Any]]) -> dict[Key, dict[str, Any]]:
    """What the streams tell of each process, put together; of what several groups tell, the first counts, but times of
    a process that changed its name are added up."""
    seen: dict[Key, dict[str, Any]] = {}
    for group in chain(*streams):
        if not group["pid"]:
            continue
        one = seen.setdefault((group["pid"], group["start_ns"]), {})
        for name, value in group.items():
            one[name] = one.get(name, 0) + value if name in _ADDED else one.get(name, value)
    return seen


def _process(row: Mapping[str, Any], seen: Mapping[str, Any], until: datetime) -> Process:
    started = row["booted"] + timedelta(microseconds=row["start_ns"] // 1000) if row["booted"] else None
    if started and started > until:
        started = None
    lifetime = seen.get("lifetime_ns")
    used = seen["user_ns"] + seen["system_ns"] if lifetime is not None else None
    return Process(
        pid=row["pid"],
        start_ns=row["start_ns"],
        parent_pid=row["parent_pid"],
        parent_start_ns=row["parent_start_ns"],
        comm=seen.get("comm"),
        exe=row["exe"],
        cmdline=row["cmdline"],
        container=row["container"],
        started=started,
        ended=started + timedelta(microseconds=lifetime // 1000) if started and lifetime is not None else None,
        exit_code=seen.get("exit_code"),
        signal=seen.get("signal"),
        on_cpu_ns=seen.get("on_cpu_ns", used),
        run_queue_ns=seen.get("run_queue_ns"),
    )
