"""Why a request took its time: its own split where rows tell it, and what its process did meanwhile."""

from datetime import timedelta

from scope_server.api.context import DATABASE, READER, TABLES
from scope_server.api.resources.why.answer import (
    Missing,
    RequestCause,
    RequestPart,
    RequestTime,
    RequestTimes,
    ThreadTime,
    WallTime,
    Why,
)
from scope_server.api.resources.why.process import Process, missing_stream, process_named, why_process
from scope_server.api.routing.call import Call
from scope_server.errors import InvalidQuery, UnknownThing
from scope_server.store.answers.lasting import lasting_or_refused
from scope_server.store.answers.request import (
    Split,
    Timed,
    part_columns,
    pieces_of,
    split_by_pieces,
    split_of_row,
    timed,
)
from scope_server.store.answers.slowest import slowest_rows
from scope_server.store.answers.threads import SWITCHES, exact
from scope_server.store.reading.selection import Selection
from scope_views.why.lanes import Lane
from scope_views.why.request import Request, sentence

_INTERVAL = timedelta(seconds=1)  # of summaries, unless a task says otherwise


async def why_request(call: Call, wanted: Selection, machine: tuple[int, str]) -> Why:
    """Where the time of a request went.

    Args:
        wanted: rows of a stream; the slowest one is the request.
        machine: key and id.

    Raises:
        InvalidQuery: the stream's rows do not last, or this one belongs to no process.
        UnknownThing: there is no such row.
    """
    one = await _slowest(call, wanted)
    process = await process_named(call, machine, one.row["pid"], one.row["start_ns"])
    since, until = one.window()
    whole = await why_process(call, process, since, until + _INTERVAL)
    lanes = await exact(call[DATABASE], process.rows(call, SWITCHES.stream, since, until), one.begin_ns, one.end_ns)
    split, reason, missing = await _split(call, one, process, lanes or [])
    told = Request(
        one.name,
        one.row["comm"],
        one.lasted_ns,
        split.parts if split else {},
        split.causes if split else (),
        reason or "",
    )
    about = {
        "sentence": sentence(told),
        "request": _request(one, split, reason),
        "not_recorded": [*missing, *whole.not_recorded],
    }
    if lanes:
        threads = [_thread(lane) for lane in lanes]
        about |= {"threads": threads, "wall": _sum(threads), "threads_by": SWITCHES.stream}
    return whole.model_copy(update=about)


async def _slowest(call: Call, wanted: Selection) -> Timed:
    slices = lasting_or_refused(wanted.table, "stream").slices
    async with call[DATABASE].snapshot() as connection:
        found, _ = await slowest_rows(connection, wanted, slices.lasting, 1)
    if not found:
        raise UnknownThing(f"no row of {wanted.table.name} in this time meets this", parameter="where")
    (row,) = await call[READER].presented(wanted.table, found)
    if row["pid"] is None:
        raise InvalidQuery(f"this row of {wanted.table.name} belongs to no process", parameter="stream")
    return timed(wanted.table, row)


async def _split(
    call: Call, one: Timed, process: Process, lanes: list[Lane]
) -> tuple[Split | None, str | None, list[Missing]]:
    """The split; or why there is none, and which stream would tell."""
    if split := split_of_row(one):
        return split, None, []
    if pieces := pieces_of(one, call[TABLES].values()):
        if split := await split_by_pieces(call[DATABASE], one, pieces, process.machine):
            return split, None, []
        reason = f"The rows of {pieces.name} that would tell where its time went were not recorded."
        return None, reason, [missing_stream(call, pieces.name, process.pid, "events")]
    if not one.on_thread:
        reason = (
            f"It is not known which of the process's threads worked on it, and when: {one.table.name} does not record "
            "it, so its time is not split. What is said of threads is of all threads of the process."
        )
        return None, reason, []
    tid = one.row["tid"]
    lane = next((lane for lane in lanes if lane.tid == tid), None)
    if lane is None:
        reason = f"What its thread {tid} did meanwhile was not recorded."
        return None, reason, [missing_stream(call, SWITCHES.stream, process.pid, "events")]
    parts = {"on_cpu": lane.on_cpu_ns[0], "run_queue": lane.run_queue_ns[0], "blocked": lane.blocked_ns[0]}
    return Split(SWITCHES.stream, {**parts, "unknown": one.lasted_ns - lane.total_ns}), None, []


def _request(one: Timed, split: Split | None, reason: str | None) -> RequestTime:
    described = one.table.described
    told = {one.slices.lasting, *(name for names in part_columns(one.table).values() for name in names)}
    begin, end = one.window()
    return RequestTime(
        stream=one.table.name,
        name=one.name,
        begin=begin,
        end=end,
        duration_ns=one.lasted_ns,
        tid=one.row["tid"] if one.on_thread else None,
        parts=[RequestPart(part=part, ns=ns) for part, ns in (split.parts if split else {}).items()],
        split_by=split.by if split else None,
        pieces=split.pieces if split else 0,
        not_split=reason,
        causes=[RequestCause(text=each.text, pieces=each.pieces, ns=each.ns) for each in split.causes] if split else [],
        times=[
            RequestTimes(column=each.name, meaning=each.meaning, ns=one.row[each.name])
            for each in described.columns
            if each.unit == "ns" and not each.identity and each.name not in told and one.row[each.name]
        ],
        where=one.where,
    )


def _thread(lane: Lane) -> ThreadTime:
    return ThreadTime(
        tid=lane.tid,
        name=lane.name,
        total_ns=lane.total_ns,
        on_cpu_ns=lane.on_cpu_ns[0],
        run_queue_ns=lane.run_queue_ns[0],
        blocked_ns=lane.blocked_ns[0],
    )


def _sum(threads: list[ThreadTime]) -> WallTime:
    names = ("total_ns", "on_cpu_ns", "run_queue_ns", "blocked_ns")
    return WallTime(**{name: sum(getattr(each, name) for each in threads) for name in names})
