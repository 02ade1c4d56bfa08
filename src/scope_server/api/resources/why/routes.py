"""The paths below `/why`."""

from typing import Annotated

from pydantic import Field

from scope_catalogue.where import LONGEST
from scope_server.accounts.caller import Role
from scope_server.api.resources.losses import losses_among
from scope_server.api.resources.machines import find_machine
from scope_server.api.resources.streams import StreamPath, stream_named
from scope_server.api.resources.why.answer import Why
from scope_server.api.resources.why.machine import why_machine
from scope_server.api.resources.why.process import process_named, why_process
from scope_server.api.resources.why.request import why_request
from scope_server.api.resources.why.timeline import WhyTimeline, timeline
from scope_server.api.resources.window import TimesQuery, condition_of, times_of
from scope_server.api.routing.call import Call
from scope_server.api.routing.models import DIGITS, NodeName, Pid, Whole
from scope_server.api.routing.rates import WORK
from scope_server.api.routing.route import PREFIX, Routes, always
from scope_server.errors import InvalidQuery
from scope_server.store.answers.threads import SWITCHES
from scope_server.store.answers.why import STREAMS
from scope_server.store.reading.selection import Selection

ROUTES = Routes()

_LARGEST = (1 << 63) - 1
Start = Annotated[int, Field(ge=0, le=_LARGEST), DIGITS]
_START = "the process's `start_ns`; none: the newest process with this pid"
_MACHINE = "hostname or id; none: the only machine"


class WhyQuery(TimesQuery):
    """A process, or a request, or neither: all processes of a machine."""

    pid: Pid | None = None
    machine: NodeName | None = Field(None, description=_MACHINE)
    start: Start | None = Field(None, description=_START)
    stream: str | None = Field(None, description="a request: the slowest row of this stream ...")
    where: Annotated[str, Field(max_length=LONGEST)] | None = Field(
        None,
        description="... that meets this filter, such as: pid = 4711 and request = 3; of a machine, which processes, "
        "such as: comm ~ 'python*'",
    )


class TimelineQuery(TimesQuery):
    """Which process, when, and in how many steps."""

    pid: Pid
    machine: NodeName | None = Field(None, description=_MACHINE)
    start: Start | None = Field(None, description=_START)
    steps: Whole = Field(240, ge=1, le=600, description="how many steps of the same length")


@ROUTES.get(f"{PREFIX}/why", Role.VIEWER, lags=always, rate=WORK)
async def get_why(call: Call, query: WhyQuery) -> Why:
    """Where the wall time of a process went: a sentence first, then by thread, call, file and page faults.

    It is what tasks of `why`, `sched`, `syscalls`, `files`, `block` and `net` recorded in summary, and of `locks` as
    events; `not_recorded` says what is missing.

    With `stream`, it is about a request, or another row with a begin and an end: first where its own time went, if
    rows tell it, then what its process did meanwhile. Without `pid` and `stream`, it is about a machine, by process.
    """
    since, until = times_of(query)
    if query.stream is not None:
        if query.pid is not None or query.start is not None:
            raise InvalidQuery("with `stream`, say in `where` which process", parameter="pid")
        table = stream_named(call, StreamPath(stream=query.stream))
        where = condition_of(query.where, table)
        machine = await find_machine(call, query.machine)
        found = await why_request(call, Selection(table, where, since, until, [machine[0]]), machine)
        return await _with_losses(call, found, machine[0])
    if query.where is not None and query.pid is not None:
        raise InvalidQuery("it chooses a row of a stream, or processes of a machine", parameter="where")
    machine = await find_machine(call, query.machine)
    if query.pid is None:
        if query.start is not None:
            raise InvalidQuery("it is a process's: name its pid", parameter="start")
        found = await why_machine(call, machine, since, until, query.where)
        return await _with_losses(call, found, machine[0])
    process = await process_named(call, machine, query.pid, query.start)
    return await _with_losses(call, await why_process(call, process, since, until), machine[0])


async def _with_losses(call: Call, found: Why, machine: int) -> Why:
    telling = {*STREAMS, SWITCHES.stream}
    if found.request:
        telling |= {found.request.stream, found.request.split_by or ""}
    losses = await losses_among(call, telling, machine, found.since, found.until)
    return found.model_copy(update={"losses": losses})


@ROUTES.get(f"{PREFIX}/why/timeline", Role.VIEWER, lags=always, rate=WORK)
async def get_why_timeline(call: Call, query: TimelineQuery) -> WhyTimeline:
    """When each thread of a process was on a CPU, waited for a CPU, or was blocked.

    It is exact where a task of `sched` recorded each switch; otherwise it is what `why` recorded, by default each
    second.
    """
    since, until = times_of(query)
    process = await process_named(call, await find_machine(call, query.machine), query.pid, query.start)
    return await timeline(call, process, since, until, query.steps)
