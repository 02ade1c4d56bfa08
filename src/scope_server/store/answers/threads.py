"""The threads of a process over time, from the rows of switches or of summaries."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from scope_server.store.answers.sample import Sample, sample
from scope_server.store.answers.texts import texts_of
from scope_server.store.reading.database import Database
from scope_server.store.reading.selection import Selection
from scope_views.why import lanes
from scope_views.why.lanes import Lane

MOST_ROWS = 200_000  # that an answer reads
_TRIES = 4
# A row tells of the time before it: of a long sleep, or of an interval.
_AHEAD = timedelta(seconds=10)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Source:
    """A stream that tells what threads did when.

    Attributes:
        name: the column with a thread's name.
        times: columns of ns.
        told: those that together are the time that a row tells of.
        lanes: makes lanes of its rows.
    """

    stream: str
    name: str
    times: tuple[str, ...]
    told: tuple[str, ...]
    lanes: Callable[[pa.Table, Sequence[int]], list[Lane]]


_OF_SWITCHES = ("on_cpu_ns", "run_queue_ns", "off_cpu_ns")
SWITCHES = Source("switch", "comm", _OF_SWITCHES, _OF_SWITCHES, lanes.of_switches)
INTERVALS = Source(
    "why_summary",
    "thread_comm",
    ("interval_ns", "on_cpu_ns", "run_queue_ns", "blocked_ns"),
    ("interval_ns",),
    lanes.of_summaries,
)


@dataclass(frozen=True)
class Threads:
    """What was recorded of a process's threads.

    Attributes:
        since, until: between which the lanes are. Of a window that rows tell little of, it is that part; and the
            newest part, if there are too many rows.
        lanes: empty: nothing was source.
        interval_ns: times are exact to this; 0: to the nanosecond.
        complete: it is all that was recorded in the window.
    """

    source: Source
    since: datetime
    until: datetime
    lanes: list[Lane]
    interval_ns: int
    complete: bool

    @property
    def step_ns(self) -> int:
        """The length of a step; the last one may differ by some ns."""
        return (_ns(self.until) - _ns(self.since)) // max(1, len(self.lanes[0].on_cpu_ns) if self.lanes else 1)


async def threads(database: Database, rows: Selection, source: Source, steps: int) -> Threads:
    """The threads of a process in a window, each step of which is as long as the others.

    Args:
        rows: of the process, in the window; of the stream that is read.

    Raises:
        QueryTooSlow: the query takes too long.
        StoreUnavailable: the database cannot be reached.
    """
    assert rows.since and rows.until
    since, until = rows.since, rows.until
    for _ in range(_TRIES):
        found, texts = await _read(database, replace(rows, since=since, until=until + _AHEAD), source)
        if found.whole:
            break
        # The newest part, of which all rows are read; a little less than that, as rows are not spread evenly.
        since = until - (until - since) * min(0.5, 0.8 * MOST_ROWS / max(1, found.estimate))
    return await asyncio.to_thread(_threads, found, texts, source, (since, until), steps)


async def exact(database: Database, rows: Selection, begin_ns: int, end_ns: int) -> list[Lane] | None:
    """The threads of a process between two moments, in ns since 1970, in one step; None: there are too many switches.

    Raises:
        QueryTooSlow: the query takes too long.
        StoreUnavailable: the database cannot be reached.
    """
    assert rows.until
    found, texts = await _read(database, replace(rows, until=rows.until + _AHEAD), SWITCHES)
    if not found.whole:
        return None
    return lanes.of_switches(_as_taken(found.rows, texts, SWITCHES), [begin_ns, end_ns])


async def _read(database: Database, rows: Selection, source: Source) -> tuple[Sample, dict[int, str]]:
    wanted = ("time", "ktime_ns", "tid", source.name, *source.times)
    async with database.snapshot() as connection:
        found = await sample(connection, rows, MOST_ROWS, wanted)
        keys = pc.unique(found.rows[source.name]).to_pylist()
        column = rows.table.column(source.name)
        if column is None or column.dimension is None:
            return found, {}
        return found, await texts_of(connection, column.dimension, (key for key in keys if key is not None))


def _threads(
    found: Sample, texts: dict[int, str], source: Source, window: tuple[datetime, datetime], steps: int
) -> Threads:
    taken = _as_taken(found.rows, texts, source)
    since, until = _told(taken, source, window)
    interval_ns = pc.max(taken["interval_ns"]).as_py() or 0 if "interval_ns" in source.times else 0
    made = source.lanes(taken, _edges(since, until, steps))
    return Threads(source, since, until, made, interval_ns, found.whole)


def _told(taken: pa.Table, source: Source, window: tuple[datetime, datetime]) -> tuple[datetime, datetime]:
    """The part of the window that rows tell of, if that is less than half of it: a process may have lived shortly."""
    since, until = window
    if not len(taken):
        return window
    ends = taken["at_ns"].to_numpy()
    lasted = sum(taken[name].fill_null(0).to_numpy().astype("int64") for name in source.told)
    first, last = (_EPOCH + timedelta(microseconds=int(ns) // 1000) for ns in ((ends - lasted).min(), ends.max()))
    begin, end = max(since, first), min(until, last + timedelta(microseconds=1))
    return (begin, end) if timedelta() < end - begin < (until - since) / 2 else window


def _as_taken(rows: pa.Table, texts: dict[int, str], source: Source) -> pa.Table:
    """Rows as scope_views.why.lanes takes them."""
    keys = rows[source.name].combine_chunks().dictionary_encode()
    found = pa.array([texts.get(key) for key in keys.dictionary.to_pylist()], pa.string()).take(keys.indices)
    micros = rows["time"].cast(pa.int64()).to_numpy()
    return pa.table(
        {
            "tid": rows["tid"],
            "name": found,
            "at_ns": pa.array(micros * 1000 + rows["ktime_ns"].to_numpy() % 1000),
            **{name: rows[name] for name in source.times},
        }
    )


def _edges(since: datetime, until: datetime, steps: int) -> list[int]:
    begin, length = _ns(since), _ns(until) - _ns(since)
    return [begin + length * step // steps for step in range(steps + 1)]


def _ns(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000
