"""When rows of a stream last, by thread or by process, and the samples of another stream within these times."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from psycopg import sql

from scope_server.store.answers.lasting import Lasting
from scope_server.store.reading.filters import array
from scope_server.store.reading.selection import Selection
from scope_server.store.schema.columns import StreamTable
from scope_views.matching import matching

_LAST_NS = 1 << 62  # of the boot clock: 146 years
_LONGEST_US = 400 * 86_400_000_000
# Times of two streams are told by clocks that were read apart. They only choose blocks: the boot clock decides.
_DRIFT = timedelta(seconds=5)

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """When rows lasted.

    Attributes:
        of: process and thread (0: all of the process) -> begins and ends by the boot clock, in ns, shape (n, 2); in
            order, both included, without overlaps.
        since: no span begins before.
        until: all have ended before.
    """

    of: Mapping[tuple[int, int], Times]
    since: datetime
    until: datetime
    of_thread: bool

    def holding(self) -> sql.Composed:
        """The condition on rows, which are called `r`, that one of the spans holds the row's time."""
        keys = list(self.of)
        texts = ["{" + ",".join(f"[{begin},{end}]" for begin, end in its.tolist()) + "}" for its in self.of.values()]
        return sql.SQL(
            "EXISTS (SELECT FROM unnest({}, {}, {}::int8multirange[]) AS s (process, tid, times)"
            " WHERE s.process = r.process{} AND s.times @> r.ktime_ns)"
        ).format(
            array([process for process, _ in keys]),
            array([tid for _, tid in keys]),
            sql.Literal(texts),
            sql.SQL(" AND s.tid = r.tid" if self.of_thread else ""),
        )

    @property
    def processes(self) -> list[int]:
        """The keys of their processes."""
        return sorted({process for process, _ in self.of})


def spans(rows: pa.Table, how: Lasting) -> Spans:
    """When rows lasted.

    Args:
        rows: with `how.columns`, as stored. A row without a length does not last, and of a row that its thread may not
            have been in, it is not known who was.
    """
    if how.by_thread is not None:
        rows = rows.filter(matching(how.by_thread, rows))
    rows = rows.filter(rows[how.slices.lasting].is_valid())
    lengths = rows[how.slices.lasting].to_numpy()
    length = np.where(lengths >= 0, np.minimum(lengths, _LAST_NS), _LAST_NS).astype(np.int64)
    at = np.clip(rows["ktime_ns"].to_numpy(), 0, _LAST_NS)
    begin, end = (np.maximum(at - length, 0), at) if how.slices.ending else (at, np.minimum(at + length, _LAST_NS))
    process = rows["process"].to_numpy()
    tid = rows["tid"].to_numpy().astype(np.int64) if how.of_thread else np.zeros(len(rows), np.int64)
    order = np.lexsort((begin, tid, process))
    begin, end, process, tid = begin[order], end[order], process[order], tid[order]
    edges = np.flatnonzero((np.diff(process) != 0) | (np.diff(tid) != 0)) + 1
    parts = zip(
        np.split(begin, edges), np.split(end, edges), np.split(process, edges), np.split(tid, edges), strict=True
    )
    found = {(int(of[0]), int(thread[0])): _united(first, last) for first, last, of, thread in parts if len(first)}
    since, until = _window(
        rows["time"].cast(pa.int64()).to_numpy(), np.minimum(length // 1000, _LONGEST_US), how.slices.ending
    )
    return Spans(found, since, until, how.of_thread)


def _united(begin: Times, end: Times) -> Times:
    """Spans in order of their begin, as spans without overlaps."""
    reached = np.maximum.accumulate(end)
    apart = np.concatenate(([True], begin[1:] > reached[:-1]))
    last = np.concatenate((np.flatnonzero(apart)[1:] - 1, [len(begin) - 1]))
    return np.stack((begin[apart], reached[last]), axis=1)


def _window(time_us: Times, length_us: Times, ending: bool) -> tuple[datetime, datetime]:
    if not len(time_us):
        return datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(0, UTC)
    first, last = (time_us - length_us, time_us) if ending else (time_us, time_us + length_us)
    since, until = (
        datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(us)) for us in (first.min(), last.max())
    )
    return since - _DRIFT, until + _DRIFT


@dataclass(frozen=True)
class Within(Selection):
    """Samples of a stream within spans, and not within others.

    Attributes:
        spans: that hold the samples.
        besides: that hold none of them.
    """

    spans: Spans = field(kw_only=True)
    besides: Spans | None = field(kw_only=True, default=None)


def within(table: StreamTable, of: Spans, besides: Spans | None = None) -> Within:
    """The samples of a stream within spans, and not within others."""
    return Within(table, None, of.since, of.until, spans=of, besides=besides)
