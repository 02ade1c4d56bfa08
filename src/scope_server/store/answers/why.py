"""Where the time of a process went, from the rows of all streams that tell something of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scope_catalogue.condition import And
from scope_catalogue.where import read_filter
from scope_server.store.reading.database import Database
from scope_server.store.reading.selection import Selection
from scope_server.store.totals.cells import read_cells
from scope_server.store.totals.question import MOST_GROUPS, asked
from scope_server.store.totals.reader import Totals

_WALL = "sum(total_ns), sum(on_cpu_ns), sum(run_queue_ns), sum(blocked_ns)"


@dataclass(frozen=True)
class Asked:
    """Totals of one stream.

    Attributes:
        where: besides the process; empty: all its rows.
    """

    stream: str
    cells: str
    by: tuple[str, ...] = ()
    where: str = ""
    top: int = 20


WALL = Asked("why_summary", _WALL)
THREADS = Asked("why_summary", _WALL, ("tid", "thread_comm"), top=MOST_GROUPS)
CALLS = Asked("why_summary", "sum(blocked_ns), sum(count)", ("blocked_in", "file_kind", "path"), "blocked_ns > 0")
FAULTS = Asked("page_fault_summary", "sum(total_ns), sum(count)", ("kind",))
SYSCALLS = Asked("syscall_summary", "sum(total_ns), sum(count), sum(errors)", ("name",))
FILES = Asked("file_summary", "sum(read_ns), sum(write_ns), sum(read_bytes), sum(write_bytes)", ("path",))
# A wait for a lock ends when its holder gives the lock up; by `waker_comm`, which every kind of lock has.
LOCKS = Asked("lock_wait", "sum(duration_ns), count", ("address", "waker_comm", "waker_tid"), "kind = 'lock'")
DISKS = Asked("block_summary", "sum(queue_ns), sum(device_ns), sum(bytes), sum(count)", ("disk", "operation"))
PEERS = Asked(
    "connection_summary",
    "sum(sent_bytes), sum(received_bytes), sum(begun), sum(failed), sum(retransmits), sum(rtt_ns), sum(rtt_count)",
    ("remote", "port", "direction"),
)
# Without rows of `why`: of all threads, but a sleep is not told apart from a wait in a call.
SCHEDULED = Asked(
    "sched_summary", "sum(on_cpu_ns), sum(run_queue_ns), sum(off_cpu_ns)", ("tid", "thread_comm"), top=100
)


@dataclass(frozen=True)
class Found:
    """Groups, with columns and sums by name.

    Attributes:
        complete: all rows of the window were read.
    """

    groups: Sequence[dict[str, Any]]
    complete: bool


async def found(database: Database, process: Selection, what: Asked) -> Found:
    """Totals of the rows of a process.

    Args:
        process: the window, with a filter on the process; of the stream that is asked for.

    Raises:
        InvalidQuery: the query takes too long.
        StoreUnavailable: the database cannot be reached.
    """
    table = process.table
    if what.where:
        both = read_filter(what.where, table.types)
        process = replace(process, where=And((process.where, both)) if process.where else both)
    cells = read_cells(what.cells, table)
    question = asked(process, cells=cells, by=what.by, every=None, order="", top=what.top)
    answer = await Totals(database).groups(question)
    groups = [
        {**group.key, **{cell.column or cell.text: group.values[cell.text] or 0 for cell in cells}}
        for group in answer.groups
        if any(group.values.values())
    ]
    return Found(groups, answer.complete)
