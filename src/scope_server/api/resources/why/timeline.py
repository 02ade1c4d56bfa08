"""When each thread of a process was on a CPU, waited for one, or was blocked."""

from datetime import datetime

from pydantic import Field

from scope_server.api.context import DATABASE
from scope_server.api.resources.why.answer import Missing
from scope_server.api.resources.why.process import Process, missing_stream
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import Answer, Recorded
from scope_server.store.answers.threads import INTERVALS, SWITCHES, threads

_SHOWN = 50  # threads


class Lane(Answer):
    """A thread, with a time in ns per step. What is in none of its lists is unknown, or the thread was not there."""

    tid: int
    name: str | None
    on_cpu_ns: list[int]
    run_queue_ns: list[int]
    blocked_ns: list[int]


class WhyTimeline(Recorded):
    """The threads of a process over time."""

    machine_id: str
    pid: int
    start_ns: int
    since: datetime = Field(
        description="where the first step begins; later than asked for if nothing was recorded before, or if there are "
        "too many rows"
    )
    until: datetime = Field(description="where the last one ends; sooner than asked for if nothing was recorded after")
    step_ns: int = Field(description="the length of a step")
    stream: str | None = Field(description="that tells; null: nothing was recorded")
    interval_ns: int = Field(description="within such intervals, times are spread evenly; 0: they are exact")
    lanes: list[Lane] = Field(description="those that were on a CPU, or waited for one, longest first")
    lanes_hidden: int = Field(description="further threads")
    complete: bool = Field(description="it is all that was recorded in the window")
    not_recorded: list[Missing]


async def timeline(call: Call, process: Process, since: datetime, until: datetime, steps: int) -> WhyTimeline:
    """Lanes from switches, which are exact; else from what `why` records each second."""
    for source in (SWITCHES, INTERVALS):
        found = await threads(call[DATABASE], process.rows(call, source.stream, since, until), source, steps)
        if found.lanes:
            break
    return WhyTimeline(
        machine_id=process.machine_id,
        pid=process.pid,
        start_ns=process.start_ns,
        since=found.since,
        until=found.until,
        step_ns=found.step_ns,
        stream=source.stream if found.lanes else None,
        interval_ns=found.interval_ns,
        lanes=[
            Lane(
                tid=lane.tid,
                name=lane.name,
                on_cpu_ns=list(lane.on_cpu_ns),
                run_queue_ns=list(lane.run_queue_ns),
                blocked_ns=list(lane.blocked_ns),
            )
            for lane in found.lanes[:_SHOWN]
        ],
        lanes_hidden=max(0, len(found.lanes) - _SHOWN),
        complete=found.complete,
        not_recorded=[] if found.lanes else [missing_stream(call, INTERVALS.stream, process.pid)],
    )
